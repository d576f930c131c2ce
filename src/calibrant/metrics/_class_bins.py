"""Bins of every class' probability, counted on the device where it can count."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from calibrant.common.arrays import like, to_numpy
from calibrant.common.types import Array, Floats, Labels
from calibrant.data.binning import BinStats, bin_index
from calibrant.metrics._labelled import Labelled, take_class, tiles_of


def class_stats(data: Labelled, edges: Floats) -> BinStats:
    """The bins of every class' probability: statistics of shape (classes, bins)."""
    size = data.n_classes * (len(edges) - 1)
    sums = np.zeros((4, size))
    for tile in tiles_of(data.probs):
        pair = (data.weight[tile], data.squares[tile]) if data.weighted else None
        sums += _tile_sums(data.probs[tile], data.labels[tile], pair, edges)
    return BinStats(edges, *sums.reshape(4, data.n_classes, -1))


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
    tile: Array, labels: Labels, weighing: tuple[Floats, Floats] | None, edges: Floats
) -> Floats:
    """The four sums of ``BinStats`` for a tile of rows with weights and squares, by flat bin."""
    xp = array_namespace(tile)
    size = tile.shape[1] * (len(edges) - 1)
    flat = flat_bins(tile, edges)
    weight = None if weighing is None else weighing[0]
    hits = np.bincount(to_numpy(take_class(flat, labels)), weight, size)
    if weighing is None:
        count = _sums(flat, None, size)
        return np.stack([count, _sums(flat, tile, size), hits, count])
    weights, squared = (
        xp.broadcast_to(like(column[:, None], tile), tile.shape) for column in weighing
    )
    columns = (weights, weights * tile, squared)
    total, confidence, squares = (_sums(flat, values, size) for values in columns)
    return np.stack([total, confidence, hits, squares])


def _sums(flat: Array, values: Array | None, size: int) -> Floats:
    """Sums of values by flat bin, on the device where it can count, else in main memory."""
    if is_torch_array(flat):
        weights = None if values is None else values.double().reshape(-1)
        return to_numpy(flat.reshape(-1).bincount(weights, minlength=size)).astype(np.float64)
    weights = None if values is None else to_numpy(values).ravel()
    return np.bincount(to_numpy(flat).ravel(), weights, size).astype(np.float64)
