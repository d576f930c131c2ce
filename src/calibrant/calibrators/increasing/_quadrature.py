"""The increasing function of DIAG: m(x) = integral from 0 to x of g(t) dt, g > 0.

g(t) = ELU(network(t)) + 1 + 1e-8. An integration rule is a linear map from values of g at points to
values of m at nodes; its transpose takes derivatives back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from calibrant.common.types import Floats

SMALLEST_GROWTH = 1e-8
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
