"""The increasing function of DIAG: m(x) = integral from 0 to x of g(t) dt, g > 0.

g(t) = ELU(network(t)) + 1 + 1e-8. An integration rule is a linear map from values of g at points to
values of m at nodes; its transpose takes derivatives back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray

from calibrant.calibrators import _network as network

Array = Any
Floats = NDArray[np.float64]

SMALLEST_GROWTH = 1e-8
CHUNK = 8192  # scores whose nodes pass through the network at once
GAUSS = 0.5 / np.sqrt(3.0)  # the two Gauss points of a cell lie so far from its middle


def growth(raw: Floats) -> tuple[Floats, Floats]:
    """g and its derivative with respect to the network's output."""
    falling = np.exp(np.minimum(raw, 0.0))
    negative = raw < 0.0
    return np.where(negative, falling, raw + 1.0) + SMALLEST_GROWTH, np.where(
        negative, falling, 1.0
    )


def output_for(growth_value: float) -> float:
    """The network's output at which g has a value."""
    above = growth_value - SMALLEST_GROWTH
    return float(above - 1.0 if above >= 1.0 else np.log(above))


class Rule(Protocol):
    """An integration rule."""

    @property
    def points(self) -> Floats:
        """Where g is needed."""

    def integrate(self, values: Floats) -> Floats:
        """m at the nodes from g at the points, up to a constant."""

    def pull_back(self, slopes: Floats) -> Floats:
        """Derivatives with respect to g at the points from those with respect to m."""


@dataclass(frozen=True)
class CumulativeRule:
    """Evenly spaced nodes; every cell is integrated once, by two Gauss points, and added up."""

    nodes: Floats

    @cached_property
    def step(self) -> float:
        return float(self.nodes[-1] - self.nodes[0]) / (len(self.nodes) - 1)

    @cached_property
    def points(self) -> Floats:
        middle = 0.5 * (self.nodes[1:] + self.nodes[:-1])
        return np.stack([middle - GAUSS * self.step, middle + GAUSS * self.step], axis=1).ravel()

    def integrate(self, values: Floats) -> Floats:
        cells = 0.5 * self.step * values.reshape(-1, 2).sum(axis=1)
        return np.concatenate([[0.0], np.cumsum(cells)])

    def pull_back(self, slopes: Floats) -> Floats:
        later = np.cumsum(slopes[:0:-1])[::-1]  # a cell moves all nodes to its right
        return np.repeat(0.5 * self.step * later, 2)


@dataclass(frozen=True)
class ClenshawCurtisRule:
    """The authors' rule: every node by itself, from 0 to it, with so many intervals."""

    nodes: Floats
    intervals: int

    @cached_property
    def weights(self) -> Floats:
        return clenshaw_curtis(self.intervals)[0]

    @cached_property
    def points(self) -> Floats:
        unit = 0.5 * (1.0 + clenshaw_curtis(self.intervals)[1])
        return np.outer(self.nodes, unit).ravel()

    def integrate(self, values: Floats) -> Floats:
        return 0.5 * self.nodes * (values.reshape(len(self.nodes), -1) @ self.weights)

    def pull_back(self, slopes: Floats) -> Floats:
        return np.outer(0.5 * self.nodes * slopes, self.weights).ravel()


def clenshaw_curtis(intervals: int) -> tuple[Floats, Floats]:
    """The authors' weights and nodes cos(k pi / S) on [-1, 1].

    w_k = c_k / S (1 - sum_j 2 cos(2 j k pi / S) / (4 j^2 - 1)), j = 1 .. S/2, with c_k = 2 but 1
    at the ends. The textbook's rule halves the last term of the sum; the authors' code does not.
    """
    k = np.arange(intervals + 1)
    j = np.arange(1, intervals // 2 + 1)
    ends = np.where((k == 0) | (k == intervals), 1.0, 2.0)
    cosines = np.cos(2.0 * np.pi / intervals * np.outer(k, j))
    weights = ends / intervals * (1.0 - cosines @ (2.0 / (4.0 * j**2 - 1.0)))
    return weights, np.cos(k * np.pi / intervals)


def by_authors_rule(weights: Sequence[Floats], intervals: int, x: Array) -> Array:
    """m(x) by Clenshaw-Curtis for every x apart, in the namespace and precision of x."""
    xp = array_namespace(x)
    layers = [like(part, x) for part in weights]
    rule, cosines = (like(part, x) for part in clenshaw_curtis(intervals))
    unit = 0.5 * (1.0 + cosines)
    finite = xp.isfinite(x)
    flat = xp.reshape(xp.where(finite, x, xp.zeros_like(x)), (-1,))
    parts = []
    for first in range(0, flat.shape[0], CHUNK):
        end = flat[first : first + CHUNK]
        points = end[:, None] * unit
        raw = network.forward(layers, xp.reshape(points, (-1, 1)))
        falling = xp.exp(xp.clip(raw, None, 0.0))
        values = xp.where(raw < 0.0, falling, raw + 1.0) + SMALLEST_GROWTH
        parts.append(0.5 * end * (xp.reshape(values, points.shape) @ rule))
    result = xp.reshape(xp.concat(parts, axis=0), x.shape)
    return xp.where(finite, result, x)


@dataclass(frozen=True)
class IncreasingMap:
    """m as a table on an even grid, linear between its nodes and, with a given slope, beyond them.

    Every operation on the way is monotone in floating point too: of two scores the smaller one
    never gets the larger value.
    """

    low: float
    high: float
    table: Floats
    outer_slope: float

    def values(self, x: Array) -> Array:
        """m(x), in the namespace and precision of x; -inf stays -inf."""
        inner, outer = self._parts(x)
        return inner + outer * self.outer_slope

    def gaps(self, x: Array) -> Array:
        """m(x) minus its row's maximum: 0 for the largest x, less for all smaller ones.

        m is subtracted by parts, so that nothing overflows, and a smaller x whose m rounds to the
        same number is put just below.
        """
        xp = array_namespace(x)
        inner, outer = self._parts(x)
        top = xp.max(x, axis=1, keepdims=True)
        with np.errstate(over="ignore"):
            below = inner - xp.max(inner, axis=1, keepdims=True)
            below = below + (outer - xp.max(outer, axis=1, keepdims=True)) * self.outer_slope
        just_below = -4.0 * xp.finfo(x.dtype).eps
        return xp.where(x < top, xp.clip(below, None, just_below), xp.zeros_like(below))

    def _parts(self, x: Array) -> tuple[Array, Array]:
        """The table's value at the nearest x within, and how far x lies outside."""
        xp = array_namespace(x)
        inner = xp.clip(x, self.low, self.high)
        return self._interpolated(inner), x - inner

    def _interpolated(self, x: Array) -> Array:
        xp = array_namespace(x)
        cells = len(self.table) - 1
        table = like(self.table, x)
        position = xp.clip((x - self.low) * (cells / (self.high - self.low)), 0.0, float(cells))
        cell = xp.clip(xp.astype(position, xp.int64), 0, cells - 1)
        flat = xp.reshape(cell, (-1,))
        left = xp.reshape(xp.take(table, flat, axis=0), x.shape)
        right = xp.reshape(xp.take(table, flat + 1, axis=0), x.shape)
        fraction = position - xp.astype(cell, x.dtype)
        return xp.minimum(left + fraction * (right - left), right)


def like(values: Floats, reference: Array) -> Array:
    """Values as an array of the reference's kind, precision and device."""
    if is_numpy_array(reference):
        return values.astype(reference.dtype, copy=False)
    return array_namespace(reference).asarray(
        values, dtype=reference.dtype, device=reference.device
    )
