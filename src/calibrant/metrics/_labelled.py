"""Rows on their way into a metric: checked once, and read as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from reprlib import repr as shown
from typing import Any, Self, get_args

import numpy as np
from array_api_compat import array_namespace, is_jax_array, is_numpy_array
from numpy.typing import NDArray

from calibrant.common.arrays import (
    DEVICE_TILE_ELEMENTS,
    TILE_ELEMENTS,
    as_working_float,
    on_host,
    place_of,
    row_max,
    row_sums,
    row_tiles,
    to_numpy,
)
from calibrant.common.memory import require_memory
from calibrant.common.types import Array, Floats, InputKind, Labels, RowRule
from calibrant.data import checks
from calibrant.data.binning import BinStats, Scheme
from calibrant.data.likely_mistakes import FEW, refuse_label_column, warn_if_probabilities
from calibrant.data.rows import Rows
from calibrant.data.weights import copy_squares
from calibrant.formulas._array_operations import ops_of
from calibrant.formulas._row_functions import log_softmax
from calibrant.metrics._notions import RowNotion, ScoreNotion, row_notion

_FEW_CLASSES = 64
_BATCH_TILE = 2**20  # elements that are looked at together: the meter's working memory

ScoresAndHits = tuple[Floats, NDArray[np.bool_]]


@dataclass(frozen=True)
class Labelled:
    """Rows whose scores are valid probabilities, and what metrics read of them, made once.

    ``notion`` is whose calibration is judged. ``log_true`` is the log-probability of each row's
    label where logits were given: it is exact also where the probability underflows.
    """

    rows: Rows
    notion: RowNotion
    log_true: Floats | None = None
    streamed: bool = False  # a part of the rows cannot tell whether all weights are whole
    cache: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def probs(self) -> Array:
        """The probabilities, on their device."""
        return self.rows.scores

    @property
    def labels(self) -> Labels:
        """The true classes, in main memory."""
        return self.rows.labels

    @property
    def weight(self) -> Floats:
        """The weight of each row, in main memory."""
        return self.rows.weight

    @property
    def weighted(self) -> bool:
        """Whether weights were given."""
        return self.rows.sample_weight is not None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def n_classes(self) -> int:
        """The number of columns."""
        return self.rows.n_classes

    @cached_property
    def squares(self) -> Floats:
        """What each row adds to the sum of squared weights."""
        return self.weight**2 if self.streamed else copy_squares(self.weight)

    def by_tile(self, function: Callable[[Array, Labels], Array]) -> Floats:
        """One number per row, computed where the array lies, from tiles and their labels."""
        parts = [function(self.probs[t], self.labels[t]) for t in tiles_of(self.probs)]
        return np.concatenate([to_numpy(part).astype(np.float64) for part in parts])

    @cached_property
    def true_class(self) -> Floats:
        """The probability of each row's label."""
        return np.maximum(self.by_tile(take_class), 0.0)

    @cached_property
    def top_label(self) -> ScoresAndHits:
        """The largest probability per row, and whether its class (the first of ties) is right."""
        probs, labels = self.rows.scores, self.rows.labels
        confidence, correct = [], []
        for tile in tiles_of(probs):
            part, target = probs[tile], labels[tile]
            if is_numpy_array(part) and part.shape[1] <= _FEW_CLASSES:
                # NumPy is slow along short rows: go down the columns instead.
                columns = list(part.T)
                largest = reduce(np.maximum, columns)
                right = part[np.arange(len(target)), target] == largest
                for index, column in enumerate(columns):
                    right &= (column < largest) | (target <= index)
            else:
                right = to_numpy(array_namespace(part).argmax(part, axis=1)) == target
                largest = to_numpy(row_max(part))
            confidence.append(largest)
            correct.append(right)
        return np.concatenate(confidence).astype(np.float64), np.concatenate(correct)

    def one_class(self, index: int) -> ScoresAndHits:
        """The probability of a class, and whether a row is of it."""
        score = to_numpy(self.probs[:, index]).astype(np.float64)
        return np.clip(score, 0.0, 1.0), self.labels == index

    @cached_property
    def judged(self) -> ScoresAndHits:
        """The score of each row that is judged, and whether what it promises came."""
        return self.one_class(1) if self.notion == "class-1" else self.top_label

    @cached_property
    def normalized(self) -> ScoresAndHits:
        """The same, where each score is divided by the sum of its row."""
        sums = self.by_tile(lambda tile, _: row_sums(tile))
        if not np.all(sums > 0.0):
            row = int(np.flatnonzero(~(sums > 0.0))[0])
            raise ValueError(f"probs must have a positive value in every row, row {row} has none")
        score, hit = self.judged
        return score / sums, hit


def labelled(
    scores: Any,
    labels: Any,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
    notion: str | None = None,
) -> Labelled:
    """Check what a user gives, once.

    ``row_sums`` says what to do with rows that do not sum to 1: "strict" refuses them, "normalize"
    divides by the sum, "raw" takes them as they are. ``notion`` is whose calibration is judged.
    """
    check_row_rule(row_sums)
    given = np.asarray(None) if labels is None else labels  # refused, as all that is no number
    rows = Rows.of(scores, given, sample_weight, input=input, ignore_index=ignore_index)
    return labelled_rows(rows, row_sums, notion)


def labelled_rows(rows: Rows, row_sums: RowRule = "strict", notion: str | None = None) -> Labelled:
    """Rows with valid probabilities: the values of the scores are checked here."""
    # JAX has no float64 unless told so: metrics of its arrays are NumPy's.
    array = to_numpy(rows.scores) if is_jax_array(rows.scores) else rows.scores
    array = as_working_float(array)
    if rows.input == "probs":
        probs = valid_probabilities(array, row_sums)
        return Labelled(replace(rows, scores=probs), row_notion(notion, probs.shape[1]))
    n_rows, n_classes = array.shape
    notion = row_notion(notion, n_classes)
    warn_if_probabilities(array)
    refuse_label_column(array, rows.labels)
    require_memory(
        array.dtype.itemsize * n_rows * n_classes,
        f"the softmax of {n_rows:,} rows and {n_classes:,} classes",
        "CalibrationMeter takes the rows in parts, `calibrant evaluate` several files",
    )
    probs, log_true = from_logits(array, rows.labels)
    return Labelled(rows.with_scores(probs, "probs"), notion, log_true)


def check_row_rule(row_sums: str) -> None:
    """Refuse what is no rule for rows that do not sum to 1."""
    if row_sums not in get_args(RowRule):
        raise ValueError(f'row_sums must be "strict", "normalize" or "raw", got {shown(row_sums)}')


def valid_probabilities(array: Array, row_sums: RowRule, first_row: int = 0) -> Array:
    """Probabilities, checked, and normalized where that was asked for."""
    checks.check_probabilities(array, rows=row_sums, first_row=first_row)
    if array.shape[0] and bool((array > 1.0).any()):  # by rounding
        array = array_namespace(array).clip(array, 0.0, 1.0)
    return checks.normalize_rows(array, first_row=first_row) if row_sums == "normalize" else array


def from_logits(array: Array, labels: Labels, first_row: int = 0) -> tuple[Array, Floats]:
    """The softmax of logits, checked, and the log-probability of each row's label."""
    xp = array_namespace(array)
    probs, log_true = [], []
    for tile in tiles_of(array):
        logits, target = array[tile], labels[tile]
        checks.check_peaks(logits, xp.max(logits, axis=1), first_row + tile.start)
        checks.check_label_logits(
            to_numpy(take_class(logits, target)), target, first_row + tile.start
        )
        logs = log_softmax(logits, 1.0, ops_of(logits))
        probs.append(xp.exp(logs))
        log_true.append(to_numpy(take_class(logs, target)).astype(np.float64))
    return xp.concat(probs) if len(probs) > 1 else probs[0], np.concatenate(log_true)


def tiles_of(probs: Array) -> list[slice]:
    """Tiles of rows that suit the array's device."""
    return row_tiles(probs, TILE_ELEMENTS if on_host(probs) else DEVICE_TILE_ELEMENTS)


def take_class(tile: Array, labels: Labels) -> Array:
    """The entry of each row's label."""
    xp = array_namespace(tile)
    index = xp.asarray(labels[:, None], device=tile.device)
    return xp.take_along_axis(tile, index, axis=1)[:, 0]


# --- one score per row ------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcomes(Rows):
    """Rows of one score each, the promised chance of an event; the label: whether it came."""

    @classmethod
    def of_columns(
        cls, score: Floats, hit: NDArray[Any], sample_weight: Floats | None = None
    ) -> Self:
        """Scores in [0, 1], events and weights, none of which is looked at."""
        return cls(score[:, None], hit, sample_weight, input="probs")

    @property
    def score(self) -> Floats:
        """The promised chance of each row's event."""
        scores: Floats = self.scores[:, 0]
        return scores

    @property
    def hit(self) -> NDArray[np.bool_]:
        """Whether each row's event came."""
        return self.labels  # type: ignore[return-value]

    def bins(self, n_bins: int, scheme: Scheme = "equal-mass") -> BinStats:
        """The scores and events in bins."""
        return BinStats.from_confidence(
            self.score, self.hit, n_bins, self.sample_weight, scheme=scheme
        )


def outcomes_of(data: Labelled, notion: ScoreNotion) -> Iterator[Outcomes]:
    """What a notion compares: one pair of columns, or one for every class."""
    if notion == "confidence":
        confidence, correct = data.top_label
        yield Outcomes.of_columns(np.clip(confidence, 0.0, 1.0), correct, data.rows.sample_weight)
        return
    for index in [1] if notion == "class-1" else range(data.n_classes):
        yield class_outcomes(data, index)


def judged_outcomes(data: Labelled) -> Outcomes:
    """What the rows' own notion compares."""
    return next(outcomes_of(data, data.notion))


def class_outcomes(data: Labelled, index: int) -> Outcomes:
    """The probability of a class, and whether a row is of it."""
    return Outcomes.of_columns(*data.one_class(index), data.rows.sample_weight)


# --- rows of a meter --------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Rows of which structure, labels and weights are checked; ``tiles`` checks the scores.

    Rows to ignore stay in their places, so that every error names a row by its number in the
    arrays that were given.
    """

    rows: Rows
    row_sums: RowRule
    notion: RowNotion
    counts: NDArray[np.bool_] | None  # the rows that are not to be ignored; None where all count

    @classmethod
    def of(
        cls,
        scores: Any,
        labels: Any,
        sample_weight: Any,
        input: InputKind,  # noqa: A002 - the word of the whole public interface
        row_sums: RowRule,
        *,
        ignore_index: int | None = None,
        n_classes: int | None = None,
        notion: RowNotion | None = None,
    ) -> Self:
        """Check everything but the values of the scores."""
        array = checks.as_scores(scores, input, n_classes, may_be_empty=True)
        array = to_numpy(array) if is_jax_array(array) else array
        labels, counts = checks.ignored_as_class_0(labels, array.shape[0], ignore_index)
        labels = np.asarray(None) if labels is None else labels
        rows = Rows.of(array, labels, sample_weight, input=input, may_be_empty=True)
        if counts is not None and rows.sample_weight is not None:
            kept = rows.sample_weight[counts]
            checks.as_weights(kept, len(kept))  # which may all be zero
        batch = cls(rows, row_sums, row_notion(notion, rows.n_classes), counts)
        if input == "logits" and len(batch.kept):
            few = batch.kept[:: max(1, len(batch.kept) // FEW)]
            warn_if_probabilities(rows.scores if counts is None else rows.take(few).scores)
        return batch

    @cached_property
    def kept(self) -> NDArray[np.intp]:
        """The numbers of the rows that count."""
        return np.arange(len(self.rows)) if self.counts is None else np.flatnonzero(self.counts)

    def take(self, index: NDArray[np.intp]) -> Self:
        """Some of the rows, which are numbered anew."""
        counts = None if self.counts is None else self.counts[index]
        return replace(self, rows=self.rows.take(index), counts=counts)

    def check(self) -> None:
        """Refuse scores that ``tiles`` would refuse."""
        for _ in self.tiles():
            pass

    def tiles(self) -> Iterator[Labelled]:
        """The rows that count as valid probabilities, some at a time."""
        for tile, rows in self.rows.tiles(_BATCH_TILE):
            scores, log_true = as_working_float(rows.scores), None
            if self.counts is not None:  # class 0 alone is valid as probabilities and as logits
                xp = array_namespace(scores)
                fill = xp.zeros_like(scores[:1])
                fill[0, 0] = 1.0
                counts = xp.asarray(self.counts[tile, None], **place_of(scores))
                scores = xp.where(counts, scores, fill)
            if rows.input == "probs":
                scores = valid_probabilities(scores, self.row_sums, tile.start)
            else:
                scores, log_true = from_logits(scores, rows.labels, tile.start)
            rows = rows.with_scores(scores, "probs")
            if self.counts is not None:
                index = np.flatnonzero(self.counts[tile])
                rows, log_true = rows.take(index), None if log_true is None else log_true[index]
            if len(rows):
                yield Labelled(rows, self.notion, log_true, streamed=True)
