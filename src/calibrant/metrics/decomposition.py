"""The Brier score in two parts that add up to it: calibration and refinement.

Calibration is what the score would lose if each class' probability were replaced by the frequency
of its class at that probability; refinement is what remains. The frequency is estimated by
isotonic regression, without bins (CORP), or by shifting bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import to_numpy
from calibrant._binning import BinStats
from calibrant._types import Floats, InputKind, RowRule
from calibrant.metrics._labelled import Labelled, labelled
from calibrant.metrics._readings import bins_of, row_scores
from calibrant.metrics.scores import brier_rows


@dataclass(frozen=True)
class BrierDecomposition:
    """The Brier score in parts.

    score = calibration + refinement, and refinement = uncertainty - resolution.

    Parameters
    ----------
    score : float
        The Brier score.
    calibration : float
        What recalibrating every class would save.
    refinement : float
        What would remain.
    uncertainty : float
        The Brier score of the frequencies of the classes.
    """

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
    n_bins: int | None = None,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> BrierDecomposition:
    """Split the Brier score, summed over the classes, into calibration and refinement.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, optional
        Shift each of so many equal-width bins to its frequency; by default every class is
        recalibrated by isotonic regression.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    ignore_index : int, optional
        Rows with this label are left out.

    Returns
    -------
    BrierDecomposition
        The parts.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    References
    ----------
    Murphy, "A New Vector Partition of the Probability Score", Journal of Applied Meteorology 12,
    1973. Dimitriadis, Gneiting and Jordan, "Stable reliability diagrams for probabilistic
    classifiers", PNAS 118, 2021.

    Examples
    --------
    >>> parts = brier_decomposition([[0.8, 0.2], [0.8, 0.2]], [0, 1])
    >>> round(parts.calibration, 3), round(parts.refinement, 3)
    (0.18, 0.5)
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return split_brier(data, n_bins)


def split_brier(data: Labelled, n_bins: int | None = None) -> BrierDecomposition:
    """The parts of the Brier score."""
    score = data.mean(row_scores(brier_rows, data))
    if n_bins is None:
        calibration = _isotonic_calibration(data)
    else:
        calibration = binned_calibration(bins_of("classes", data, n_bins))
    shares = np.bincount(data.labels, data.weight, data.n_classes) / data.weight.sum()
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
    for label in range(data.n_classes):
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
