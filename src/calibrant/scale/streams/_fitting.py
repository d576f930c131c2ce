"""Fitting on a stream: on all of its rows where they are few, else on a reservoir of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from reprlib import repr as shown
from typing import Any, TypeGuard
from zlib import crc32

import numpy as np

from calibrant.calibrators import Calibrator, ProfileCalibrator, calibrator
from calibrant.calibrators._best_temperature import at_usual_scale
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.arrays import as_working_float, to_numpy
from calibrant.common.docstrings import documented
from calibrant.common.memory import size_text
from calibrant.common.progress import reporter
from calibrant.common.types import InputKind, Progress, RandomState, generator
from calibrant.data.checks import as_scores, check_label_logits, check_logits, check_probabilities
from calibrant.data.rows import Rows
from calibrant.data.scorefiles._reading import no_labels
from calibrant.scale.streams._reservoir import Draw, Reservoir, ceiling_for
from calibrant.scale.streams._sources import Batch
from calibrant.scale.streams._stream import ScoreStream

MAX_ROWS = 200_000
_LOOKED_AT = 256  # rows, to see whether scores and labels belong together
MAX_BYTES = 2**28  # of the rows that are kept

Sampler = Callable[["Collector"], "Collected"]


@documented
def fit_stream(
    stream: ScoreStream,
    method: str | Calibrator = "auto",
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    stratify: bool = False,
    ignore_index: int | None = None,
    random_state: RandomState = None,
    progress: Progress = False,
) -> Calibrator:
    """Fit a calibrator on a stream of labelled scores, in bounded memory.

    Every row is read and checked. Where there are more than ``max_rows``, a sample of so many is
    fitted on: the rows with the smallest hashes of their content and the seed, so that the result
    depends neither on the order of the rows nor on how files or machines share them. Rows with the
    same scores and label are drawn one by one, each with its own hash; how machines share those may
    change which of them are kept. Methods of the temperature family keep a profile of each row of
    logits, a few hundred bytes; all others the row itself. Rows without a label (null, NaN, or of a
    file that has none) are left out. A method that uses covariates gets all that the stream reads.

    Parameters
    ----------
    stream : ScoreStream
        The rows, see ``open_stream``.
    method : str or Calibrator, default "auto"
        An acronym, or an unfitted calibrator, which is fitted.
    max_rows : int, default 200_000
        The most rows that are kept.
    max_bytes : int, default 2**28
        The most bytes that rows of scores may take; where that is less than ``max_rows`` rows,
        fewer are kept. A fit takes several times as much.
    stratify : bool, default False
        Whether every class is drawn by itself, an equal share of ``max_rows`` each; its rows then
        weigh as much as the whole class did.
    {ignore_index}
    random_state : int, numpy.random.Generator or None, default None
        Which rows are drawn; None is the seed 0. What a method itself draws has its own parameter.
    {stream_progress}

    Returns
    -------
    Calibrator
        The fitted calibrator; ``fit_info_.details["sample"]`` tells how many labelled rows there
        were, how many were kept, and how many had no label.

    Raises
    ------
    ValueError
        Where rows are refused (a note names the file), the stream has confidences alone, or the
        calibrator takes scores of another kind.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from calibrant.streams import open_stream
    >>> rng, folder = np.random.default_rng(0), pathlib.Path(tempfile.mkdtemp())
    >>> logits = rng.normal(size=(3000, 4)) * 3
    >>> np.save(folder / "a.logits.npy", logits)
    >>> np.save(folder / "a.label.npy", (logits / 2 + rng.gumbel(size=logits.shape)).argmax(1))
    >>> ts = fit_stream(open_stream(folder), "ts", max_rows=2000)
    >>> round(ts.temperature_), ts.fit_info_.details["sample"]["kept"]
    (2, 2000)
    """
    model, plan = planned(stream, method, max_rows, max_bytes, stratify, random_state)

    def drawn(collector: Collector) -> Collected:
        with reporter("reading", progress) as report:
            return collector.collected(stream.reported(report))

    return fitted(model, plan, ignore_index, stream.n_rows, drawn)


@dataclass(frozen=True)
class Plan:
    """What is known before the first pass: the draw, and the shape of a row."""

    draw: Draw
    n_classes: int
    kind: InputKind
    asked: int  # rows, before memory had its say
    row_bytes: int


def planned(
    stream: ScoreStream,
    method: str | Calibrator,
    max_rows: int,
    max_bytes: int,
    stratify: bool,
    random_state: RandomState,
) -> tuple[Calibrator, Plan]:
    """The calibrator to fit, and how; the first rows of the stream are looked at."""
    check_bounds(max_rows, max_bytes)
    model = model_for(method, stream.input)
    first = next((batch for batch in stream if len(batch)), None)
    if first is None:
        raise ValueError("the stream has no rows")
    with first.blamed():
        return model, plan_for(first, model, max_rows, max_bytes, stratify, random_state)


def check_bounds(max_rows: int, max_bytes: int) -> None:
    """Refuse to keep nothing."""
    for name, most in (("max_rows", max_rows), ("max_bytes", max_bytes)):
        if most < 1:
            raise ValueError(f"{name} must be at least 1, got {most}")


def model_for(method: str | Calibrator, kind: str) -> Calibrator:
    """The calibrator of a name, for such scores; one that is given must take them."""
    if kind not in ("logits", "probs"):
        raise ValueError("a calibrator is fitted on logits or probs, got confidences alone")
    if isinstance(method, str):
        return calibrator(method, input=kind)
    if not isinstance(method, Calibrator):
        raise TypeError(f"method must be a name such as 'ts' or a calibrator, got {shown(method)}")
    if method.input != kind:
        raise ValueError(
            f"the scores are {kind}, but {type(method).__name__} has input={method.input!r}"
        )
    return method


def plan_for(
    first: Batch,
    model: Calibrator,
    max_rows: int,
    max_bytes: int,
    stratify: bool,
    random_state: RandomState,
) -> Plan:
    """How many rows are kept follows from the method and the first of them."""
    kind = first.rows.input
    if "covariates" in model.uses and first.covariates is None:
        raise TypeError(
            f"{type(model).__name__} needs covariates: name their columns, as in "
            'covariates=("length",)'
        )
    scores = as_scores(first.scores, kind)
    width = scores.shape[1] * as_working_float(scores[:1]).dtype.itemsize
    most = max_rows
    if not keeps_profiles(model, kind):
        most = min(max_rows, max(1, max_bytes // width))
    seed = int(generator(random_state).integers(2**63))
    return Plan(Draw(most, seed, stratify), scores.shape[1], kind, max_rows, width)


def keeps_profiles(model: Calibrator, kind: InputKind) -> TypeGuard[ProfileCalibrator]:
    """Whether profiles of rows are kept; of probabilities, which may be 0, it is the rows."""
    return isinstance(model, ProfileCalibrator) and kind == "logits" and not model.uses


def fitted(
    model: Calibrator, plan: Plan, ignore_index: int | None, n_rows: int | None, drawn: Sampler
) -> Calibrator:
    """Fit on what ``drawn`` collects, on one machine or on many; it may be asked twice.

    The report of the fit says on how many rows it was made.
    """
    model._check_parameters()
    found: list[Collected] = []  # the last one alone

    def collected(scale: float) -> Reservoir:
        collector = Collector(plan, model, ignore_index, scale)
        if plan.draw.stratify:
            found[:] = [drawn(collector)]
        else:
            ceiling = ceiling_for(plan.draw.max_rows, n_rows, plan.draw.seed)
            found[:] = [drawn(replace(collector, draw=ceiling))]
            if found[0].reservoir.is_short:
                found[:] = [drawn(collector)]
        reservoir, unlabelled = found[0].reservoir, found[0].unlabelled
        if unlabelled and not reservoir.n_rows:
            raise ValueError(no_labels(unlabelled))
        return reservoir

    if keeps_profiles(model, plan.kind):
        model.fit(at_usual_scale(lambda scale: collected(scale).profile))
    else:
        model.fit(collected(1.0).rows)
    kept = found[0].reservoir
    sample: dict[str, Any] = {
        "rows": kept.n_rows,
        "kept": len(kept),
        "stratified": plan.draw.stratify,
        "unlabelled": found[0].unlabelled,
    }
    if plan.draw.max_rows < min(plan.asked, kept.n_rows):
        sample["memory"] = size_text(plan.draw.max_rows * plan.row_bytes)
    info = replace(model.fit_info_, details={**model.fit_info_.details, "sample": sample})
    return model._restored(model.formula_, info, model.n_classes_)


def _profile_of(
    model: ProfileCalibrator, scale: float, associate: bool, rows: Rows
) -> TemperatureProfile:
    profile = TemperatureProfile(scale=scale, top_k=model._top_k)
    profile._add(model._read(rows), associate=associate)
    return profile


@dataclass(frozen=True)
class Collected:
    """The reservoir of some rows, and how many rows had no label."""

    reservoir: Reservoir
    unlabelled: int = 0

    def merge(self, other: Collected) -> Collected:
        """That of the rows of both."""
        unlabelled = self.unlabelled + other.unlabelled
        return Collected(self.reservoir.merge(other.reservoir), unlabelled)


@dataclass(frozen=True)
class Collector:
    """Makes reservoirs of rows: of all of them, or of those that one worker has."""

    plan: Plan
    model: Calibrator
    ignore_index: int | None
    scale: float = 1.0
    draw: Draw | None = None

    def collected(self, batches: Iterable[Batch], part: str = "") -> Collected:
        """The reservoir of some rows; ``part`` names them where others collect other rows."""
        draw, unlabelled = self.draw or self.plan.draw, 0
        reservoir = Reservoir(draw, self.plan.n_classes, crc32(part.encode()))
        for batch in batches:
            with batch.blamed():
                labelled, without = batch.labelled()
                unlabelled += without
                rows = self.checked(labelled.rows)
                profiled = None
                if keeps_profiles(self.model, self.plan.kind):
                    # whether labels belong to the scores is seen on the first rows
                    first = reservoir.n_rows < _LOOKED_AT
                    profiled = partial(_profile_of, self.model, self.scale, first)
                reservoir.add(rows, profiled)
        return Collected(reservoir, unlabelled)

    def checked(self, read: Rows) -> Rows:
        """Labelled rows of a file, as a fit in memory would accept them."""
        kind, classes, weight = self.plan.kind, self.plan.n_classes, read.sample_weight
        if read.labels is not None and weight is not None and not np.any(weight):
            read = replace(read[:0], sample_weight=None)  # as good as absent
        scores = as_scores(read.scores, kind, classes, may_be_empty=True)
        if scores.shape[1] != classes:
            raise ValueError(f"the first rows have {classes} classes, got {scores.shape[1]}")
        rows = Rows.of(
            scores,
            read.labels,
            read.sample_weight,
            input=kind,
            ignore_index=self.ignore_index,
            n_classes=classes,
            may_be_empty=True,
            covariates=read.only(self.model.uses).covariates,
        )
        values = as_working_float(to_numpy(rows.scores))
        if kind == "probs":
            check_probabilities(values)
        else:
            check_logits(values)
            check_label_logits(values[np.arange(len(rows)), rows.labels], rows.labels)
        return rows.with_scores(values, kind)
