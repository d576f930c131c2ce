"""``calibrant evaluate`` and ``calibrant monitor``: scores judged, all at once or over time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import _inputs as inputs
from calibrant.cli import _options as option
from calibrant.cli._options import given, listed
from calibrant.cli._output import metric_table, print_json, row_bar, say, show, working

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.data.scorefiles import ScoreFile
    from calibrant.evaluation import Evaluation
    from calibrant.metrics import MeterReport
    from calibrant.metrics._reports import MetricReport


def evaluate(
    scores: option.ScoresFiles,
    calibrator: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Judge its probabilities beside the scores'."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Separated by commas, such as ece,nll (a wrong one lists them all); left out: "
            "all, with the tests; of several files those of `calibrant compare`.",
        ),
    ] = None,
    n_bins: option.NBins = None,
    n_resamples: option.NResamples = None,
    level: option.Level = None,
    random_state: option.DrawSeed = None,
    notion: option.Notion = None,
    kind: option.Input = None,
    labels: option.LabelsFile = None,
    scores_key: option.ScoresKey = None,
    labels_key: option.LabelsKey = None,
    weights_key: option.WeightsKey = None,
    ignore_index: option.IgnoreIndex = None,
    max_size: option.MaxSize = None,
    engine: option.Engine = "local",
    address: option.Address = None,
    as_json: option.AsJson = False,
) -> None:
    """Judge scores, and what a calibrator makes of them.

    One file is judged in full: every metric with its interval and the value that perfect
    calibration would show. A folder, a pattern or many files are read as a stream, in constant
    memory; confidences without the other probabilities give the metrics of the predicted class.
    """
    from calibrant.io import load_calibrator

    streamed = inputs.is_stream(scores)
    if n_resamples is not None and streamed:
        raise ValueError("--n-resamples goes with one file of scores: a stream is not drawn anew")
    if level is not None and streamed:
        raise ValueError("--level goes with one file of scores: a stream has no intervals")
    if labels is not None and len(scores) > 1:
        raise ValueError("--labels goes with one file of scores; several must hold their labels")
    if not streamed:
        inputs.refuse_stream_options(engine=engine, address=address)
    names = _names(metrics, weighted=weights_key is not None, in_parts=streamed)
    method = load_calibrator(calibrator) if calibrator else None
    reading = inputs.how_to_read(
        kind, scores_key, labels_key, max_size, weights_key=weights_key, labels_path=labels
    )
    bins = given(n_bins=n_bins, notion=notion)
    if streamed:
        stream, who = inputs.open_for(method, scores, **reading), inputs.workers(engine, address)
        with row_bar("evaluating") as progress:
            reports = who.judged(
                stream, method, ignore_index=ignore_index, progress=progress, **bins
            )
        _print_reports(len(stream.sources), reports, metrics is None, names, as_json)
        return
    data = inputs.read_for([method] if method else [], scores[0], **reading)
    with inputs.about(scores[0]):
        data, unlabelled = data.labelled()
    rows = {"sample_weight": data.weights, "ignore_index": ignore_index, **bins}
    draws = given(
        n_resamples=n_resamples, level=level, random_state=random_state, metrics=listed(metrics)
    )
    with inputs.about(scores[0]), working("evaluating"):
        evaluations = _evaluate(data, method, names, rows, draws)
    _print_evaluations(scores[0], data.input, unlabelled, evaluations, names, as_json)


def _names(metrics: str | None, *, weighted: bool, in_parts: bool) -> list[str]:
    """The metrics that tables show; a name that cannot be served is refused before the work."""
    from calibrant.evaluation.comparison import DEFAULT_METRICS
    from calibrant.metrics._registry import metrics_named

    chosen = metrics_named(listed(metrics) or DEFAULT_METRICS, weighted=weighted)
    for metric in chosen:
        if in_parts and not metric.mergeable:
            raise ValueError(f"--metrics: {metric.name} needs all rows at once, in one file")
    return [metric.name for metric in chosen]


# --- one file ---------------------------------------------------------------------------------


def _evaluate(
    data: ScoreFile,
    method: Calibrator | None,
    names: list[str],
    rows: Mapping[str, Any],
    draws: Mapping[str, Any],
) -> dict[str, Evaluation]:
    """The scores in full or, where there is a calibrator, its probabilities beside them."""
    from calibrant.evaluation import evaluate

    if method is None:
        return {"scores": evaluate(data.scores, data.labels, input=data.input, **rows, **draws)}
    plainly: dict[str, Any] = {"metrics": names, "n_resamples": 0}
    probs = method.predict_proba(data.scores, covariates=data.covariates)
    return {
        "scores": evaluate(data.scores, data.labels, input=data.input, **rows, **plainly),
        "calibrated": evaluate(probs, data.labels, **rows, **draws),
    }


def _print_evaluations(
    file: Path,
    kind: str,
    unlabelled: int,
    evaluations: Mapping[str, Evaluation],
    names: list[str],
    as_json: bool,
) -> None:
    """A table of the scores and the calibrated probabilities, then the last of them in full."""
    from calibrant.common.tables import counted
    from calibrant.metrics._reports import of_class_1

    judged, (subject, full) = _values(evaluations, names), list(evaluations.items())[-1]
    n_bins = len(full.bins.weight)
    if as_json:
        sizes = {"n_rows": full.n_rows, "n_unlabelled": unlabelled}
        document = {**sizes, "input": kind, "n_bins": n_bins, **judged}
        print_json({**document, "evaluation": full.to_dict()})
        return
    if len(evaluations) > 1:
        title = counted(full.n_rows, "row") + of_class_1(full.notion)
        show(metric_table(title, judged), file.name)
        say("")
    show(full, file.name if subject == "scores" else subject)
    if unlabelled:
        say(inputs.rows_without_label(unlabelled))


# --- many files -------------------------------------------------------------------------------


def _print_reports(
    n_files: int,
    reports: Mapping[str, MeterReport],
    by_default: bool,
    names: list[str],
    as_json: bool,
) -> None:
    """A table of the scores and, where there is a calibrator, of its probabilities."""
    from calibrant.common.tables import counted
    from calibrant.metrics._reports import of_class_1

    known = reports["scores"].metrics
    if by_default:  # confidences alone determine some of them
        names = [name for name in names if name in known]
    for name in names:
        if name not in known:
            raise ValueError(
                f"--metrics: {name} needs more than confidences; got {', '.join(known)}"
            )
    judged, scores = _values(reports, names), reports["scores"]
    n_bins = len(scores.bins.weight)
    if as_json:
        sizes = {"n_rows": scores.n_rows, "n_unlabelled": scores.n_unlabelled, "files": n_files}
        print_json({**sizes, "n_bins": n_bins, **judged})
    else:
        size = f"{counted(scores.n_rows, 'row')}, {counted(n_bins, 'bin')}"
        size += of_class_1(scores.notion)
        show(metric_table(size, judged), counted(n_files, "file"))
        if scores.n_unlabelled:
            say(inputs.rows_without_label(scores.n_unlabelled))


def _values(reports: Mapping[str, MetricReport], names: list[str]) -> dict[str, dict[str, float]]:
    """The values of some metrics, by what was judged and by the metrics' names."""
    return {
        subject: {name: report.metrics[name].value for name in names}
        for subject, report in reports.items()
    }


# --- over time --------------------------------------------------------------------------------


def monitor(
    scores: option.ScoresFiles,
    window: Annotated[int, typer.Option(min=1, help="Rows of a window.")] = 10_000,
    expected_run: Annotated[
        float | None,
        typer.Option(min=1.0, help="Windows until a false alarm, at least; left out: 1000."),
    ] = None,
    min_error: Annotated[
        float | None,
        typer.Option(help="The debiased RMS-ECE below which there is no alarm; left out: 0."),
    ] = None,
    n_bins: option.NBins = None,
    notion: option.Notion = None,
    kind: option.Input = None,
    labels: option.LabelsFile = None,
    scores_key: option.ScoresKey = None,
    labels_key: option.LabelsKey = None,
    ignore_index: option.IgnoreIndex = None,
    max_size: option.MaxSize = None,
) -> None:
    """Watch calibration over rows in their order: a line of JSON for every window.

    Rows at the end that fill no window are a window of their own; rows without a label are left
    out. The exit code is 0, alarms or not.
    """
    from calibrant.data.scorefiles._reading import no_labels
    from calibrant.scale.monitoring import CalibrationMonitor

    reading = inputs.how_to_read(kind, scores_key, labels_key, max_size, labels_path=labels)
    stream = inputs.open_for(None, scores, **reading)
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
    inputs.note_unlabelled(unlabelled)
