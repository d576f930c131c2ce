"""Resampling the statistic, not the data: many ``BinStats`` at once from one set of rows.

Two questions, two ways to draw. What would this model show if it were calibrated? Keep the
confidences, draw every hit anew with its confidence as the chance. How much would the value move on
other rows? Draw the rows with replacement.

Where all rows weigh the same, rows of one bin (and outcome) whose confidences agree to 2^-12 form a
group: a binomial count stands for its hits, a multinomial count for its repetitions. Neither a
count's mean changes by that, nor its variance by more than 2^-26 per row, and the cost no longer
grows with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant.common.arrays import to_numpy
from calibrant.common.types import Floats, Labels
from calibrant.data.binning import BinStats, bin_index, equal_width_edges
from calibrant.data.rows import Rows
from calibrant.data.weights import row_counts
from calibrant.metrics import _bins
from calibrant.metrics._labelled import Labelled, Outcomes

_MANY_ROWS = 16_384  # from here on rows are grouped
_FINENESS = 4096
MOST_DRAWS = 4_000_000  # random numbers held at once


@dataclass(frozen=True)
class Drawing:
    """How often to draw, and the statistics to compute on each of the same draws.

    ``group`` allows nearly equal rows to be drawn as one; draws for a pair of models must not.
    """

    statistics: Sequence[_bins.Statistic]
    n_resamples: int
    rng: np.random.Generator
    group: bool = True

    def all_of(self, stats: BinStats | _bins.RowsInBins) -> Floats:
        """The statistics side by side, with a last axis of their own."""
        return np.stack([statistic(stats) for statistic in self.statistics], axis=-1)


# --- what metrics read, drawn anew ------------------------------------------------------------


def null_values(reads: _bins.Reads, data: Labelled, n_bins: int, drawing: Drawing) -> Floats:
    """Errors (resamples, statistics) of a calibrated model with the same predictions."""
    if reads not in ("classes", "labels"):
        batches = binned_rows(reads, data, n_bins).null(drawing.n_resamples, drawing.rng)
        return values_of(drawing.all_of, batches)
    probs = to_numpy(data.probs).astype(np.float64)
    draws = draw_rows(probs, data.weight, drawing.n_resamples, drawing.rng)
    values = []
    if reads == "labels":
        for row, label, weight in draws:
            rows = Labelled(Rows(probs[row], label, weight, "probs"), data.notion)
            values.append(drawing.all_of(_bins.RowsInBins(rows, n_bins)))
        return np.stack(values)
    edges = equal_width_edges(n_bins)
    flat, fixed = _bins.flat_bins(probs, edges), _bins.class_stats(data, edges)
    for row, label, weight in draws:
        sums = np.bincount(flat[row, label], weight, fixed.weight.size)
        hits = np.asarray(sums, np.float64).reshape(fixed.weight.shape)
        stats = BinStats(edges, fixed.weight, fixed.confidence_sum, hits, fixed.weight_squares)
        values.append(drawing.all_of(stats).mean(axis=0))
    return np.array(values)


def bootstrap_values(reads: _bins.Reads, data: Labelled, n_bins: int, drawing: Drawing) -> Floats:
    """Values (resamples, statistics) on rows drawn with replacement."""
    if reads == "classes":
        return _bootstrap_classes(data, equal_width_edges(n_bins), drawing)
    values = []
    if reads == "rows":
        columns = [_bins.row_scores(statistic, data) for statistic in drawing.statistics]
        counted = data.weight > 0.0
        scores = np.stack(columns, axis=1).astype(np.float64)[counted]
        count, weight = row_counts(data.weight[counted])
        for size in batches_of(drawing.n_resamples, len(scores)):
            times = draw_repetitions(count, size, drawing.rng)
            values.append(times.T @ (weight[:, None] * scores) / (times.T @ weight)[:, None])
        return np.concatenate(values)
    if reads != "labels":
        binned = binned_rows(reads, data, n_bins)
        batches = binned.bootstrap(drawing.n_resamples, drawing.rng, group=drawing.group)
        return values_of(drawing.all_of, batches)
    # Nothing is known in advance: every draw is computed anew.
    probs = to_numpy(data.probs)
    count, one = row_counts(data.weight)
    for _ in range(drawing.n_resamples):
        times = draw_repetitions(count, 1, drawing.rng)[:, 0]
        drawn = Labelled(Rows(probs, data.labels, one * times, "probs"), data.notion)
        values.append(drawing.all_of(_bins.RowsInBins(drawn, n_bins)))
    return np.stack(values)


# --- scores and hits in bins ------------------------------------------------------------------


def binned_rows(reads: _bins.Reads, data: Labelled, n_bins: int) -> BinnedRows:
    """The scores and hits of a calibration error in its bins, ready to be drawn."""
    key = ("drawn", reads, n_bins)
    if key not in data.cache:
        score, hit, edges = _bins.binned_columns(reads, data, n_bins)
        part = Outcomes.of_columns(score, hit, data.rows.sample_weight)
        data.cache[key] = BinnedRows.of(part, edges)
    rows: BinnedRows = data.cache[key]
    return rows


@dataclass(frozen=True)
class BinnedRows:
    """Scores and hits in fixed bins, to be drawn again and again."""

    rows: Outcomes  # of some weight; of grouped rows the means, and the weight of one
    edges: Floats
    count: NDArray[np.int64]  # how many original rows a row stands for

    @classmethod
    def of(cls, part: Outcomes, edges: Floats) -> BinnedRows:
        """Rows as they are: ``count`` is 1, or a whole weight."""
        count, weight = row_counts(part.weight)
        used = count > 0
        score = np.clip(part.score, 0.0, 1.0)
        rows = Outcomes.of_columns(score[used], part.hit[used], weight[used])
        return cls(rows, edges, count[used])

    @cached_property
    def index(self) -> NDArray[np.intp]:
        """The bin of each row."""
        return bin_index(self.rows.score, self.edges)

    def stats(self) -> BinStats:
        """The statistic of the rows as they are."""
        total = self.rows.weight * self.count
        weight = None if np.all(total == 1.0) else total
        return BinStats.from_confidence(
            self.rows.score, self.rows.hit, sample_weight=weight, edges=self.edges
        )

    def grouped(self, *, by_outcome: bool) -> BinnedRows:
        """Nearly equal rows as one, where there are many and all weigh the same."""
        rows = self.rows
        if len(self.count) < _MANY_ROWS or np.any(rows.weight != rows.weight[0]):
            return self
        key = self.index * (_FINENESS + 1)
        key += (rows.score * _FINENESS).astype(np.intp)
        if by_outcome:
            key = 2 * key + rows.hit.astype(np.intp)
        group = np.unique(key, return_inverse=True)[1]
        count = np.bincount(group, self.count).astype(np.int64)
        score, hit = (
            np.bincount(group, self.count * column) / count for column in (rows.score, rows.hit)
        )
        weight = np.full(len(count), rows.weight[0])
        return BinnedRows(Outcomes.of_columns(score, hit, weight), self.edges, count)

    def null(
        self,
        n_resamples: int,
        rng: np.random.Generator,
        chance_at: Callable[[Floats], Floats] | None = None,
    ) -> Iterator[BinStats]:
        """Statistics of the same confidences with hits drawn from them, in batches.

        ``chance_at`` gives the chance of a hit at each confidence, where it is another one.
        """
        groups = self.grouped(by_outcome=False)
        score, w = groups.rows.score, groups.rows.weight
        chance = (score if chance_at is None else chance_at(score))[:, None]
        count = groups.count.astype(np.float64)[:, None]
        fixed = [groups._sums(column, count) for column in (w, w * score, w**2)]
        for size in batches_of(n_resamples, len(count) + len(self.edges)):
            shape = (len(count), size)
            if np.all(groups.count == 1):
                hits = (rng.random(shape) < chance).astype(np.float64)
            else:
                hits = rng.binomial(groups.count[:, None], chance, shape).astype(np.float64)
            correct = groups._sums(w, hits)
            weight, confidence, squares = fixed
            columns = np.broadcast_arrays(weight, confidence, correct, squares)
            yield BinStats(self.edges, *columns)

    def bootstrap(
        self, n_resamples: int, rng: np.random.Generator, *, group: bool = True
    ) -> Iterator[BinStats]:
        """Statistics of rows drawn with replacement, in batches."""
        groups = self.grouped(by_outcome=True) if group else self
        w = groups.rows.weight
        columns = (w, w * groups.rows.score, w * groups.rows.hit, w**2)
        for size in batches_of(n_resamples, len(groups.count) + 4 * len(self.edges)):
            times = draw_repetitions(groups.count, size, rng)
            yield BinStats(self.edges, *(groups._sums(column, times) for column in columns))

    def _sums(self, values: Floats, times: Floats) -> Floats:
        """Sums by bin of the rows' values, each row taken so many times: (resamples, bins)."""
        shape = (len(self.edges) - 1, len(values))
        placed = csr_array((values, (self.index, np.arange(len(values)))), shape=shape)
        return np.ascontiguousarray(np.asarray(placed @ times, np.float64).T)


def values_of(statistic: Callable[[BinStats], Floats], batches: Iterator[BinStats]) -> Floats:
    """The values of a metric over batches of statistics."""
    return np.concatenate([statistic(batch) for batch in batches])


# --- the bins of every class ------------------------------------------------------------------


def _bootstrap_classes(data: Labelled, edges: Floats, drawing: Drawing) -> Floats:
    """Means over the classes on rows drawn with replacement; some classes at a time."""
    count, weight = row_counts(data.weight)
    n_rows, n_classes = data.probs.shape
    step = max(1, MOST_DRAWS // n_rows)
    values = []
    for size in batches_of(drawing.n_resamples, n_rows):
        times = draw_repetitions(count, size, drawing.rng)
        sums = np.zeros((size, len(drawing.statistics)))
        for start in range(0, n_classes, step):
            some = slice(start, min(start + step, n_classes))
            sums += drawing.all_of(_DrawnBins(data, weight, edges, some, times)).sum(axis=1)
        values.append(sums / n_classes)
    return np.concatenate(values)


class _DrawnBins(BinStats):
    """The bins of some classes on drawn rows; sums are made when a statistic asks for them.

    Each is a product of all entries with all resamples, and most statistics need only one or two.
    """

    def __init__(
        self, data: Labelled, weight: Floats, edges: Floats, some: slice, times: Floats
    ) -> None:
        vars(self)["edges"] = edges
        self._probs = to_numpy(data.probs[:, some]).astype(np.float64)
        self._truth = data.labels[:, None] == np.arange(some.start, some.stop)
        self._row_weight = weight
        self._times = times
        self._flat = _bins.flat_bins(self._probs, edges)

    @cached_property
    def weight(self) -> Floats:
        return self._sums(self._row_weight[:, None] * np.ones_like(self._probs))

    @cached_property
    def confidence_sum(self) -> Floats:
        return self._sums(self._row_weight[:, None] * self._probs)

    @cached_property
    def correct_sum(self) -> Floats:
        return self._sums(self._row_weight[:, None] * self._truth)

    @cached_property
    def weight_squares(self) -> Floats:
        return self._sums(self._row_weight[:, None] ** 2 * np.ones_like(self._probs))

    @cached_property
    def residual(self) -> Floats:
        return self._sums(self._row_weight[:, None] * (self._truth - self._probs))

    @cached_property
    def total_weight(self) -> Floats:
        return np.asarray(self._row_weight @ self._times)[:, None]

    def _sums(self, values: Floats) -> Floats:
        """Sums by class and bin of the rows' values, (resamples, classes, bins)."""
        n_rows, n_classes = self._flat.shape
        row = np.broadcast_to(np.arange(n_rows)[:, None], self._flat.shape)
        shape = (n_classes * (len(self.edges) - 1), n_rows)
        placed = csr_array((values.ravel(), (self._flat.ravel(), row.ravel())), shape=shape)
        sums = np.ascontiguousarray(np.asarray(placed @ self._times, np.float64).T)
        return sums.reshape(-1, n_classes, len(self.edges) - 1)


# --- random numbers ---------------------------------------------------------------------------


def batches_of(n_resamples: int, width: int) -> Iterator[int]:
    """The resamples in parts whose draws fit into memory."""
    step = max(1, MOST_DRAWS // width)
    return (min(step, n_resamples - start) for start in range(0, n_resamples, step))


def draw_repetitions(
    count: NDArray[np.int64], n_resamples: int, rng: np.random.Generator
) -> Floats:
    """How often each row is drawn, (rows, resamples), drawing as many rows as there are."""
    rows = len(count)
    total = int(count.sum())
    if np.any(count != 1):
        return rng.multinomial(total, count / total, n_resamples).T.astype(np.float64, order="C")
    times = np.empty((rows, n_resamples))
    for column in range(n_resamples):
        times[:, column] = np.bincount(rng.integers(0, rows, rows), minlength=rows)
    return times


def draw_labels(probs: Floats, n_resamples: int, rng: np.random.Generator) -> Iterator[Labels]:
    """Labels (rows, resamples) drawn from the rows, in batches."""
    n_rows, n_classes = probs.shape
    cumulative = np.cumsum(probs, axis=1)
    cumulative /= cumulative[:, -1:]
    offset = np.arange(n_rows)[:, None]
    # Row i's steps lie in [i, i + 1]: one sorted array, and one search for all draws.
    ladder = (cumulative + offset).ravel()
    for size in batches_of(n_resamples, n_rows):
        draws = rng.random((n_rows, size)) + offset
        found = np.searchsorted(ladder, draws, side="right") - offset * n_classes
        yield np.minimum(found, n_classes - 1)


def draw_rows(
    probs: Floats, weight: Floats, n_resamples: int, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.intp], Labels, Floats]]:
    """Places of rows, drawn labels and weights, so many times.

    Every copy of a row of whole weight has its own label: the row comes once for each class that
    its copies drew, with their number as its weight.
    """
    count, one = row_counts(weight)
    if np.all(count <= 1):
        rows = np.arange(len(probs))
        for drawn in draw_labels(probs, n_resamples, rng):
            yield from ((rows, labels, weight) for labels in drawn.T)
        return
    shares = probs / probs.sum(axis=1, keepdims=True)
    for _ in range(n_resamples):
        hits = rng.multinomial(count, shares)
        rows, labels = np.nonzero(hits)
        yield rows, labels, one[rows] * hits[rows, labels]
