"""``calibrant compare``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli._errors import in_flags
from calibrant.cli._inputs import read_pair
from calibrant.cli._json import print_json
from calibrant.cli._options import (
    AsJson,
    DrawSeed,
    IgnoreIndex,
    Input,
    LabelsKey,
    Level,
    MaxSize,
    NBins,
    Notion,
    NResamples,
    ScoresKey,
    TestLabels,
    ValLabels,
    WeightsKey,
    given,
    listed,
)
from calibrant.cli._progress import method_bar
from calibrant.cli._tables import show
from calibrant.common.errors import did_you_mean

if TYPE_CHECKING:
    from calibrant.evaluation.comparison import Comparison, MethodResult


def compare(
    context: typer.Context,
    val: Annotated[Path, typer.Argument(metavar="VAL", help="Scores to fit on.")],
    test: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TEST]",
            help="Scores to judge on; left out: parts of VAL that are left out in turn.",
        ),
    ] = None,
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
    n_bins: NBins = None,
    n_resamples: NResamples = None,
    level: Level = None,
    random_state: DrawSeed = None,
    notion: Notion = None,
    kind: Input = None,
    labels: ValLabels = None,
    test_labels: TestLabels = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    weights_key: WeightsKey = None,
    ignore_index: IgnoreIndex = None,
    max_size: MaxSize = None,
    as_json: AsJson = False,
) -> None:
    """Fit all methods on validation scores and compare them on test scores.

    With one file the methods are cross-validated on it, so that none is chosen on the test set.
    """
    from calibrant.common.memory import parse_size
    from calibrant.evaluation import comparison

    names = listed(metrics) or comparison.DEFAULT_METRICS
    if by is not None and by not in names:
        hint = did_you_mean(by, names)
        raise ValueError(f"--by must be one of {', '.join(names)}, got {by!r}{hint}")
    if test is not None and cv is not None:
        raise ValueError("--cv goes with one file: with TEST nothing is left out")
    reading: dict[str, Any] = {
        "input": kind,
        "scores_key": scores_key,
        "labels_key": labels_key,
        "weights_key": weights_key,
        "max_size": parse_size(max_size),
    }
    fitted, judged = read_pair(val, test, (labels, test_labels), ignore_index, **reading)
    with method_bar() as progress:
        results = comparison.compare(
            fitted.scores,
            fitted.labels,
            None if judged is None else judged.scores,
            None if judged is None else judged.labels,
            methods=listed(methods),
            input=fitted.input,
            val_weight=fitted.weights,
            test_weight=None if judged is None else judged.weights,
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
    _print(results, by, as_json, context)


def _print(results: Comparison, by: str | None, as_json: bool, context: typer.Context) -> None:
    from calibrant.common.tables import Tables

    if as_json:
        sizes = {name: getattr(results, name) for name in _SIZES}
        chosen = results.recommended().method if results.is_tested() else None
        methods = [_document(result) for result in results]
        print_json({**sizes, "recommended": chosen, "methods": methods})
        return
    told = [
        replace(result, notes=tuple(in_flags(note, context.command) for note in result.notes))
        for result in results
    ]
    show(Tables(replace(results, results=tuple(told))._tables(by)))


_SIZES = ("n_val", "n_test", "n_folds", "n_bins", "level", "n_resamples", "notion")


def _document(result: MethodResult) -> dict[str, Any]:
    """A result with its values beside its other fields."""
    document = result.to_dict()
    return {**document.pop("values"), **document}
