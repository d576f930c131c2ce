"""Calibration errors over bins of confidence."""

from __future__ import annotations

from typing import Any

from calibrant._binning import BinStats
from calibrant.metrics._door import labelled


def bin_stats(probs: Any, labels: Any, bins: int = 15, *, sample_weight: Any = None) -> BinStats:
    """Top-label confidence and accuracy in bins of equal width."""
    data = labelled(probs, labels, sample_weight)
    return BinStats.from_confidence(*data.top(), bins=bins, sample_weight=data.weight)


def ece(
    probs: Any, labels: Any, bins: int = 15, norm: int | str = 1, *, sample_weight: Any = None
) -> float:
    """Expected calibration error of the top label, as a fraction.

    ``norm`` 1 is the mean gap between accuracy and confidence over the bins, 2 its root mean
    square, "max" the largest gap.

    >>> round(ece([[0.8, 0.2], [0.8, 0.2]], [0, 1]), 3)
    0.3
    """
    return bin_stats(probs, labels, bins, sample_weight=sample_weight).error(norm)
