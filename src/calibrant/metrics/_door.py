"""Probabilities and labels on their way into a metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_jax_array, is_numpy_array
from numpy.typing import NDArray

from calibrant._arrays import (
    DEVICE_TILE_ELEMENTS,
    TILE_ELEMENTS,
    Array,
    RowRule,
    as_labels,
    as_scores,
    as_weights,
    as_working_float,
    check_probabilities,
    normalize_rows,
    on_host,
    row_tiles,
    to_numpy,
)

Floats = NDArray[np.float64]
Seed = int | np.random.Generator

_FEW_CLASSES = 64


@dataclass(frozen=True)
class Labelled:
    """Valid probabilities on their device; labels and weights in main memory."""

    probs: Array
    labels: NDArray[np.int64]
    weight: Floats
    weighted: bool

    @property
    def given_weight(self) -> Floats | None:
        """The weights, or None where all rows count the same."""
        return self.weight if self.weighted else None

    @property
    def classes(self) -> int:
        """The number of columns."""
        return int(self.probs.shape[1])

    def mean(self, rows: NDArray[Any]) -> float:
        """The weighted mean of one value a row; a row of weight 0 may be anything."""
        return weighted_mean(rows, self.weight)

    def by_tile(self, function: Callable[[Array, NDArray[np.int64]], Array]) -> Floats:
        """One number a row, computed where the array lies, from tiles of rows and their labels."""
        parts = [function(self.probs[t], self.labels[t]) for t in tiles_of(self.probs)]
        return np.concatenate([to_numpy(part).astype(np.float64) for part in parts])

    def true_class(self) -> Floats:
        """The probability of the true class, a row."""
        return np.maximum(self.by_tile(take_class), 0.0)

    def top(self) -> tuple[Floats, NDArray[np.bool_]]:
        """The largest probability, a row, and whether its class (the first of ties) is right."""
        parts = [top_of(self.probs[t], self.labels[t]) for t in tiles_of(self.probs)]
        confidence, correct = (np.concatenate(column) for column in zip(*parts, strict=True))
        return confidence.astype(np.float64), correct


def labelled(
    probs: Any, labels: Any, sample_weight: Any = None, rows: RowRule = "strict"
) -> Labelled:
    """Check once, at the door.

    ``rows`` says what to do with rows that do not sum to 1: "strict" refuses them, "normalize"
    divides by the sum, "raw" takes them as they are.
    """
    array = as_scores(probs, "probs")
    if is_jax_array(array):  # it has no float64 unless told so: metrics of it are NumPy's
        array = to_numpy(array)
    array = as_working_float(array)
    check_probabilities(array, rows=rows)
    if rows == "normalize":
        array = normalize_rows(array)
    height, classes = array.shape
    weight = as_weights(sample_weight, height)
    return Labelled(array, as_labels(labels, height, classes), weight, sample_weight is not None)


def tiles_of(probs: Array) -> list[slice]:
    """Tiles of rows that suit the array's device."""
    return row_tiles(probs, TILE_ELEMENTS if on_host(probs) else DEVICE_TILE_ELEMENTS)


def top_of(tile: Array, labels: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The largest entry of each row, and whether it is (the first of ties) the label's."""
    xp = array_namespace(tile)
    if not is_numpy_array(tile) or tile.shape[1] > _FEW_CLASSES:
        correct = to_numpy(xp.argmax(tile, axis=1)) == labels
        return to_numpy(xp.max(tile, axis=1)), correct
    # NumPy is slow along short rows: go down the columns instead.
    columns = list(tile.T)
    largest = reduce(np.maximum, columns)
    correct = tile[np.arange(len(labels)), labels] == largest
    for index, column in enumerate(columns):
        correct &= (column < largest) | (labels <= index)
    return largest, correct


def take_class(tile: Array, labels: NDArray[np.int64]) -> Array:
    """The entry of each row's label."""
    xp = array_namespace(tile)
    index = xp.asarray(labels[:, None], device=tile.device)
    return xp.take_along_axis(tile, index, axis=1)[:, 0]


def weighted_mean(rows: NDArray[Any], weight: Floats) -> float:
    """The weighted mean of one value a row; a row of weight 0 may be anything."""
    counted = weight > 0.0
    return float((weight[counted] @ rows[counted]) / weight.sum())
