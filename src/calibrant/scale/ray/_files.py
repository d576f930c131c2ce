"""Files on a cluster: every worker reads its pieces of a stream itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calibrant.calibrators import Calibrator
from calibrant.common.files import FilePath
from calibrant.common.progress import reporter
from calibrant.common.types import Progress, RandomState
from calibrant.metrics import MeterReport
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._notions import RowNotion
from calibrant.scale.ray._cluster import merged_states, on_workers, ray_data, state_table
from calibrant.scale.streams import _fitting as fitting
from calibrant.scale.streams._applying import AppliedShards, Only, Shard, prepared
from calibrant.scale.streams._evaluating import Judge, Measured
from calibrant.scale.streams._manifest import sweep
from calibrant.scale.streams._shard_files import ShardFormat
from calibrant.scale.streams._stream import Piece, ScoreStream

PIECE_BYTES = 2**26  # of scores that one task reads


@on_workers()
def fit_stream(
    stream: ScoreStream,
    method: str | Calibrator = "auto",
    *,
    max_rows: int = fitting.MAX_ROWS,
    max_bytes: int = fitting.MAX_BYTES,
    stratify: bool = False,
    ignore_index: int | None = None,
    random_state: RandomState = None,
    progress: Progress = False,
) -> Calibrator:
    """``calibrant.streams.fit_stream`` by the workers of a cluster: they draw the same rows."""
    model, plan = fitting.planned(stream, method, max_rows, max_bytes, stratify, random_state)

    def drawn(collector: fitting.Collector) -> fitting.Collected:
        def collected(piece: Piece) -> fitting.Collected:
            name = stream.sources[piece.source].path.name
            return collector.collected(stream.read(piece), f"{name}:{piece.start}")

        return merged_states(_states(stream, collected), fitting.Collected.merge)

    return fitting.fitted(model, plan, ignore_index, stream.n_rows, drawn)


@on_workers()
def evaluate_stream(
    stream: ScoreStream,
    calibrator: Calibrator | None = None,
    *,
    n_bins: int = DEFAULT_BINS,
    notion: RowNotion | None = None,
    ignore_index: int | None = None,
    progress: Progress = False,
) -> MeterReport:
    """``calibrant.streams.evaluate_stream`` by the workers of a cluster."""
    judge = Judge(stream.input, calibrator, n_bins, ignore_index, notion)
    return _measured(stream, judge).reports()["scores" if calibrator is None else "calibrated"]


@on_workers()
def judged(
    stream: ScoreStream,
    calibrator: Calibrator | None = None,
    *,
    n_bins: int = DEFAULT_BINS,
    notion: RowNotion | None = None,
    ignore_index: int | None = None,
    progress: Progress = False,
) -> dict[str, MeterReport]:
    """The scores and, where there is a calibrator, its probabilities, in one pass."""
    judge = Judge(stream.input, calibrator, n_bins, ignore_index, notion, also_scores=True)
    return _measured(stream, judge).reports()


@on_workers()
def apply_stream(
    calibrator: Calibrator,
    stream: ScoreStream,
    folder: FilePath,
    *,
    only: Only | None = None,
    format: ShardFormat = "parquet",  # noqa: A002
    progress: Progress = False,
) -> AppliedShards:
    """``calibrant.streams.apply_stream`` by the workers of a cluster: a shard is a task."""
    job = prepared(calibrator, stream, folder, only, format)
    if not job.left:
        return job.done(0)

    def write(row: dict[str, Any]) -> dict[str, Any]:
        shard: Shard = job.left[row["item"]]
        return {"rows": sum(shard.write(job.stream, calibrator))}

    total, done = job.rows_left, 0
    with reporter("calibrating", progress) as report:
        for row in _numbers(len(job.left)).map(write).iter_rows():
            done += int(row["rows"])
            report(done, total)
    sweep(job.folder)  # a worker that was killed leaves what it had begun
    return job.done(done)


def _measured(stream: ScoreStream, judge: Judge) -> Measured:
    stream = judge.reads(stream)
    states = _states(stream, lambda piece: judge.measured(stream.read(piece)))
    return merged_states(states, Measured.merge)


def _states(stream: ScoreStream, function: Callable[[Piece], Any]) -> Any:
    """A data set of the states that a function makes of the pieces of a stream."""
    pieces = stream.pieces(PIECE_BYTES)

    def states(batch: dict[str, Any]) -> Any:
        (number,) = batch["item"]
        return state_table(function(pieces[number]))

    return _numbers(len(pieces)).map_batches(states, batch_size=1)


def _numbers(count: int) -> Any:
    """A data set of as many tasks."""
    data = ray_data()
    return data.from_items(list(range(count)), override_num_blocks=max(1, count))
