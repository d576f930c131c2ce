"""Scores and labels on their way into a metric: checked once, and read as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from reprlib import repr as shown
from typing import Any, TypeVar, get_args

import numpy as np
from array_api_compat import array_namespace, is_jax_array, is_numpy_array
from numpy.typing import NDArray

from calibrant.common.arrays import (
    DEVICE_TILE_ELEMENTS,
    TILE_ELEMENTS,
    as_working_float,
    on_host,
    row_max,
    row_tiles,
    to_numpy,
)
from calibrant.common.memory import require_memory
from calibrant.common.types import Array, Floats, InputKind, Labels, RowRule
from calibrant.data.checks import (
    as_labels,
    as_numpy,
    as_scores,
    as_weights,
    check_label_logits,
    check_peaks,
    check_probabilities,
    normalize_rows,
    without_ignored,
)
from calibrant.data.likely_mistakes import refuse_label_column, warn_if_probabilities
from calibrant.data.weights import copy_squares, weighted_mean
from calibrant.formulas._array_operations import ops_of
from calibrant.formulas._row_functions import log_softmax
from calibrant.metrics._notions import RowNotion, row_notion

_FEW_CLASSES = 64

T = TypeVar("T")


@dataclass(frozen=True)
class Labelled:
    """Valid probabilities on their device; labels and weights in main memory.

    ``log_true`` is the log-probability of each row's label where logits were given: it is exact
    also where the probability underflows. ``asked_notion`` is whose calibration is judged, None for
    the default of the number of classes.
    """

    probs: Array
    labels: Labels
    weight: Floats
    weighted: bool
    log_true: Floats | None = None
    streamed: bool = False  # a part of the rows cannot tell whether all weights are whole
    asked_notion: str | None = None
    _made: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def weight_if_any(self) -> Floats | None:
        """The weights, or None where all rows count the same."""
        return self.weight if self.weighted else None

    @cached_property
    def squares(self) -> Floats:
        """What each row adds to the sum of squared weights."""
        return self.weight**2 if self.streamed else copy_squares(self.weight)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """The number of columns."""
        return int(self.probs.shape[1])

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` returns, made at the first call with this key and kept."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def mean(self, values: NDArray[Any]) -> float:
        """The weighted mean of one value per row."""
        return weighted_mean(values, self.weight)

    def by_tile(self, function: Callable[[Array, Labels], Array]) -> Floats:
        """One number per row, computed where the array lies, from tiles and their labels."""
        parts = [function(self.probs[t], self.labels[t]) for t in tiles_of(self.probs)]
        return np.concatenate([to_numpy(part).astype(np.float64) for part in parts])

    @cached_property
    def true_class(self) -> Floats:
        """The probability of each row's label."""
        return np.maximum(self.by_tile(take_class), 0.0)

    @cached_property
    def top_label(self) -> tuple[Floats, NDArray[np.bool_]]:
        """The largest probability per row, and whether its class (the first of ties) is right."""
        parts = [top_of(self.probs[t], self.labels[t]) for t in tiles_of(self.probs)]
        confidence, correct = (np.concatenate(column) for column in zip(*parts, strict=True))
        return confidence.astype(np.float64), correct

    @property
    def notion(self) -> RowNotion:
        """Whose calibration is judged."""
        return row_notion(self.asked_notion, self.n_classes)

    @cached_property
    def judged(self) -> tuple[Floats, NDArray[np.bool_]]:
        """The score of each row that is judged, and whether what it promises came."""
        return self.one_class(1) if self.notion == "class-1" else self.top_label

    def one_class(self, index: int) -> tuple[Floats, NDArray[np.bool_]]:
        """The probability of a class, and whether a row is of it."""
        score = to_numpy(self.probs[:, index]).astype(np.float64)
        return np.clip(score, 0.0, 1.0), self.labels == index


def labelled(
    scores: Any,
    labels: Any,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
    notion: str | None = None,
) -> Labelled:
    """Check everything once.

    ``row_sums`` says what to do with rows that do not sum to 1: "strict" refuses them, "normalize"
    divides by the sum, "raw" takes them as they are. ``notion`` is whose calibration is judged.
    """
    check_row_rule(row_sums)
    array, labels, sample_weight = accepted(scores, labels, sample_weight, input, ignore_index)
    array = as_working_float(array)
    if input == "probs":
        array = valid_probabilities(array, row_sums)
    n_rows, n_classes = array.shape
    notion = row_notion(notion, n_classes)
    weight = as_weights(sample_weight, n_rows)
    target = as_labels(labels, n_rows, n_classes)
    weighted = sample_weight is not None
    if input == "probs":
        return Labelled(array, target, weight, weighted, asked_notion=notion)
    warn_if_probabilities(array)
    refuse_label_column(array, target)
    require_memory(
        array.dtype.itemsize * n_rows * n_classes,
        f"the softmax of {n_rows:,} rows and {n_classes:,} classes",
        "CalibrationMeter takes the rows in parts, `calibrant evaluate` several files",
    )
    probs, log_true = from_logits(array, target)
    return Labelled(probs, target, weight, weighted, log_true, asked_notion=notion)


def accepted(
    scores: Any,
    labels: Any,
    sample_weight: Any,
    kind: InputKind,
    ignore_index: int | None,
    n_classes: int | None = None,
    *,
    may_be_empty: bool = False,
) -> tuple[Array, Any, Any]:
    """An array of the right structure, with the labels and weights of the rows that count."""
    array = as_scores(scores, kind, n_classes, may_be_empty=may_be_empty)
    if is_jax_array(array):  # it has no float64 unless told so: metrics of it are NumPy's
        array = to_numpy(array)
    n_rows = array.shape[0]
    if ignore_index is None or as_numpy(labels).shape[:1] != (n_rows,):
        return array, labels, sample_weight
    if sample_weight is not None:
        sample_weight = as_weights(sample_weight, n_rows)
    return without_ignored(array, labels, sample_weight, ignore_index, may_be_empty=may_be_empty)


def check_row_rule(row_sums: str) -> None:
    """Refuse what is no rule for rows that do not sum to 1."""
    if row_sums not in get_args(RowRule):
        raise ValueError(f'row_sums must be "strict", "normalize" or "raw", got {shown(row_sums)}')


def valid_probabilities(array: Array, row_sums: RowRule, first_row: int = 0) -> Array:
    """Probabilities, checked, and normalized where that was asked for."""
    check_probabilities(array, rows=row_sums, first_row=first_row)
    if array.shape[0] and bool((array > 1.0).any()):  # by rounding
        array = array_namespace(array).clip(array, 0.0, 1.0)
    return normalize_rows(array, first_row=first_row) if row_sums == "normalize" else array


def from_logits(array: Array, labels: Labels, first_row: int = 0) -> tuple[Array, Floats]:
    """The softmax of logits, checked, and the log-probability of each row's label."""
    xp = array_namespace(array)
    probs, log_true = [], []
    for tile in tiles_of(array):
        logits, target = array[tile], labels[tile]
        check_peaks(logits, xp.max(logits, axis=1), first_row + tile.start)
        check_label_logits(to_numpy(take_class(logits, target)), target, first_row + tile.start)
        logs = log_softmax(logits, 1.0, ops_of(logits))
        probs.append(xp.exp(logs))
        log_true.append(to_numpy(take_class(logs, target)).astype(np.float64))
    return xp.concat(probs) if len(probs) > 1 else probs[0], np.concatenate(log_true)


def tiles_of(probs: Array) -> list[slice]:
    """Tiles of rows that suit the array's device."""
    return row_tiles(probs, TILE_ELEMENTS if on_host(probs) else DEVICE_TILE_ELEMENTS)


def top_of(tile: Array, labels: Labels) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The largest entry of each row, and whether it is (the first of ties) the label's."""
    xp = array_namespace(tile)
    if not is_numpy_array(tile) or tile.shape[1] > _FEW_CLASSES:
        correct = to_numpy(xp.argmax(tile, axis=1)) == labels
        return to_numpy(row_max(tile)), correct
    # NumPy is slow along short rows: go down the columns instead.
    columns = list(tile.T)
    largest = reduce(np.maximum, columns)
    correct = tile[np.arange(len(labels)), labels] == largest
    for index, column in enumerate(columns):
        correct &= (column < largest) | (labels <= index)
    return largest, correct


def take_class(tile: Array, labels: Labels) -> Array:
    """The entry of each row's label."""
    xp = array_namespace(tile)
    index = xp.asarray(labels[:, None], device=tile.device)
    return xp.take_along_axis(tile, index, axis=1)[:, 0]
