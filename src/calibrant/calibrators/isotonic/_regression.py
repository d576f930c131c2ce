"""Isotonic regression of 0/1 targets on one score, as blocks and the points of a line through them.

``flat_line`` is scikit-learn's ``IsotonicRegression(out_of_bounds="clip")``. The blocks are found
without pairing every score with its target: from one hit (target 1) to the next, the merged points
in between have target 0 and always join the hit's block. So pool-adjacent-violators runs on as
many points as there are hits, however many scores there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from calibrant._types import Floats

MERGE = 1e-15  # neighbours closer than this are one point: the resolution scikit-learn uses


@dataclass(frozen=True)
class Blocks:
    """What pool-adjacent-violators gives: neighbouring scores that share one value, at least one.

    The values rise from block to block.
    """

    low: Floats  # the smallest score of each block
    high: Floats  # the largest
    value: Floats
    first: NDArray[np.intp]  # the first row of each block among the sorted ones
    score: Floats  # the sorted scores of all rows
    mass: Floats  # the weight before each of them, and of all

    @property
    def mean(self) -> Floats:
        """The mean score of each block."""
        moment = np.add.reduceat(np.diff(self.mass) * self.score, self.first)
        total = np.diff(self.mass[np.append(self.first, len(self.score))])
        return np.clip(moment / total, self.low, self.high)  # but for rounding it lies there


def isotonic_blocks(
    score: Floats, weight: Floats | None, hit_score: Floats, hit_weight: Floats | None
) -> Blocks:
    """The blocks of at least one score. Weights None are all 1.

    ``hit_score`` are those of ``score`` whose target is 1.
    """
    ordered, mass = _sorted_mass(score, weight)
    hits, hit_mass = _sorted_mass(hit_score, hit_weight)
    points = np.flatnonzero(np.diff(ordered, prepend=-np.inf) >= MERGE)
    hit_point = np.searchsorted(points, np.searchsorted(ordered, hits), side="right") - 1
    starts = np.unique(np.append(0, hit_point))  # the points where a block may begin
    before = np.append(mass[points[starts]], mass[-1])
    hits_before = np.append(hit_mass[np.searchsorted(hit_point, starts)], hit_mass[-1])
    total = np.diff(before)
    pooled = isotonic_regression(np.diff(hits_before) / total, weights=total)
    first = pooled.blocks[:-1]
    begin = starts[first]
    end = np.append(begin[1:], len(points)) - 1
    low, high = ordered[points[begin]], ordered[points[end]]
    return Blocks(low, high, np.clip(pooled.x[first], 0.0, 1.0), points[begin], ordered, mass)


def _sorted_mass(score: Floats, weight: Floats | None) -> tuple[Floats, Floats]:
    """Sorted scores, and the weight before each of them and of all."""
    if weight is None:
        return np.sort(score), np.arange(len(score) + 1, dtype=np.float64)
    order = np.argsort(score)
    return score[order], np.append(0.0, np.cumsum(weight[order]))


def flat_line(blocks: Blocks) -> tuple[Floats, Floats]:
    """The abscissae and ordinates of the line that is flat from each block's first to last point.

    It is linear between blocks, and flat outside all of them.
    """
    return _corners(blocks.low, blocks.high, blocks.value)


def centered_line(blocks: Blocks) -> tuple[Floats, Floats]:
    """The same with every block as one point at its mean score, so that the line rises.

    Blocks of value 0 and 1 stay flat, as do the outer halves of the first block and the last.
    """
    flat = (blocks.value <= 0.0) | (blocks.value >= 1.0)
    left, right = (np.where(flat, end, blocks.mean) for end in (blocks.low, blocks.high))
    left[0], right[-1] = blocks.low[0], blocks.high[-1]
    return _corners(left, right, blocks.value)


def _corners(left: Floats, right: Floats, value: Floats) -> tuple[Floats, Floats]:
    """Two points per block, or one where they agree."""
    keep = np.column_stack([np.ones(len(left), bool), right > left]).ravel()
    return np.column_stack([left, right]).ravel()[keep], np.repeat(value, 2)[keep]
