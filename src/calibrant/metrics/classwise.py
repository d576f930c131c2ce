"""Calibration of every class' probability, not only of the largest."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array
from numpy.typing import NDArray

from calibrant._arrays import Array, RowRule, like, to_numpy
from calibrant._binning import (
    BinStats,
    Floats,
    Norm,
    bin_index,
    calibration_error,
    equal_width_edges,
)
from calibrant.metrics._door import Labelled, labelled, take_class, tiles_of
from calibrant.metrics.binned import DEFAULT_BINS


def classwise_ece(
    probs: Any,
    labels: Any,
    bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> float:
    """The mean over all classes of each class' calibration error.

    A class without a label counts like any other: its probability should be small, and the error
    says how far it is not. (Kull et al. sum over the classes instead: that is C times this.)
    """
    return float(
        classwise_ece_per_class(
            probs, labels, bins, norm, sample_weight=sample_weight, rows=rows
        ).mean()
    )


def classwise_ece_per_class(
    probs: Any,
    labels: Any,
    bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> Floats:
    """The calibration error of each class' probability against "is it this class", (classes,)."""
    data = labelled(probs, labels, sample_weight, rows)
    return calibration_error(class_stats(data, equal_width_edges(bins)), norm)


def class_stats(data: Labelled, edges: Floats) -> BinStats:
    """The bins of every class' probability: statistics of shape (classes, bins)."""
    size = data.classes * (len(edges) - 1)
    sums = np.zeros((4, size))
    for tile in tiles_of(data.probs):
        weight = data.weight[tile] if data.weighted else None
        sums += _tile_sums(data.probs[tile], data.labels[tile], weight, edges)
    return BinStats(edges, *sums.reshape(4, data.classes, -1))


def flat_bins(tile: Array, edges: Floats) -> Array:
    """class * bins + bin of every entry, (rows, classes), where the array lies."""
    xp = array_namespace(tile)
    if is_numpy_array(tile):
        index: Array = bin_index(tile.astype(np.float64).ravel(), edges).reshape(tile.shape)
    else:
        inner = like(edges[1:-1], tile)
        index = xp.searchsorted(inner, xp.astype(tile, xp.float64), side="left")
    offsets = np.arange(tile.shape[1]) * (len(edges) - 1)
    return index + like(offsets, tile)


def _tile_sums(
    tile: Array, labels: NDArray[np.int64], weight: Floats | None, edges: Floats
) -> Floats:
    xp = array_namespace(tile)
    size = tile.shape[1] * (len(edges) - 1)
    flat = flat_bins(tile, edges)
    hits = np.bincount(to_numpy(take_class(flat, labels)), weight, size)
    if weight is None:
        count = _sums(flat, None, size)
        return np.stack([count, _sums(flat, tile, size), hits, count])
    column = like(weight[:, None], tile)
    weights = xp.broadcast_to(column, tile.shape)
    columns = (weights, weights * tile, weights * weights)
    total, confidence, squares = (_sums(flat, values, size) for values in columns)
    return np.stack([total, confidence, hits, squares])


def _sums(flat: Array, values: Array | None, size: int) -> Floats:
    """Sums of values by flat bin, on the device where it can count, else in main memory."""
    if is_torch_array(flat):
        weights = None if values is None else values.double().reshape(-1)
        return to_numpy(flat.reshape(-1).bincount(weights, minlength=size)).astype(np.float64)
    weights = None if values is None else to_numpy(values).ravel()
    return np.bincount(to_numpy(flat).ravel(), weights, size).astype(np.float64)
