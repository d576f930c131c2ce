"""``calibrant compare``, and ``calibrant demo``, which compares on embedded logits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli import _options as option
from calibrant.cli._errors import in_flags
from calibrant.cli._inputs import EMBEDDED, embedded, how_to_read, pair_arguments, read_pair
from calibrant.cli._options import given, listed
from calibrant.cli._output import method_bar, print_json, say, show, working
from calibrant.common.errors import did_you_mean

DEMO_METHODS = {"Uncalibrated": "base", "TS": "ts", "ETS": "ets", "PTS": "pts"}
DEMO_METRICS = ("accuracy", "ece", "brier", "nll")
_SIZES = ("n_val", "n_test", "n_folds", "n_bins", "level", "n_resamples", "notion")


def compare(
    context: typer.Context,
    val: Annotated[Path, typer.Argument(metavar="VAL", help="Scores to fit on.")],
    test: option.TestScores = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Acronyms, separated by commas; left out: all."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Separated by commas, as in `calibrant evaluate --help`; left out: accuracy, ece, "
            "classwise_ece, brier, nll.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The metric shown with intervals and differences to the best; left out: nll.",
        ),
    ] = None,
    cv: Annotated[
        int | None, typer.Option(min=2, help="Folds where there is no TEST; left out: 5.")
    ] = None,
    n_bins: option.NBins = None,
    n_resamples: option.NResamples = None,
    level: option.Level = None,
    random_state: option.DrawSeed = None,
    notion: option.Notion = None,
    kind: option.Input = None,
    labels: option.ValLabels = None,
    test_labels: option.TestLabels = None,
    scores_key: option.ScoresKey = None,
    labels_key: option.LabelsKey = None,
    weights_key: option.WeightsKey = None,
    covariates: option.Covariates = None,
    ignore_index: option.IgnoreIndex = None,
    max_size: option.MaxSize = None,
    as_json: option.AsJson = False,
) -> None:
    """Fit all methods on validation scores and compare them on test scores.

    With one file the methods are cross-validated on it, so that none is chosen on the test set.
    """
    from calibrant.common.tables import Tables
    from calibrant.evaluation import comparison

    names = listed(metrics) or comparison.DEFAULT_METRICS
    if by is not None and by not in names:
        hint = did_you_mean(by, names)
        raise ValueError(f"--by must be one of {', '.join(names)}, got {by!r}{hint}")
    if test is not None and cv is not None:
        raise ValueError("--cv goes with one file: with TEST nothing is left out")
    keys = {"weights_key": weights_key, "covariates": covariates}
    reading = how_to_read(kind, scores_key, labels_key, max_size, **keys)
    pair = read_pair(val, test, (labels, test_labels), ignore_index, **reading)
    with method_bar() as progress:
        results = comparison.compare(
            **pair_arguments(*pair),
            methods=listed(methods),
            ignore_index=ignore_index,
            notion=notion,
            progress=progress,
            **given(
                metrics=listed(metrics),
                n_bins=n_bins,
                cv=cv,
                n_resamples=n_resamples,
                level=level,
                random_state=random_state,
            ),
        )
    if as_json:
        sizes = {name: getattr(results, name) for name in _SIZES}
        chosen = results.recommended().method if results.is_tested() else None
        documents = [result.to_dict() for result in results]
        entries = [{**document.pop("values"), **document} for document in documents]
        print_json({**sizes, "recommended": chosen, "methods": entries})
        return
    in_words = [
        replace(result, notes=tuple(in_flags(note, context.command) for note in result.notes))
        for result in results
    ]
    show(Tables(replace(results, results=tuple(in_words))._tables(by)))


def demo(
    dataset: Annotated[str, typer.Option(help="One of the embedded sets of logits.")] = EMBEDDED,
    as_json: option.AsJson = False,
) -> None:
    """Calibrate a real network's logits that come with the package, and compare the methods."""
    with working("loading"):
        from calibrant.evaluation import comparison

        pair = embedded(dataset)
    with method_bar() as progress:
        results = comparison.compare(
            **pair_arguments(*pair), methods=DEMO_METHODS, metrics=DEMO_METRICS, progress=progress
        )
    if as_json:
        sizes = {"n_val": results.n_val, "n_test": results.n_test}
        methods = {
            result.method: {**result.values, "fit_ms": 1000.0 * result.fit_seconds}
            for result in results
        }
        print_json({"dataset": dataset, **sizes, "n_bins": results.n_bins, "methods": methods})
        return
    show(results, dataset)
    say(
        "",
        "Next: save your own validation logits and labels as the arrays `logits` and",
        "`labels` of val.npz, then run: calibrant fit val.npz -o auto.safetensors",
    )
