"""The operations of formulas as ONNX nodes: a graph is written, and nothing is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from calibrant.backends.onnx._builder import Tensor, where
from calibrant.common.types import Array, Floats
from calibrant.formulas._curves import Curves, PaddedCurves


class GraphOps:
    """Operations that append nodes to the graph of their first tensor."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def exp(self, x: Tensor) -> Tensor:
        return x.exp()

    def log(self, x: Tensor) -> Tensor:
        return x.log()

    def log1p(self, x: Tensor) -> Tensor:
        """There is no such operator: log(1 + x) in float64 keeps the digits of a small x."""
        return (x.cast(np.float64) + 1.0).log().cast(x.dtype)

    def tanh(self, x: Tensor) -> Tensor:
        return x.apply("Tanh")

    def abs(self, x: Tensor) -> Tensor:
        return x.apply("Abs")

    def maximum(self, x: Tensor, y: Tensor | float) -> Tensor:
        return x.at_least(y)

    def minimum(self, x: Tensor, y: Tensor | float) -> Tensor:
        return x.at_most(y)

    def clip(self, x: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
        return x.at_least(low).at_most(high)

    def where(self, condition: Tensor, yes: Tensor | float, no: Tensor | float) -> Tensor:
        return where(condition, yes, no)

    def any(self, condition: Tensor) -> bool:
        return True  # not known before the graph runs

    def invert(self, condition: Tensor) -> Tensor:
        return condition.apply("Not")

    def is_masked(self, x: Tensor) -> Tensor:
        return x.same_as(-np.inf)

    def max(self, x: Tensor) -> Tensor:
        return x.max()

    def min(self, x: Tensor) -> Tensor:
        return x.min()

    def sum(self, x: Tensor) -> Tensor:
        return x.sum()

    def mean(self, x: Tensor) -> Tensor:
        return x.mean()

    def gaps(self, x: Tensor) -> Tensor:
        return x - x.max()

    def divide(self, x: Tensor, y: Tensor | float) -> Tensor:
        return x / y

    def softmax(self, gaps: Tensor) -> Tensor:
        return gaps.softmax()

    def log_softmax(self, gaps: Tensor) -> Tensor:
        return gaps - gaps.exp().sum().log()

    def top(self, x: Tensor, k: int) -> Tensor:
        return x.top(k)

    def arg_max(self, x: Tensor) -> Tensor:
        return x.arg_max()

    def take(self, x: Tensor, index: Tensor) -> Tensor:
        return x.pick(index)

    def first_largest(self, x: Tensor) -> Tensor:
        return x.arg_max().same_as(x.graph.constant(np.arange(self.n_classes), np.int64))

    def columns(self, x: Tensor, index: Any) -> Tensor:
        return x.apply("Gather", x.graph.constant(index, np.int64), axis=-1)

    def for_classes(self, count: int) -> GraphOps:
        return GraphOps(count)

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        return parts[0].concat(*parts[1:])

    def expand(self, x: Tensor) -> Tensor:
        return x.add_axis()

    def drop(self, x: Tensor) -> Tensor:
        return x.drop_last_axis()

    def matmul(self, x: Tensor, kernel: Tensor) -> Tensor:
        return x @ kernel

    def affine(self, x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
        return x @ kernel + bias

    def constant(self, values: Any, like: Tensor) -> Tensor | float:
        if isinstance(values, int | float):
            return float(values)
        return like.graph.constant(values, bool if values.dtype == bool else like.dtype)

    def full_like(self, x: Tensor, value: float) -> Tensor:
        return x.filled_like(value)

    def cast(self, x: Tensor, kind: Literal["float64"] | Array) -> Tensor:
        return x.cast(np.float64 if isinstance(kind, str) else kind.dtype)

    def eps(self, x: Tensor) -> float:
        return float(np.finfo(x.dtype).eps)

    def look_up(self, x: Tensor, curves: Curves) -> Tensor:
        padded = curves.padded
        width = 1 << (padded.value.shape[1] - 1).bit_length()  # places per curve, a power of two
        place = _place(x, padded, width)
        found = _flat(x, padded.value, width).gather(place)
        if padded.slope is None or padded.anchor is None:
            return found
        run = x - _flat(x, padded.anchor, width).gather(place)
        slope = _flat(x, padded.slope, width).gather(place)
        if padded.square is not None and padded.cube is not None:
            cube = _flat(x, padded.cube, width).gather(place)
            slope = slope + (_flat(x, padded.square, width).gather(place) + cube * run) * run
        return found + slope * run

    def interpolate(self, table: Tensor, position: Tensor) -> Tensor:
        graph, last = position.graph, position.graph.length_of(table) - 2
        cell = position.at_most(float(last)).cast(np.int64)
        left = table.gather(cell)
        right = table.gather(cell + graph.number(1, np.int64))
        fraction = position - cell.cast(position.dtype)
        return (left + fraction * (right - left)).at_most(right)


def _place(x: Tensor, curves: PaddedCurves, width: int) -> Tensor:
    """Where each value stands in its column's flattened table: a binary search, unrolled.

    Every round compares the edge in the middle of what is left: the place moves past it or stays.
    """
    graph = x.graph
    start = graph.constant(np.arange(len(curves.edges)) * width, np.int64)
    place = x.filled_like(0.0).cast(np.int64) + start
    if width == 1:
        return place
    edges = _flat(x, curves.edges, width, np.inf)
    step = width // 2
    while step:
        probe = edges.gather(place + graph.number(step - 1, np.int64))
        passed = probe <= x if curves.inclusive else probe < x
        place = place + passed.cast(np.int64) * graph.number(step, np.int64)
        step //= 2
    return place


def _flat(x: Tensor, part: Floats, width: int, fill: float = 0.0) -> Tensor:
    """A part of a table, its rows filled up to ``width`` and laid end to end."""
    wide = np.full((len(part), width), fill)
    wide[:, : part.shape[1]] = part
    return x.graph.constant(wide.reshape(-1), np.float64)
