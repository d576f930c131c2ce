"""Isotonic regression of 0/1 targets on one score, as the points of its interpolating line.

The same function as scikit-learn's ``IsotonicRegression(out_of_bounds="clip")``. It is found
without pairing every score with its target: from one hit (target 1) to the next, the merged points
in between have target 0 and always join the hit's block. So pool-adjacent-violators runs on as
many points as there are hits, however many scores there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from calibrant._types import Floats

MERGE = 1e-15  # neighbours closer than this are one point: the resolution scikit-learn uses


def isotonic_steps(
    score: Floats, weight: Floats | None, hit_score: Floats, hit_weight: Floats | None
) -> tuple[Floats, Floats]:
    """The abscissae and ordinates of the fitted line; flat outside. Weights None are all 1.

    ``hit_score`` are those of ``score`` whose target is 1. With no scores at all the line is 0.
    """
    if len(score) == 0:
        return np.zeros(1), np.zeros(1)
    ordered, mass = _sorted(score, weight)
    hits, hit_mass = _sorted(hit_score, hit_weight)
    points = np.flatnonzero(np.diff(ordered, prepend=-np.inf) >= MERGE)
    hit_point = np.searchsorted(points, np.searchsorted(ordered, hits), side="right") - 1
    starts = np.unique(np.append(0, hit_point))  # the points where a block may begin
    total = _sums(mass, points[starts], len(ordered))
    hit_total = np.bincount(np.searchsorted(starts, hit_point), hit_mass, len(starts))
    pooled = isotonic_regression(hit_total / total, weights=total)
    first = pooled.blocks[:-1]
    begin = starts[first]
    end = np.append(begin[1:], len(points)) - 1
    value = np.clip(pooled.x[first], 0.0, 1.0)
    return _line(ordered[points[begin]], ordered[points[end]], value)


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


def _line(low: Floats, high: Floats, value: Floats) -> tuple[Floats, Floats]:
    """Each block is flat from its first to its last point: two points, or one where they agree."""
    keep = np.column_stack([np.ones(len(low), bool), high > low]).ravel()
    return np.column_stack([low, high]).ravel()[keep], np.repeat(value, 2)[keep]
