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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant.common.types import Floats
from calibrant.data.binning import BinStats, bin_index
from calibrant.data.weights import row_counts

_MANY_ROWS = 16_384  # from here on rows are grouped
_FINENESS = 4096
MOST_DRAWS = 4_000_000  # random numbers held at once


Statistic = Callable[[Any], NDArray[Any]]  # of the rows (``Labelled``) or of their ``BinStats``


@dataclass(frozen=True)
class Drawing:
    """How often to draw, and the statistics to compute on each of the same draws.

    ``group`` allows nearly equal rows to be drawn as one; draws for a pair of models must not.
    """

    statistics: Sequence[Statistic]
    n_resamples: int
    rng: np.random.Generator
    group: bool = True

    def all_of(self, stats: Any) -> Floats:
        """The statistics side by side, with a last axis of their own."""
        return np.stack([statistic(stats) for statistic in self.statistics], axis=-1)


@dataclass(frozen=True)
class BinnedRows:
    """Confidences (rows,) and hits (rows,) in fixed bins, to be drawn again and again."""

    edges: Floats
    confidence: Floats
    correct: Floats
    weight: Floats
    count: NDArray[np.int64]  # how many original rows a row stands for

    @classmethod
    def of(
        cls,
        confidence: Floats,
        correct: NDArray[np.bool_],
        weight: Floats | None,
        edges: Floats,
    ) -> BinnedRows:
        """Rows as they are: ``count`` is 1, or a whole weight."""
        confidence, hits = np.clip(confidence, 0.0, 1.0), correct.astype(np.float64)
        count, weights = row_counts(np.ones(len(hits)) if weight is None else weight)
        used = count > 0
        return cls(edges, confidence[used], hits[used], weights[used], count[used])

    def stats(self) -> BinStats:
        """The statistic of the rows as they are."""
        total = self.weight * self.count
        weight = None if np.all(total == 1.0) else total
        return BinStats.from_confidence(
            self.confidence, self.correct, sample_weight=weight, edges=self.edges
        )

    def grouped(self, *, by_outcome: bool) -> BinnedRows:
        """Nearly equal rows as one, where there are many and all weigh the same."""
        if len(self.count) < _MANY_ROWS or np.any(self.weight != self.weight[0]):
            return self
        key = bin_index(self.confidence, self.edges) * (_FINENESS + 1)
        key += (self.confidence * _FINENESS).astype(np.intp)
        if by_outcome:
            key = 2 * key + self.correct.astype(np.intp)
        group = np.unique(key, return_inverse=True)[1]
        count = np.bincount(group, self.count).astype(np.int64)
        confidence, correct = (
            np.bincount(group, self.count * column) / count
            for column in (self.confidence, self.correct)
        )
        weight = np.full(len(count), self.weight[0])
        return BinnedRows(self.edges, confidence, correct, weight, count)

    def null(
        self,
        n_resamples: int,
        rng: np.random.Generator,
        chance_at: Callable[[Floats], Floats] | None = None,
    ) -> Iterator[BinStats]:
        """Statistics of the same confidences with hits drawn from them, in batches.

        ``chance_at`` gives the chance of a hit at each confidence, where it is another one.
        """
        rows = self.grouped(by_outcome=False)
        chance = rows.confidence if chance_at is None else chance_at(rows.confidence)
        w, count = rows.weight, rows.count.astype(np.float64)[:, None]
        fixed = [rows._sums(column, count) for column in (w, w * rows.confidence, w**2)]
        for size in batches_of(n_resamples, len(rows.count) + len(self.edges)):
            hits = _draw_hits(rows.count, chance, size, rng)
            correct = rows._sums(w, hits)
            weight, confidence, squares = (np.broadcast_to(sums, correct.shape) for sums in fixed)
            yield BinStats(self.edges, weight, confidence, correct, squares)

    def bootstrap(
        self, n_resamples: int, rng: np.random.Generator, *, group: bool = True
    ) -> Iterator[BinStats]:
        """Statistics of rows drawn with replacement, in batches."""
        rows = self.grouped(by_outcome=True) if group else self
        w = rows.weight
        columns = (w, w * rows.confidence, w * rows.correct, w**2)
        for size in batches_of(n_resamples, len(rows.count) + 4 * len(self.edges)):
            times = draw_repetitions(rows.count, size, rng)
            yield BinStats(self.edges, *(rows._sums(column, times) for column in columns))

    def _sums(self, values: Floats, times: Floats) -> Floats:
        """Sums by bin of the rows' values, each row taken so many times: (resamples, bins)."""
        index = bin_index(self.confidence, self.edges)
        shape = (len(self.edges) - 1, len(index))
        return sparse_product(
            csr_array((values, (index, np.arange(len(index)))), shape=shape), times
        )


def sparse_product(placed: csr_array[np.float64], times: Floats) -> Floats:
    """The transposed product of values in their bins (bins, rows) and counts (rows, resamples)."""
    return np.ascontiguousarray(np.asarray(placed @ times, np.float64).T)


def values_of(statistic: Callable[[BinStats], Floats], batches: Iterator[BinStats]) -> Floats:
    """The values of a metric over batches of statistics."""
    return np.concatenate([statistic(batch) for batch in batches])


def bootstrap_means(
    scores: Floats, weight: Floats, n_resamples: int, rng: np.random.Generator
) -> Floats:
    """Weighted means of scores (rows, kinds) on rows drawn with replacement: (resamples, kinds)."""
    counted = weight > 0.0
    scores, (count, weight) = scores[counted], row_counts(weight[counted])
    values = []
    for size in batches_of(n_resamples, len(scores)):
        times = draw_repetitions(count, size, rng)
        values.append(times.T @ (weight[:, None] * scores) / (times.T @ weight)[:, None])
    return np.concatenate(values)


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


def _draw_hits(
    count: NDArray[np.int64], chance: Floats, n_resamples: int, rng: np.random.Generator
) -> Floats:
    """How many of each group's rows hit, (groups, resamples)."""
    shape = (len(count), n_resamples)
    if np.all(count == 1):
        return (rng.random(shape) < chance[:, None]).astype(np.float64)
    return rng.binomial(count[:, None], chance[:, None], shape).astype(np.float64)


def batches_of(n_resamples: int, width: int) -> Iterator[int]:
    """The resamples in parts whose draws fit into memory."""
    step = max(1, MOST_DRAWS // width)
    return (min(step, n_resamples - start) for start in range(0, n_resamples, step))
