"""Isotonic regression of 0/1 targets on one score, and the methods that fit one line per class.

``flat_line`` is scikit-learn's ``IsotonicRegression(out_of_bounds="clip")``. The blocks are found
without pairing every score with its target: from one hit (target 1) to the next, the merged points
in between have target 0 and always join the hit's block. So pool-adjacent-violators runs on as
many points as there are hits, however many scores there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import EXACT, FitInfo
from calibrant.calibrators._one_vs_all import TIE_BREAK, ClassColumns, Column
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import ColumnMap, Lines

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

    @property
    def mean(self) -> Floats:
        """The mean score of each block."""
        weighed = self.score if self.weight is None else self.weight * self.score
        moment = np.add.reduceat(weighed, self.first)
        total = _sums(self.weight, self.first, len(self.score))
        return np.clip(moment / total, self.low, self.high)  # but for rounding it lies there


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


class LinePerClass(LogitCalibrator, ABC):
    """What isotonic regressions, one class against all others, share: all but the line itself."""

    _gives = ColumnMap

    @staticmethod
    @abstractmethod
    def _line_of(blocks: Blocks) -> tuple[Floats, Floats]:
        """The points of a class' line."""

    def __init__(
        self,
        normalize: bool = True,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.normalize = normalize
        self.progress = progress
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return False

    def _fit_logits(self, data: Rows) -> Fitted:
        return self._fit_lines(data)

    def _fit_lines(self, data: Rows, temperature: float = 1.0) -> Fitted:
        """The formula of one line of softmax(z / T) per class, and how it was found."""

        def fit(column: Column) -> tuple[Floats, Floats]:
            if len(column) == 0:
                return np.zeros(1), np.zeros(1)
            score, hit = column.score, column.hit
            weight = None if np.all(column.weight == column.weight[0]) else column.weight
            hit_weight = None if weight is None else weight[hit]
            return self._line_of(isotonic_blocks(score, weight, score[hit], hit_weight))

        columns = ClassColumns.of_probabilities(data, temperature)
        lines = Lines.join(columns.fit_each(fit, type(self).__name__, self.progress))
        formula = ColumnMap(
            lines, data.n_classes, temperature, tie_break=TIE_BREAK, normalize=self.normalize
        )
        details = {"points": len(lines.x), "absent_classes": columns.absent_classes}
        return formula, FitInfo(True, EXACT, loss="brier", details=details)
