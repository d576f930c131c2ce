"""``calibrant compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli._json import print_json
from calibrant.cli._judging import default_bins
from calibrant.cli._options import AsJson, Bins, Input, LabelsKey, ScoresKey
from calibrant.cli._progress import method_bar, working
from calibrant.cli._tables import HEADINGS, metric_table, print_table

if TYPE_CHECKING:
    from calibrant.comparison import Comparison, MethodResult


def compare(
    val: Annotated[Path, typer.Argument(metavar="VAL", help="Scores to fit on.")],
    test: Annotated[Path, typer.Argument(metavar="TEST", help="Scores to judge on.")],
    methods: Annotated[
        str | None, typer.Option(help="Acronyms, separated by commas; left out: all.")
    ] = None,
    bins: Bins = None,
    kind: Input = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    as_json: AsJson = False,
) -> None:
    """Fit all methods on validation scores and compare them on test scores."""
    from calibrant import comparison
    from calibrant.scorefiles import read_scores

    bins = bins or default_bins()
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    reading: dict[str, Any] = {"scores_key": scores_key, "labels_key": labels_key, "kind": kind}
    with working("reading"):
        fitted, judged = read_scores(val, **reading), read_scores(test, **reading)
    if fitted.kind != judged.kind:
        raise ValueError(f"{val} has {fitted.kind}, but {test} has {judged.kind}")
    with method_bar() as progress:
        results = comparison.compare(
            fitted.scores,
            fitted.labels,
            judged.scores,
            judged.labels,
            methods=names,
            input=fitted.kind,
            n_bins=bins,
            progress=progress,
        )
    if as_json:
        print_json({"bins": bins, "methods": [_document(result) for result in results]})
    else:
        title = f"fitted on {len(fitted.scores)}, judged on {len(judged.scores)} rows"
        _print_results(title, results, bins)


def _document(result: MethodResult) -> dict[str, Any]:
    """A result with its values beside its other fields."""
    document = result.to_dict()
    return {**document.pop("values"), **document}


def _print_results(title: str, results: Comparison, bins: int) -> None:
    """A table of the metrics, then what the fits warned of."""
    judged = {
        result.method: {
            **{metric: getattr(result, metric) for metric in HEADINGS},
            "fit_ms": 1000.0 * result.fit_seconds,
        }
        for result in results
    }
    print_table(metric_table(title, judged, bins))
    for result in results:
        for note in result.notes:
            typer.echo(f"{result.method}: {note}")
