"""Resampling the bins of all classes: labels are drawn from whole rows, rows with all classes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant.common.arrays import to_numpy
from calibrant.common.types import Floats
from calibrant.data.binning import BinStats
from calibrant.data.weights import row_counts
from calibrant.metrics._class_bins import class_stats, flat_bins
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._resampling import (
    MOST_DRAWS,
    Drawing,
    batches_of,
    draw_repetitions,
    sparse_product,
)


def class_null(data: Labelled, edges: Floats, drawing: Drawing) -> Floats:
    """Means over the classes where labels are drawn from the probabilities: (resamples, k)."""
    probs = to_numpy(data.probs).astype(np.float64)
    flat = flat_bins(probs, edges)
    fixed = class_stats(data, edges)
    shape = fixed.weight.shape
    values = []
    for row, label, weight in draw_rows(probs, data.weight, drawing.n_resamples, drawing.rng):
        sums = np.bincount(flat[row, label], weight, fixed.weight.size)
        hits = np.asarray(sums, np.float64).reshape(shape)
        stats = BinStats(edges, fixed.weight, fixed.confidence_sum, hits, fixed.weight_squares)
        values.append(drawing.all_of(stats).mean(axis=0))
    return np.array(values)


def class_bootstrap(data: Labelled, edges: Floats, drawing: Drawing) -> Floats:
    """Means over the classes on rows drawn with replacement: (resamples, k)."""
    count, weight = row_counts(data.weight)
    values = []
    for size in batches_of(drawing.n_resamples, data.n_rows):
        times = draw_repetitions(count, size, drawing.rng)
        sums = np.zeros((size, len(drawing.statistics)))
        for some in _class_slices(data):
            sums += drawing.all_of(_DrawnBins(data, weight, edges, some, times)).sum(axis=1)
        values.append(sums / data.n_classes)
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
        self._flat = flat_bins(self._probs, edges)

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
        return sparse_product(placed, self._times).reshape(-1, n_classes, len(self.edges) - 1)


def _class_slices(data: Labelled) -> Iterator[slice]:
    """Some classes at a time, so that their entries fit into memory."""
    step = max(1, MOST_DRAWS // data.n_rows)
    for start in range(0, data.n_classes, step):
        yield slice(start, min(start + step, data.n_classes))


def draw_labels(
    probs: Floats, n_resamples: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
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
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int64], Floats]]:
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
