"""Bins of confidence: binned once into a small statistic that adds up.

Bin m of M is (m/M, (m+1)/M]; confidence 0 falls in the first bin, and 1 (or rounding above it) in
the last. ECE, MCE and the reliability diagram all read the same ``BinStats``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


def equal_width_edges(bins: int) -> NDArray[np.float64]:
    """The edges 0, 1/bins, .., 1."""
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    return np.arange(bins + 1) / bins


def bin_index(values: NDArray[Any], edges: NDArray[np.float64]) -> NDArray[np.intp]:
    """The bin (lo, hi] of each value; what lies outside goes to the first or last bin."""
    return np.searchsorted(edges[1:-1], values, side="left")


@dataclass(frozen=True)
class BinStats:
    """Per-bin sums of weights, confidences and hits. Statistics with the same edges add up."""

    edges: NDArray[np.float64]
    weight: NDArray[np.float64]
    confidence_sum: NDArray[np.float64]
    correct_sum: NDArray[np.float64]

    @classmethod
    def from_confidence(
        cls,
        confidence: Any,
        correct: Any,
        bins: int = 15,
        sample_weight: Any = None,
        edges: NDArray[np.float64] | None = None,
    ) -> Self:
        """Bin confidences (rows,) and whether each prediction was right (rows,)."""
        confidence = np.asarray(confidence, np.float64)
        correct = np.asarray(correct, np.float64)
        edges = equal_width_edges(bins) if edges is None else edges
        index = bin_index(confidence, edges)
        size = len(edges) - 1
        ones = (
            np.ones_like(confidence)
            if sample_weight is None
            else np.asarray(sample_weight, np.float64)
        )
        return cls(
            edges,
            *(_bin_sums(index, w, size) for w in (ones, ones * confidence, ones * correct)),
        )

    def __add__(self, other: BinStats) -> BinStats:
        if not np.array_equal(self.edges, other.edges):
            raise ValueError("bin statistics add up only where their edges are the same")
        return BinStats(
            self.edges,
            self.weight + other.weight,
            self.confidence_sum + other.confidence_sum,
            self.correct_sum + other.correct_sum,
        )

    @property
    def share(self) -> NDArray[np.float64]:
        """The share of all weight in each bin."""
        return np.asarray(self.weight / self.weight.sum())

    @property
    def confidence(self) -> NDArray[np.float64]:
        """The mean confidence of each bin; NaN where it is empty."""
        return _ratio(self.confidence_sum, self.weight)

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """The share of right predictions in each bin; NaN where it is empty."""
        return _ratio(self.correct_sum, self.weight)

    def error(self, norm: int | str = 1) -> float:
        """The calibration error: the mean gap (norm 1), its root mean square (2) or "max"."""
        filled = self.weight > 0.0
        gap = np.abs(self.correct_sum - self.confidence_sum)[filled] / self.weight[filled]
        if norm == "max":
            return float(gap.max())
        if norm not in (1, 2):
            raise ValueError(f'norm must be 1, 2 or "max", got {norm!r}')
        return float((self.share[filled] @ gap**norm) ** (1.0 / norm))


def _bin_sums(
    index: NDArray[np.intp], values: NDArray[np.float64], size: int
) -> NDArray[np.float64]:
    return np.asarray(np.bincount(index, values, size), np.float64)


def _ratio(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0.0)
