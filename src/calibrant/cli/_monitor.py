"""``calibrant monitor``."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli._inputs import note_unlabelled
from calibrant.cli._options import (
    IgnoreIndex,
    Input,
    LabelsFile,
    LabelsKey,
    MaxSize,
    NBins,
    Notion,
    ScoresFiles,
    ScoresKey,
    given,
)
from calibrant.cli._streaming import open_for


def monitor(
    scores: ScoresFiles,
    window: Annotated[int, typer.Option(min=1, help="Rows of a window.")] = 10_000,
    expected_run: Annotated[
        float | None,
        typer.Option(min=1.0, help="Windows until a false alarm, at least; left out: 1000."),
    ] = None,
    min_error: Annotated[
        float | None,
        typer.Option(help="The debiased RMS-ECE below which there is no alarm; left out: 0."),
    ] = None,
    n_bins: NBins = None,
    notion: Notion = None,
    kind: Input = None,
    labels: LabelsFile = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    ignore_index: IgnoreIndex = None,
    max_size: MaxSize = None,
) -> None:
    """Watch calibration over rows in their order: a line of JSON for every window.

    Rows at the end that fill no window are a window of their own; rows without a label are left
    out. The exit code is 0, alarms or not.
    """
    from calibrant.common.memory import parse_size
    from calibrant.data.scorefiles._unlabelled import no_labels
    from calibrant.scale.monitoring import CalibrationMonitor

    stream = open_for(
        None,
        scores,
        input=kind,
        scores_key=scores_key,
        labels_key=labels_key,
        labels_path=labels,
        max_size=parse_size(max_size),
    )
    if stream.input == "confidence":
        raise ValueError("a monitor reads logits or probs, got confidences alone")
    settings = given(expected_run=expected_run, min_error=min_error, n_bins=n_bins, notion=notion)
    watch = CalibrationMonitor(window, input=stream.input, **settings)
    unlabelled = 0
    for batch in stream:
        rows, without = batch.labelled()
        unlabelled += without
        with batch.blamed():
            ended = watch.update(rows.scores, rows.labels, ignore_index=ignore_index)
        for one in ended:
            typer.echo(one.to_json())
    last = watch.close()
    if last is not None:
        typer.echo(last.to_json())
    if unlabelled and not watch.windows:
        raise ValueError(no_labels(unlabelled))
    note_unlabelled(unlabelled)
