"""The meter's state: one flat vector of counts, one of sums, and the names of their parts."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.data.binning import BinStats, bin_index, equal_width_edges
from calibrant.data.weights import MOST_ROWS
from calibrant.metrics._bins import CELL_EDGES, CELLS, Reads, bins_of, row_scores
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._registry import METRICS

Counts = NDArray[np.int64]
Shapes = dict[str, tuple[int, ...]]

LARGEST_SUM = 1e300  # sums that add up to more are no numbers
HEAVIEST = 1e60  # weight of all rows, and one over the lightest
_ROUNDING = 1e-5  # of sums, and of probabilities beyond [0, 1], relative to the weights
LARGEST_SCORE = 1e100  # of a row: larger ones, whose sums would not be numbers, count as infinite
_DOWN, _UP = 1.0 - _ROUNDING, 1.0 + _ROUNDING


@dataclass(frozen=True)
class Layout:
    """What a state has room for; states of the same layout add up.

    ``scores`` names the metrics that are means of one score per row, ``notion`` the probability
    that the bins hold.
    """

    n_bins: int
    n_classes: int
    classwise: bool
    scores: tuple[str, ...]
    notion: RowNotion

    @property
    def counts(self) -> Shapes:
        """Rows, and the rows where a score is infinite."""
        return {"rows": (), "infinite": (len(self.scores),)}

    @property
    def sums(self) -> Shapes:
        """Weights and their squares, moments of the scores, and bins as in ``BinStats``."""
        shapes: Shapes = {
            "weight": (),
            "weight_squares": (),
            "moments": (len(self.scores), 3),  # of w s, w^2 s and w^2 s^2: mean, standard error
            "null_variance": (self.n_bins,),  # of w^2 c (1 - c)
            "equal-width": (4, self.n_bins),
            "cells": (4, CELLS),
            "kde-cells": (4, CELLS),
            "label_weight": (self.n_classes,),
        }
        if self.classwise:
            shapes["classes"] = (4, self.n_classes, self.n_bins)
        return shapes

    @property
    def binned(self) -> list[Reads]:
        """The parts that hold bins, by what metrics call them."""
        kept: list[Reads] = ["equal-width", "cells", "kde-cells"]
        return [*kept, "classes"] if self.classwise else kept


def score_names() -> tuple[str, ...]:
    """The metrics of which a meter keeps moments."""
    return tuple(m.name for m in METRICS.values() if m.mergeable and not m.is_error)


@dataclass(frozen=True)
class MeterState:
    """Everything that adds up."""

    layout: Layout
    counts: Counts
    sums: Floats

    @classmethod
    def empty(cls, layout: Layout) -> MeterState:
        """All zeros."""
        counts, sums = _size(layout.counts), _size(layout.sums)
        return cls(layout, np.zeros(counts, np.int64), np.zeros(sums))

    def __add__(self, other: MeterState) -> MeterState:
        return MeterState(self.layout, self.counts + other.counts, self.sums + other.sums)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.count("rows"))

    def count(self, name: str) -> Counts:
        """A part of the counts: a view, so that it can be added to."""
        return _part(self.counts, self.layout.counts, name)

    def sum(self, name: str) -> Floats:
        """A part of the sums: a view, so that it can be added to."""
        return _part(self.sums, self.layout.sums, name)

    def stats(self, reads: Reads) -> BinStats:
        """A part of the sums as bin statistics."""
        edges = CELL_EDGES if reads.endswith("cells") else equal_width_edges(self.layout.n_bins)
        return BinStats(edges, *self.sum(reads))

    @property
    def weighted(self) -> bool:
        """Whether any row had a weight other than 1: only then do these numbers differ."""
        rows = float(self.count("rows"))
        return not (float(self.sum("weight")) == float(self.sum("weight_squares")) == rows)

    def add(self, data: Labelled) -> None:
        """Add rows, in place."""
        weight = data.weight
        squares = weight**2
        self.count("rows")[...] += len(data.rows)
        self.sum("weight")[...] += weight.sum()
        self.sum("weight_squares")[...] += squares.sum()
        self.sum("label_weight")[...] += np.bincount(data.labels, weight, data.n_classes)
        columns = [row_scores(METRICS[name].statistic, data) for name in self.layout.scores]
        scores = np.stack(columns).astype(np.float64)
        finite = scores < LARGEST_SCORE
        self.count("infinite")[...] += np.count_nonzero(~finite & (weight > 0.0), axis=1)
        scores = np.where(finite, scores, 0.0)
        moments = [scores @ weight, scores @ squares, scores**2 @ squares]
        self.sum("moments")[...] += np.stack(moments, axis=1)
        confidence = data.judged[0]
        index = bin_index(confidence, equal_width_edges(self.layout.n_bins))
        variance = squares * confidence * (1.0 - confidence)
        self.sum("null_variance")[...] += np.bincount(index, variance, self.layout.n_bins)
        for reads in self.layout.binned:
            bins = bins_of(reads, data, self.layout.n_bins)
            for mine, theirs in zip(self.sum(reads), bins.columns, strict=True):
                mine += theirs


def total(state: MeterState | None, added: MeterState) -> MeterState:
    """The rows of both."""
    if state is None:
        return added
    check_same(state.layout, added.layout)
    return state + added


def check_same(first: Layout, second: Layout) -> None:
    """Refuse to add what does not add up; settings are compared elsewhere."""
    if first.n_classes != second.n_classes:
        raise ValueError(
            "a meter's rows must have the same classes, "
            f"got {first.n_classes} and {second.n_classes}"
        )
    if first.scores != second.scores:
        raise ValueError(
            f"meters must keep the same scores, got {first.scores} and {second.scores}"
        )


# --- what every state obeys -------------------------------------------------------------------


def checked_state(layout: Layout, counts: Any, sums: Any) -> MeterState:
    """A state from flat vectors that come from outside, or an error with the rule they break."""
    counts, sums = np.array(counts), np.array(sums)
    for name, array, dtype in (("counts", counts, "int64"), ("sums", sums, "float64")):
        size = _size(getattr(layout, name))
        if array.shape != (size,):
            raise ValueError(f"{name} of such a meter must have shape ({size},), got {array.shape}")
        if array.dtype != dtype:
            raise ValueError(f"{name} of a meter must be {dtype}, got dtype {array.dtype}")
    _refuse(counts < 0, counts, "counts of a meter must be at least 0")
    _refuse(~(np.abs(sums) <= LARGEST_SUM), sums, "sums of a meter must be finite")
    state = MeterState(layout, counts, sums)
    _check_weights(state)
    for index, name in enumerate(layout.scores):
        _check_moments(state, index, name)
    for reads in layout.binned:
        _check_bins(reads, state.stats(reads), state)
    return state


def _check_weights(state: MeterState) -> None:
    """Refuse weights that no rows can have."""
    rows, total, squares = state.count("rows"), state.sum("weight"), state.sum("weight_squares")
    _refuse(rows < 1, rows, "a meter with classes must have at least one row")
    _refuse(rows > MOST_ROWS, rows, f"the rows of a meter must be at most {MOST_ROWS:g}")
    for part in (total, squares):
        _refuse(part <= 0.0, part, "weights of a meter must have positive sums")
    _refuse_outside(total, 1.0 / HEAVIEST, HEAVIEST, "the weight of a meter")
    lowest, highest = float(total) ** 2 / float(rows), float(total) ** 2
    _refuse_outside(squares, lowest * _DOWN, highest * _UP, "the squared weights of a meter")
    slack = _ROUNDING * float(squares)
    _refuse_outside(state.sum("null_variance"), -slack, squares, "null_variance of a meter")
    labels = state.sum("label_weight")
    _refuse(labels < 0.0, labels, "label_weight of a meter must be at least 0")
    _check_total("label_weight", float(labels.sum()), float(total))


def _check_moments(state: MeterState, index: int, name: str) -> None:
    """Refuse moments that scores of this name cannot have."""
    rows, infinite = state.count("rows"), state.count("infinite")[index]
    _refuse(infinite > rows, infinite, f"infinite scores must be at most the rows, {rows}")
    largest = {"accuracy": 1.0, "brier": float(state.layout.n_classes)}.get(name, LARGEST_SCORE)
    if largest < LARGEST_SCORE:
        _refuse(infinite > 0, infinite, f"no score of {name!r} can be infinite")
    # of w s, w^2 s and w^2 s^2, which is at most the largest score times the second
    first, second, third = state.sum("moments")[index]
    squares = float(state.sum("weight_squares"))
    bounds = (float(state.sum("weight")), squares, max(float(second), _ROUNDING * squares))
    for moment, bound in zip((first, second, third), bounds, strict=True):
        highest = largest * bound * _UP
        _refuse_outside(moment, -_ROUNDING * bound, highest, f"the moments of {name!r}")


def _check_bins(name: str, stats: BinStats, state: MeterState) -> None:
    """Refuse bins that no rows can have."""
    weight, total = stats.weight, float(state.sum("weight"))
    for column in (weight, stats.correct_sum, stats.weight_squares):
        _refuse(column < 0.0, column, f"sums of the bins {name!r} must be at least 0")
    for one in np.atleast_1d(stats.total_weight):
        _check_total(name, float(one), total)
    for one in np.atleast_1d(stats.weight_squares.sum(axis=-1)):
        _check_total(f"{name}, squared", float(one), float(state.sum("weight_squares")))
    low, high = stats.edges[:-1] - _ROUNDING, stats.edges[1:] + _ROUNDING
    outside = (stats.confidence_sum < low * weight) | (stats.confidence_sum > high * weight)
    _refuse(outside, stats.confidence_sum, f"confidences of {name!r} must lie in their bins")
    for column, most in ((stats.correct_sum, weight), (stats.weight_squares, weight**2)):
        _refuse(column > most * _UP, column, f"sums of {name!r} must not pass its weight")


def _check_total(name: str, weight: float, total: float) -> None:
    if abs(weight - total) > _ROUNDING * total:
        raise ValueError(f"the weights of {name!r} must add up to {total}, got {weight}")


def _refuse(bad: Any, values: Any, rule: str) -> None:
    if np.any(bad):
        raise ValueError(f"{rule}, got {np.asarray(values)[bad].flat[0]}")


def _refuse_outside(values: Any, low: float, high: Any, what: str) -> None:
    outside = (np.asarray(values) < low) | (np.asarray(values) > high)
    _refuse(outside, values, f"{what} must be numbers from {low:g} to {float(high):g}")


def _size(shapes: Shapes) -> int:
    return sum(prod(shape) for shape in shapes.values())


def _part(flat: NDArray[Any], shapes: Shapes, name: str) -> NDArray[Any]:
    start = 0
    for part, shape in shapes.items():
        if part == name:
            return flat[start : start + prod(shape)].reshape(shape)
        start += prod(shape)
    raise KeyError(name)
