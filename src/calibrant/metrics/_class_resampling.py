"""Resampling for the classwise error: labels are drawn from whole rows, rows with all classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant._arrays import to_numpy
from calibrant._binning import Floats
from calibrant.metrics._door import Labelled
from calibrant.metrics._resampling import draw_repetitions, sparse_product
from calibrant.metrics.classwise import class_stats, flat_bins

_DRAWS = 4_000_000  # random numbers held at once


def classwise_null(
    data: Labelled, edges: Floats, resamples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The classwise error when labels are drawn from the probabilities, once a resample."""
    probs = to_numpy(data.probs).astype(np.float64)
    flat = flat_bins(probs, edges)
    size = data.classes * (len(edges) - 1)
    expected = class_stats(data, edges).confidence_sum.ravel()
    scale = data.weight.sum() * data.classes
    values = []
    for drawn in _draw_labels(probs, resamples, rng):
        index = np.take_along_axis(flat, drawn, axis=1)
        for column in index.T:
            hits = np.bincount(column, data.weight, size)
            values.append(np.abs(hits - expected).sum() / scale)
    return np.array(values)


def classwise_bootstrap(
    data: Labelled, edges: Floats, resamples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The classwise error of rows drawn with replacement, once a resample."""
    rows = len(data.labels)
    step = max(1, _DRAWS // rows)
    count = np.ones(rows, np.int64)
    values = []
    for start in range(0, resamples, step):
        times = draw_repetitions(count, min(step, resamples - start), rng)
        gaps = np.zeros(times.shape[1])
        for part in _residuals(data, edges):
            gaps += np.abs(sparse_product(part, times)).sum(axis=1)
        values.append(gaps / (data.weight @ times * data.classes))
    return np.concatenate(values)


def _residuals(data: Labelled, edges: Floats) -> Iterator[csr_array[np.float64]]:
    """Matrices (bins, rows) of weighted residuals, for some classes at a time."""
    bins = len(edges) - 1
    step = max(1, _DRAWS // len(data.labels))
    for start in range(0, data.classes, step):
        some = slice(start, min(start + step, data.classes))
        probs = to_numpy(data.probs[:, some]).astype(np.float64)
        truth = data.labels[:, None] == np.arange(some.start, some.stop)
        residual = data.weight[:, None] * (probs - truth)
        flat = flat_bins(probs, edges)
        row = np.broadcast_to(np.arange(len(probs))[:, None], flat.shape)
        shape = (bins * probs.shape[1], len(probs))
        yield csr_array((residual.ravel(), (flat.ravel(), row.ravel())), shape=shape)


def _draw_labels(
    probs: Floats, resamples: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Labels (rows, resamples) drawn from the rows, in batches."""
    rows, classes = probs.shape
    cumulative = np.cumsum(probs, axis=1)
    cumulative /= cumulative[:, -1:]
    offset = np.arange(rows)[:, None]
    # Row i's steps lie in [i, i + 1]: one sorted array, and one search for all draws.
    ladder = (cumulative + offset).ravel()
    step = max(1, _DRAWS // rows)
    for start in range(0, resamples, step):
        draws = rng.random((rows, min(step, resamples - start))) + offset
        found = np.searchsorted(ladder, draws, side="right") - offset * classes
        yield np.minimum(found, classes - 1)
