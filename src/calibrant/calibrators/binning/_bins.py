"""Bins of a score: where they are cut, and what they hold.

A value lies in the bin whose number is the count of edges strictly below it, so a value equal to
an edge goes to the lower bin. Only inner edges are kept: the first bin begins at 0, the last ends
at 1. Equal edges, and an infinite one, make bins that hold nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._one_vs_all import tie_width
from calibrant.common.types import Floats
from calibrant.data.weights import are_counts


@dataclass(frozen=True)
class SortedScores:
    """Scores in order, each with its place and the weight up to and with it."""

    score: Floats
    order: NDArray[np.intp]
    mass: Floats
    weight: Floats  # in the scores' own (unsorted) order

    @classmethod
    def of(cls, score: Floats, weight: Floats) -> SortedScores:
        order = np.argsort(score)
        return cls(score[order], order, np.cumsum(weight[order]), weight)

    def edges(self, cuts: Floats) -> Floats:
        """The edges at given masses: halfway between the last score before and the first after.

        A cut inside a row's own weight, or between rows of one score, keeps them all below: the
        edge is halfway to the next higher score, or 1. An edge at the score itself would let the
        last digit decide about the bin, which may differ between NumPy, PyTorch and ONNX.
        """
        last = np.searchsorted(self.mass, cuts, side="left")
        first = np.searchsorted(self.mass, cuts, side="right")
        end = len(self.score) - 1
        before, after = self.score[np.minimum(last, end)], self.score[np.minimum(first, end)]
        same = before + tie_width(before)
        behind = np.searchsorted(self.score, same, side="right")
        higher = np.where(behind > end, 2.0 - before, self.score[np.minimum(behind, end)])
        return np.asarray(before + 0.5 * (np.where(after > same, after, higher) - before))

    def equal_mass_edges(self, bins: int) -> Floats:
        """The edges of bins of equal mass; those that few rows leave over are at infinity."""
        if len(self.score) == 0:
            return np.full(bins - 1, np.inf)
        edges = self.edges(equal_mass_cuts(self.weight, bins))
        return np.append(edges, np.full(bins - 1 - len(edges), np.inf))

    def means(self, edges: Floats, values: Floats) -> Floats:
        """The weighted mean in each bin of values in the scores' own (unsorted) order.

        An empty bin has its midpoint.
        """
        inner = np.searchsorted(self.score, edges, side="right")
        places = np.concatenate([[0], inner, [len(self.score)]])
        mass, total = (
            np.diff(np.append(0.0, np.cumsum(part[self.order]))[places])
            for part in (self.weight, self.weight * values)
        )
        bounds = np.concatenate([[0.0], np.clip(edges, 0.0, 1.0), [1.0]])
        midpoints = 0.5 * (bounds[:-1] + bounds[1:])
        means = np.divide(total, mass, out=midpoints, where=mass > 0.0)
        return np.clip(means, 0.0, 1.0)  # of rounding error


def equal_mass_cuts(weight: Floats, bins: int) -> Floats:
    """The masses at which to cut into bins of equal mass; fewer bins than asked for few rows.

    Whole weights count rows, and the sizes then differ by at most one, the larger bins first.
    """
    total = float(weight.sum())
    bins = max(1, min(bins, round(total)))
    index = np.arange(1, bins)
    if are_counts(weight):
        size, larger = divmod(total, bins)
        return np.asarray(index * size + np.minimum(index, larger))
    return np.asarray(index * (total / bins), np.float64)
