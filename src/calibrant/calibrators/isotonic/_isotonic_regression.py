"""Isotonic regression of 0/1 targets on one score.

``flat_line`` is scikit-learn's ``IsotonicRegression(out_of_bounds="clip")``. The blocks are found
without pairing every score with its target: from one hit (target 1) to the next, the merged points
in between have target 0 and always join the hit's block. So pool-adjacent-violators runs on as
many points as there are hits, however many scores there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from calibrant.common.types import Floats

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
    weight: Floats | None  # of each of them; None: all 1


def isotonic_blocks(
    score: Floats, weight: Floats | None, hit_score: Floats, hit_weight: Floats | None
) -> Blocks:
    """The blocks of at least one score. Weights None are all 1.

    ``hit_score`` are those of ``score`` whose target is 1.
    """
    ordered, mass = _sorted(score, weight)
    hits, hit_mass = _sorted(hit_score, hit_weight)
    points = np.flatnonzero(np.diff(ordered, prepend=-np.inf) >= MERGE)
    hit_point = np.searchsorted(points, np.searchsorted(ordered, hits), side="right") - 1
    starts = np.append(0, hit_point)  # the points where a block may begin: in order, each once
    starts = starts[np.diff(starts, prepend=-1) > 0]
    total = _sums(mass, points[starts], len(ordered))
    hit_total = np.bincount(np.searchsorted(starts, hit_point), hit_mass, len(starts))
    pooled = isotonic_regression(hit_total / total, weights=total)
    first = pooled.blocks[:-1]
    begin = starts[first]
    end = np.append(begin[1:], len(points)) - 1
    low, high = ordered[points[begin]], ordered[points[end]]
    return Blocks(low, high, np.clip(pooled.x[first], 0.0, 1.0), points[begin], ordered, mass)


def _sorted(score: Floats, weight: Floats | None) -> tuple[Floats, Floats | None]:
    """Sorted scores and their weights."""
    if weight is None:
        return np.sort(score), None
    order = np.argsort(score)
    return score[order], weight[order]


def _sums(weight: Floats | None, starts: NDArray[np.intp], size: int) -> Floats:
    """The weight of each run of rows. No small one drowns in the sum of all others before it."""
    if weight is None:
        return np.diff(np.append(starts, size)).astype(np.float64)
    return np.add.reduceat(weight, starts)


def flat_line(blocks: Blocks) -> tuple[Floats, Floats]:
    """The abscissae and ordinates of the line that is flat from each block's first to last point.

    It is linear between blocks, and flat outside all of them.
    """
    # two points per block, or one where they agree
    keep = np.column_stack([np.ones(len(blocks.low), bool), blocks.high > blocks.low]).ravel()
    ends = np.column_stack([blocks.low, blocks.high]).ravel()
    return ends[keep], np.repeat(blocks.value, 2)[keep]


def centered_line(blocks: Blocks) -> tuple[Floats, Floats]:
    """The same with every block as one point at its mean score, so that the line rises.

    Blocks of value 0 and 1 stay flat, as do the outer halves of the first block and the last.
    """
    weighed = blocks.score if blocks.weight is None else blocks.weight * blocks.score
    moment = np.add.reduceat(weighed, blocks.first)
    total = _sums(blocks.weight, blocks.first, len(blocks.score))
    mean = np.clip(moment / total, blocks.low, blocks.high)  # but for rounding it lies there
    flat = (blocks.value <= 0.0) | (blocks.value >= 1.0)
    left, right = (np.where(flat, end, mean) for end in (blocks.low, blocks.high))
    left[0], right[-1] = blocks.low[0], blocks.high[-1]
    return flat_line(replace(blocks, low=left, high=right))
