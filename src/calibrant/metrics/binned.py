"""Calibration errors of the top label over bins of confidence."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from calibrant._arrays import RowRule
from calibrant._binning import BinStats, Floats, Norm, Scheme, calibration_error
from calibrant.metrics._door import labelled

DEFAULT_BINS = 15


def bin_stats(
    probs: Any,
    labels: Any,
    bins: int = DEFAULT_BINS,
    *,
    scheme: Scheme = "equal-width",
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> BinStats:
    """The per-bin table of top-label confidence and accuracy; ``print`` shows it."""
    data = labelled(probs, labels, sample_weight, rows)
    confidence, correct = data.top()
    return BinStats.from_confidence(confidence, correct, bins, data.given_weight, scheme=scheme)


def ece(
    probs: Any,
    labels: Any,
    bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    scheme: Scheme = "equal-width",
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> float:
    """Expected calibration error of the top label, as a fraction.

    ``norm`` 1 is the mean gap between accuracy and confidence over the bins, 2 its root mean
    square, "max" the largest gap. Bins have equal width, or hold equally many rows
    (``scheme="equal-mass"``).

    >>> round(ece([[0.8, 0.2], [0.8, 0.2]], [0, 1]), 3)
    0.3
    """
    stats = bin_stats(probs, labels, bins, scheme=scheme, sample_weight=sample_weight, rows=rows)
    return stats.error(norm)


def adaptive_ece(
    probs: Any,
    labels: Any,
    bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> float:
    """``ece`` over bins that hold equally many rows."""
    return ece(
        probs, labels, bins, norm, scheme="equal-mass", sample_weight=sample_weight, rows=rows
    )


def mce(
    probs: Any,
    labels: Any,
    bins: int = DEFAULT_BINS,
    *,
    scheme: Scheme = "equal-width",
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> float:
    """Maximum calibration error: the largest gap of any bin that is not empty."""
    return ece(probs, labels, bins, "max", scheme=scheme, sample_weight=sample_weight, rows=rows)


def debiased_ece(
    probs: Any,
    labels: Any,
    bins: int = DEFAULT_BINS,
    norm: Literal[1, 2] = 2,
    *,
    scheme: Scheme = "equal-mass",
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> float:
    """The calibration error less the part that the noise of the labels adds.

    Norm 2 subtracts each bin's unbiased variance of the accuracy, adds up, and takes the root of
    what is left (0 where that is negative). Norm 1 subtracts the rise that normal noise of that
    size would cause, which may leave a small negative number.
    """
    stats = bin_stats(probs, labels, bins, scheme=scheme, sample_weight=sample_weight, rows=rows)
    return float(debiased_error(stats, norm))


def debiased_error(stats: BinStats, norm: Literal[1, 2] = 2) -> Floats:
    """The debiased error of each statistic. Weighted rows count as Kish's effective number."""
    if norm not in (1, 2):
        raise ValueError(f"norm of a debiased error must be 1 or 2, got {norm!r}")
    filled = np.where(stats.weight > 0.0, stats.weight, 1.0)
    gap = np.abs(stats.correct_sum - stats.confidence_sum) / filled
    accuracy = stats.correct_sum / filled
    spread = accuracy * (1.0 - accuracy)
    size = stats.effective_rows
    if norm == 1:
        noise = np.sqrt(np.maximum(spread, 0.0) / np.maximum(size, 1.0))
        return 2.0 * calibration_error(stats) - (stats.share * _folded_mean(gap, noise)).sum(-1)
    several = size > 1.0 + 1e-9
    variance = spread / np.where(several, size - 1.0, 1.0)
    square = (stats.share * np.where(several, gap**2 - variance, 0.0)).sum(-1)
    return np.sqrt(np.maximum(square, 0.0))


def _folded_mean(mean: Floats, std: Floats) -> Floats:
    """E|X| of a normal X; its mean's size where the standard deviation is 0."""
    ratio = mean / np.where(std > 0.0, std, np.inf)
    folded = std * np.sqrt(2.0 / np.pi) * np.exp(-(ratio**2) / 2.0) + mean * (
        1.0 - 2.0 * ndtr(-ratio)
    )
    return np.where(std > 0.0, folded, mean)
