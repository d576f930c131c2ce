"""The Brier score in two parts that add up to it: calibration and refinement.

Calibration is what the score would lose if each class' probability were replaced by the frequency
of its class at that probability; refinement is what remains. The frequency is estimated by
isotonic regression, without bins (CORP, Dimitriadis et al. 2021), or by shifting bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import RowRule, to_numpy
from calibrant._binning import BinStats, Floats, equal_width_edges
from calibrant.metrics._door import Labelled, labelled
from calibrant.metrics.classwise import class_stats
from calibrant.metrics.scores import brier_rows


@dataclass(frozen=True)
class BrierDecomposition:
    """score = calibration + refinement, and refinement = uncertainty - resolution."""

    score: float
    calibration: float
    refinement: float
    uncertainty: float

    @property
    def resolution(self) -> float:
        """What knowing the probabilities takes off the score of the class frequencies."""
        return self.uncertainty - self.refinement


def brier_decomposition(
    probs: Any,
    labels: Any,
    bins: int | None = None,
    *,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> BrierDecomposition:
    """Split the Brier score, summed over the classes.

    ``bins=None`` recalibrates every class by isotonic regression; a number shifts each of so many
    equal-width bins to its frequency.
    """
    data = labelled(probs, labels, sample_weight, rows)
    score = data.mean(brier_rows(data))
    if bins is None:
        calibration = _isotonic_calibration(data)
    else:
        calibration = binned_calibration(class_stats(data, equal_width_edges(bins)))
    shares = np.bincount(data.labels, data.weight, data.classes) / data.weight.sum()
    return decompose(score, calibration, shares)


def decompose(score: float, calibration: float, shares: Floats) -> BrierDecomposition:
    """The parts, given the calibration part and the classes' shares of the labels."""
    uncertainty = float((shares * (1.0 - shares)).sum())
    return BrierDecomposition(score, calibration, score - calibration, uncertainty)


def binned_calibration(stats: BinStats) -> float:
    """sum over classes and bins of share * gap^2, which shifting the bins would save."""
    gap = np.nan_to_num(stats.gap)
    return float((stats.share * gap**2).sum())


def _isotonic_calibration(data: Labelled) -> float:
    """sum over classes of the squared error that isotonic recalibration saves."""
    saved = 0.0
    for label in range(data.classes):
        probs = to_numpy(data.probs[:, label]).astype(np.float64)
        saved += _saved(probs, data.labels == label, data.weight)
    return saved / float(data.weight.sum())


def _saved(probs: Floats, truth: NDArray[np.bool_], weight: Floats) -> float:
    """The squared error of one class, less that of its isotonic fit; equal values stay equal."""
    from scipy.optimize import isotonic_regression  # takes longer to import than all metrics

    counted = weight > 0.0
    values, group = np.unique(probs[counted], return_inverse=True)
    mass = np.bincount(group, weight[counted])
    frequency = np.bincount(group, weight[counted] * truth[counted]) / mass
    fitted = isotonic_regression(frequency, weights=mass).x
    # The spread of the labels within a group is in both errors.
    return float(mass @ ((values - frequency) ** 2 - (fitted - frequency) ** 2))
