"""More calibration errors of the literature: by class, by predicted class, in a sweep of bins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace

from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import (
    BinStats,
    Norm,
    Scheme,
    calibration_error,
    check_count,
    check_scheme,
)
from calibrant.metrics._labelled import labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._outcomes import Outcomes, class_outcomes
from calibrant.metrics._readings import DEFAULT_BINS, RowsInBins
from calibrant.metrics.binned import debiased_error, judged_bins

_MOST_BINS = 1000  # of the sweep


def classwise_adaptive_ece(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the mean over all classes of each class' error in bins of equally many rows.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins of every class.
    norm : {1, 2, "max"}, default 1
        The mean gap of the bins, its root mean square, or the largest gap.
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
    float
        The mean error, as a fraction.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    As ``classwise_ece``, whose bins are of equal width: most rows give most classes a probability
    near 0, so that its first bins hold nearly everything.

    References
    ----------
    Nixon et al., "Measuring Calibration in Deep Learning", CVPR workshops 2019.

    Examples
    --------
    >>> round(classwise_adaptive_ece([[0.8, 0.2], [0.6, 0.4]], [0, 1], n_bins=2), 3)
    0.4
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return float(classwise_adaptive_error(RowsInBins(data, n_bins), norm))


def classwise_debiased_ece(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    norm: Literal[1, 2] = 2,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the mean over all classes of each class' error less the noise of the labels.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins of every class.
    norm : {2, 1}, default 2
        The root mean square of the bins' gaps, or their mean.
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
    float
        The mean error, as a fraction.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    As ``debiased_ece``, of every class' probability in bins of equally many rows.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019.

    Examples
    --------
    >>> classwise_debiased_ece([[0.8, 0.2], [0.8, 0.2]], [0, 1])
    0.0
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return float(classwise_debiased_error(RowsInBins(data, n_bins), norm))


def ace(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    *,
    threshold: float = 0.0,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the adaptive calibration error, or with a threshold the thresholded one (TACE).

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins of every class.
    threshold : float, default 0.0
        Probabilities that do not exceed it are left out; TACE has 0.01 or 0.001.
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
    float
        The mean gap over all bins of all classes, as a fraction.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    Every bin counts the same, whatever it holds; ``classwise_adaptive_ece`` weighs bins by their
    rows. A class without a probability above the threshold is left out.

    References
    ----------
    Nixon et al., "Measuring Calibration in Deep Learning", CVPR workshops 2019.

    Examples
    --------
    >>> round(ace([[0.8, 0.2], [0.6, 0.4]], [0, 1], n_bins=2), 3)
    0.4
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    if not 0.0 <= threshold < 1.0:
        raise ValueError(f"threshold must lie in [0, 1), got {threshold}")
    return float(adaptive_error_of_bins(RowsInBins(data, n_bins), threshold))


def top_label_ece(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    *,
    scheme: Scheme = "equal-mass",
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the error of the confidence given the predicted class (conditional top-label ECE).

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins of every predicted class.
    scheme : {"equal-width", "equal-mass"}, default "equal-mass"
        Bins of equal width, or with equally many rows.
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
    float
        The error, as a fraction.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    ``ece`` pools all rows of a confidence; this pools those that predict the same class, so that a
    class whose confidence is too high does not make up for one whose is too low. It needs rows of
    every class: with few of them it is mostly noise.

    References
    ----------
    Gupta and Ramdas, "Top-label calibration and multiclass-to-binary reductions", ICLR 2022.

    Examples
    --------
    >>> round(top_label_ece([[0.8, 0.2], [0.2, 0.8]], [0, 0]), 3)
    0.5
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    check_scheme(scheme)
    return float(top_label_error(RowsInBins(data, n_bins), scheme))


def ece_sweep(
    probs: Any,
    labels: Any,
    norm: Norm = 1,
    *,
    max_bins: int = _MOST_BINS,
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the top label's error in as many equal bins as keep the accuracy increasing.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    norm : {1, 2, "max"}, default 1
        The mean gap of the bins, its root mean square, or the largest gap.
    max_bins : int, default 1000
        The most bins that are tried.
    notion : {"class-1", "confidence"}, optional
        Whose calibration: class 1's of two classes, or the confidence's. By default class 1's
        with two classes, and the confidence's with more.
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
    float
        The error, as a fraction.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    Bins hold equally many rows. Their number grows by one until the accuracies of successive bins
    fall somewhere, and the last number before that is taken.

    References
    ----------
    Roelofs, Cain, Shlens and Mozer, "Mitigating Bias in Calibration Error Estimation", AISTATS
    2022.

    Examples
    --------
    >>> round(ece_sweep([[0.8, 0.2], [0.6, 0.4]], [0, 1]), 3)
    0.4
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    check_count(max_bins, "max_bins")
    return float(sweep_error(RowsInBins(data, max_bins), norm, max_bins))


# --- statistics -------------------------------------------------------------------------------


def classwise_adaptive_error(rows: RowsInBins, norm: Norm = 1) -> Floats:
    """The mean over the classes of their errors in bins of equally many rows."""
    return _mean_over_classes(rows, lambda stats: calibration_error(stats, norm))


def classwise_debiased_error(rows: RowsInBins, norm: Literal[1, 2] = 2) -> Floats:
    """The mean over the classes of their debiased errors."""
    return _mean_over_classes(rows, lambda stats: debiased_error(stats, norm))


def _mean_over_classes(rows: RowsInBins, error: Callable[[BinStats], Floats]) -> Floats:
    data, n_bins = rows
    bins = (class_outcomes(data, index).bins(n_bins) for index in range(data.n_classes))
    return np.asarray(np.mean([error(stats) for stats in bins]))


def adaptive_error_of_bins(rows: RowsInBins, threshold: float = 0.0) -> Floats:
    """The mean gap over all bins of all classes."""
    gaps = []
    for index in range(rows.data.n_classes):
        part = class_outcomes(rows.data, index)
        above = part.score > threshold if threshold > 0.0 else np.ones(len(part.score), np.bool_)
        part = part.of_rows(above)
        if part.weight.sum() > 0.0:
            stats = part.bins(rows.n_bins)
            gaps.append(np.abs(stats.gap[stats.weight > 0.0]).mean())
    return np.asarray(np.mean(gaps)) if gaps else np.zeros(())


def top_label_error(rows: RowsInBins, scheme: Scheme = "equal-mass") -> Floats:
    """The error of the confidence of the rows of each predicted class, over all rows."""
    data, n_bins = rows
    confidence, correct = data.top_label
    predicted = data.by_tile(lambda tile, _: array_namespace(tile).argmax(tile, axis=1))
    top = Outcomes(confidence, correct, data.weight)
    total = np.zeros(())
    for index in np.unique(predicted[data.weight > 0.0]):
        stats = top.of_rows(predicted == index).bins(n_bins, scheme)
        total += np.abs(stats.residual).sum()
    return np.asarray(total / data.weight.sum())


def sweep_error(rows: RowsInBins, norm: Norm = 1, most: int = _MOST_BINS) -> Floats:
    """The error in the most bins whose accuracies increase."""
    data = rows.data
    chosen = judged_bins(data, 1, "equal-mass")
    for number in range(2, min(most, data.n_rows) + 1):
        stats = judged_bins(data, number, "equal-mass")
        accuracy = stats.accuracy[stats.weight > 0.0]
        if np.any(np.diff(accuracy) < -1e-12):
            break
        chosen = stats
    return calibration_error(chosen, norm)
