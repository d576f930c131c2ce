"""``calibrant evaluate``: one file in full, or many as a stream."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli._echo import say
from calibrant.cli._inputs import about, left_out_rows, read_for
from calibrant.cli._json import print_json
from calibrant.cli._options import (
    AsJson,
    DrawSeed,
    IgnoreIndex,
    Input,
    LabelsFile,
    LabelsKey,
    Level,
    MaxSize,
    NBins,
    Notion,
    NResamples,
    ScoresFiles,
    ScoresKey,
    WeightsKey,
    given,
    listed,
)
from calibrant.cli._progress import row_bar, working
from calibrant.cli._streaming import (
    Address,
    Engine,
    is_stream,
    open_for,
    refuse_stream_options,
    workers,
)
from calibrant.cli._tables import metric_table, show

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.data.scorefiles import ScoreFile
    from calibrant.evaluation import Evaluation
    from calibrant.metrics import MeterReport
    from calibrant.metrics._report import MetricReport


def evaluate(
    scores: ScoresFiles,
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
    n_bins: NBins = None,
    n_resamples: NResamples = None,
    level: Level = None,
    random_state: DrawSeed = None,
    notion: Notion = None,
    kind: Input = None,
    labels: LabelsFile = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    weights_key: WeightsKey = None,
    ignore_index: IgnoreIndex = None,
    max_size: MaxSize = None,
    engine: Engine = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Judge scores, and what a calibrator makes of them.

    One file is judged in full: every metric with its interval and the value that perfect
    calibration would show. A folder, a pattern or many files are read as a stream, in constant
    memory; confidences without the other probabilities give the metrics of the predicted class.
    """
    from calibrant.common.memory import parse_size
    from calibrant.io import load_calibrator

    streamed = is_stream(scores)
    if n_resamples is not None and streamed:
        raise ValueError("--n-resamples goes with one file of scores: a stream is not drawn anew")
    if level is not None and streamed:
        raise ValueError("--level goes with one file of scores: a stream has no intervals")
    if labels is not None and len(scores) > 1:
        raise ValueError("--labels goes with one file of scores; several must hold their labels")
    if not streamed:
        refuse_stream_options(engine=engine, address=address)
    names = _names(metrics, weighted=weights_key is not None, in_parts=streamed)
    method = load_calibrator(calibrator) if calibrator else None
    reading: dict[str, Any] = {
        "input": kind,
        "scores_key": scores_key,
        "labels_key": labels_key,
        "weights_key": weights_key,
        "labels_path": labels,
        "max_size": parse_size(max_size),
    }
    bins = given(n_bins=n_bins, notion=notion)
    if streamed:
        stream, who = open_for(method, scores, **reading), workers(engine, address)
        with row_bar("evaluating") as progress:
            reports = who.judged(
                stream, method, ignore_index=ignore_index, progress=progress, **bins
            )
        _print_reports(len(stream.sources), reports, metrics is None, names, as_json)
        return
    data = read_for(method, scores[0], **reading)
    with about(scores[0]):
        data, unlabelled = data.labelled()
    rows = {"sample_weight": data.weights, "ignore_index": ignore_index, **bins}
    draws = given(
        n_resamples=n_resamples, level=level, random_state=random_state, metrics=listed(metrics)
    )
    with about(scores[0]), working("evaluating"):
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
    probs = method.predict_proba(data.scores)
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
    from calibrant.metrics._tables import of_class_1

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
        say(left_out_rows(unlabelled))


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
    from calibrant.metrics._tables import of_class_1

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
            say(left_out_rows(scores.n_unlabelled))


def _values(reports: Mapping[str, MetricReport], names: list[str]) -> dict[str, dict[str, float]]:
    """The values of some metrics, by what was judged and by the metrics' names."""
    return {
        subject: {name: report.metrics[name].value for name in names}
        for subject, report in reports.items()
    }
