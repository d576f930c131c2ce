"""Judging a stream by meters, which add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from calibrant.calibrators import Calibrator
from calibrant.common.docstrings import documented
from calibrant.common.progress import reporter
from calibrant.common.types import Progress
from calibrant.data.scorefiles._names import StreamKind
from calibrant.data.scorefiles._reading import no_labels
from calibrant.metrics import CalibrationMeter, ConfidenceMeter, MeterReport
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._notions import RowNotion
from calibrant.scale.streams._sources import Batch
from calibrant.scale.streams._stream import ScoreStream

Meter = CalibrationMeter | ConfidenceMeter
Meters = dict[str, Meter]
MANY_CLASSES = 10_000  # from here on a meter keeps no bins of every class


@documented
def evaluate_stream(
    stream: ScoreStream,
    calibrator: Calibrator | None = None,
    *,
    n_bins: int = DEFAULT_BINS,
    notion: RowNotion | None = None,
    ignore_index: int | None = None,
    progress: Progress = False,
) -> MeterReport:
    """Judge the scores of a stream, or what a calibrator makes of them, in constant memory.

    Rows without a label (null, NaN, or of a file that has none) are left out; ``n_unlabelled`` of
    the report is their number.

    Parameters
    ----------
    stream : ScoreStream
        Labelled scores, see ``open_stream``; of confidences alone, such as ``apply_stream`` writes
        with ``only="confidence"``, the metrics of the predicted class are given.
    calibrator : Calibrator, optional
        Judge its probabilities in place of the scores. The covariates that it reads are columns of
        the files.
    {n_bins}
    {notion}
    {ignore_index}
    {stream_progress}

    Returns
    -------
    MeterReport
        The metrics by name, and the bins. Up to 10,000 classes there are the ones of every class.

    Raises
    ------
    ValueError
        Where rows are refused (a note names the file), or none has a label.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from calibrant.streams import open_stream
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "a.probs.npy", [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> np.save(folder / "a.label.npy", [0, 1, 1])
    >>> round(evaluate_stream(open_stream(folder)).accuracy, 4)
    0.6667
    """
    judge = Judge(stream.input, calibrator, n_bins, ignore_index, notion)
    with reporter("evaluating", progress) as report:
        measured = judge.measured(judge.reads(stream).reported(report))
    return measured.reports()["scores" if calibrator is None else "calibrated"]


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
    with reporter("evaluating", progress) as report:
        return judge.measured(judge.reads(stream).reported(report)).reports()


@dataclass(frozen=True)
class Measured:
    """The meters of some rows, none where there are no rows; and how many rows had no label."""

    meters: Meters
    unlabelled: int = 0

    def merge(self, other: Measured) -> Measured:
        """Those of the rows of both."""
        unlabelled = self.unlabelled + other.unlabelled
        if not self.meters or not other.meters:
            return Measured(self.meters or other.meters, unlabelled)
        both = {name: one.merge(other.meters[name]) for name, one in self.meters.items()}  # type: ignore[arg-type]
        return Measured(both, unlabelled)

    def reports(self) -> dict[str, MeterReport]:
        """The metrics, by what was judged."""
        if not self.meters:
            raise ValueError(
                no_labels(self.unlabelled) if self.unlabelled else "there are no rows to judge"
            )
        return {
            name: replace(meter.compute(), n_unlabelled=self.unlabelled)
            for name, meter in self.meters.items()
        }


@dataclass(frozen=True)
class Judge:
    """Makes meters of rows: of all of them, or of those that one worker has."""

    kind: StreamKind
    calibrator: Calibrator | None = None
    n_bins: int = DEFAULT_BINS
    ignore_index: int | None = None
    notion: RowNotion | None = None
    also_scores: bool = False  # beside what a calibrator makes of them

    def reads(self, stream: ScoreStream) -> ScoreStream:
        """The stream with the covariates that the calibrator reads."""
        return stream if self.calibrator is None else stream._read_by(self.calibrator.formula_)

    def measured(self, batches: Iterable[Batch]) -> Measured:
        """The meters of some rows."""
        meters: Meters = {}
        unlabelled = 0
        for batch in batches:
            with batch.blamed():
                labelled, without = batch.labelled()
                unlabelled += without
                weights = labelled.weights
                if not len(labelled) or (weights is not None and not weights.any()):
                    continue  # rows of weight 0 are as good as absent
                meters = meters or self._fresh(labelled)
                for name, meter in meters.items():
                    known = (labelled.labels, weights)
                    if isinstance(meter, ConfidenceMeter):
                        read = (labelled.scores, labelled.predictions)
                        meter.update(*read, *known, ignore_index=self.ignore_index)
                        continue
                    scores = labelled.scores
                    if name == "calibrated" and self.calibrator is not None:
                        used = labelled.rows.only(self.calibrator.formula_.needs).covariates
                        scores = self.calibrator.predict_proba(scores, covariates=used)
                    meter.update(scores, *known, ignore_index=self.ignore_index)
        return Measured(meters, unlabelled)

    def _fresh(self, batch: Batch) -> Meters:
        """Meters that have seen no rows, after a check of what is to be judged."""
        if self.kind == "confidence":
            if self.calibrator is not None:
                raise ValueError("a calibrator reads logits or probs, got confidences alone")
            if self.notion == "class-1":
                raise ValueError('notion "class-1" reads logits or probs, got confidences alone')
            return {"scores": ConfidenceMeter(self.n_bins)}
        classwise = batch.scores.ndim == 1 or batch.scores.shape[1] <= MANY_CLASSES
        meters: Meters = {}
        if self.calibrator is None or self.also_scores:
            meters["scores"] = CalibrationMeter(
                self.n_bins, self.kind, classwise=classwise, notion=self.notion
            )
        if self.calibrator is not None:
            if self.kind != self.calibrator.input_:
                raise ValueError(f"the calibrator takes {self.calibrator.input_}, got {self.kind}")
            meters["calibrated"] = CalibrationMeter(
                self.n_bins, classwise=classwise, notion=self.notion
            )
        return meters
