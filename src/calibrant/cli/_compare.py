"""``calibrant compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli._echo import say
from calibrant.cli._errors import in_flags
from calibrant.cli._inputs import about, check_same_kind
from calibrant.cli._json import print_json
from calibrant.cli._options import (
    AsJson,
    IgnoreIndex,
    Input,
    LabelsKey,
    MaxSize,
    NBins,
    ScoresKey,
    WeightsKey,
    given,
    listed,
)
from calibrant.cli._progress import method_bar, working
from calibrant.cli._tables import comparison_table, print_table

if TYPE_CHECKING:
    from calibrant.comparison import MethodResult


def compare(
    context: typer.Context,
    val: Annotated[Path, typer.Argument(metavar="VAL", help="Scores to fit on.")],
    test: Annotated[Path, typer.Argument(metavar="TEST", help="Scores to judge on.")],
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
    n_bins: NBins = None,
    kind: Input = None,
    val_labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labels of VAL in a file of their own.")
    ] = None,
    test_labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labels of TEST in a file of their own.")
    ] = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    weights_key: WeightsKey = None,
    ignore_index: IgnoreIndex = None,
    max_size: MaxSize = None,
    as_json: AsJson = False,
) -> None:
    """Fit all methods on validation scores and compare them on test scores."""
    from calibrant import comparison
    from calibrant._memory import parse_size
    from calibrant.metrics._labelled import labelled
    from calibrant.scorefiles import read_scores

    reading: dict[str, Any] = {
        "input": kind,
        "scores_key": scores_key,
        "labels_key": labels_key,
        "weights_key": weights_key,
        "max_size": parse_size(max_size),
    }
    with working("reading"):
        fitted = read_scores(val, labels_path=val_labels, **reading)
        judged = read_scores(test, labels_path=test_labels, **reading)
    check_same_kind(val, fitted.input, test, judged.input)
    for file, data in ((val, fitted), (test, judged)):
        with about(file), working(f"checking {file.name}"):
            labelled(data.scores, data.labels, data.weights, "strict", data.input, ignore_index)
    with method_bar() as progress:
        results = comparison.compare(
            fitted.scores,
            fitted.labels,
            judged.scores,
            judged.labels,
            methods=listed(methods),
            input=fitted.input,
            val_weight=fitted.weights,
            test_weight=judged.weights,
            ignore_index=ignore_index,
            progress=progress,
            **given(metrics=listed(metrics), n_bins=n_bins),
        )
    if as_json:
        print_json({"n_bins": results.n_bins, "methods": [_document(result) for result in results]})
        return
    title = f"fitted on {results.n_val:,}, judged on {results.n_test:,} rows"
    print_table(comparison_table(title, results))
    for result in results:
        for note in result.notes:
            say(f"{result.method}: {in_flags(note, context.command)}")


def _document(result: MethodResult) -> dict[str, Any]:
    """A result with its values beside its other fields."""
    document = result.to_dict()
    return {**document.pop("values"), **document}
