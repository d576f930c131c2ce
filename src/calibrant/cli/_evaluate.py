"""``calibrant evaluate``: one file in full, or many as a stream."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import calibrant
from calibrant.cli._inputs import load_both
from calibrant.cli._json import print_json
from calibrant.cli._judging import default_bins, judge
from calibrant.cli._options import AsJson, Bins, Input, LabelsFile, LabelsKey, ScoresKey
from calibrant.cli._progress import working
from calibrant.cli._tables import HEADINGS, metric_table, print_table

if TYPE_CHECKING:
    from calibrant.scorefiles import ScoreFile


def evaluate(
    scores: Annotated[
        list[Path],
        typer.Argument(
            metavar="SCORES..", help="A .npz, .npy, .csv, .parquet, .pt or .safetensors, or many."
        ),
    ],
    calibrator: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Judge its probabilities beside the scores'."),
    ] = None,
    bins: Bins = None,
    resamples: Annotated[
        int | None,
        typer.Option(min=0, help="Draws for intervals and null values; 0 leaves them out."),
    ] = None,
    kind: Input = None,
    labels: LabelsFile = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    as_json: AsJson = False,
) -> None:
    """Judge scores, and what a calibrator makes of them.

    One file is judged in full: every metric with its interval and the value that perfect
    calibration would show. Several files are read one after the other, in constant memory.
    """
    reading: dict[str, Any] = {
        "kind": kind,
        "scores_key": scores_key,
        "labels_key": labels_key,
        "labels_path": labels,
    }
    bins = bins or default_bins()
    if len(scores) == 1:
        _evaluate_file(scores[0], calibrator, reading, bins, resamples, as_json)
    elif labels is not None:
        raise ValueError("--labels goes with one file of scores; several must hold their labels")
    else:
        _evaluate_stream(scores, calibrator, reading, bins, as_json)


def _evaluate_file(
    file: Path,
    calibrator: Path | None,
    reading: Mapping[str, Any],
    bins: int,
    resamples: int | None,
    as_json: bool,
) -> None:
    """Judge one file in full; with a calibrator its probabilities, after both in a table."""
    method, data = load_both(calibrator, file, **reading)
    with working("evaluating"):
        probs = _as_probabilities(data)
        judged = {"scores": judge(probs, data.labels, bins)}
        if method is not None:
            probs = method.predict_proba(data.scores)
            judged["calibrated"] = judge(probs, data.labels, bins)
        options: dict[str, Any] = {} if resamples is None else {"n_resamples": resamples}
        evaluation = calibrant.evaluate(probs, data.labels, n_bins=bins, **options)
    rows = len(data.scores)
    if as_json:
        document = {"rows": rows, "input": data.kind, "bins": bins, **judged}
        print_json({**document, "evaluation": evaluation.to_dict()})
        return
    if method is not None:
        print_table(metric_table(f"{file.name}: {rows} rows", judged, bins))
    typer.echo(f"{'calibrated' if method else file.name}: {evaluation}")


def _evaluate_stream(
    files: list[Path],
    calibrator: Path | None,
    reading: Mapping[str, Any],
    bins: int,
    as_json: bool,
) -> None:
    """Judge many files as one: the meters add up, and no file is held longer than it is read."""
    from calibrant.metrics import CalibrationMeter

    meters = {"scores": CalibrationMeter(n_bins=bins)}
    if calibrator is not None:
        meters["calibrated"] = CalibrationMeter(n_bins=bins)
    for file in files:
        method, data = load_both(calibrator, file, **reading)
        meters["scores"].update(_as_probabilities(data), data.labels)
        if method is not None:
            meters["calibrated"].update(method.predict_proba(data.scores), data.labels)
    reports = {name: meter.compute() for name, meter in meters.items()}
    rows = int(reports["scores"].n_rows)
    judged = {
        name: {metric: getattr(report, metric) for metric in HEADINGS}
        for name, report in reports.items()
    }
    if as_json:
        print_json({"rows": rows, "files": len(files), "bins": bins, **judged})
    else:
        print_table(metric_table(f"{len(files)} files: {rows} rows", judged, bins))


def _as_probabilities(data: ScoreFile) -> Any:
    if data.kind == "probs":
        return data.scores
    return calibrant.Uncalibrated().fit(data.scores, data.labels).predict_proba(data.scores)
