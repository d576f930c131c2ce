"""Calibration of every class' probability, and of the confidence by predicted class."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import Norm, Scheme, calibration_error, check_scheme
from calibrant.metrics._bins import DEFAULT_BINS, RowsInBins, bins_of
from calibrant.metrics._labelled import Outcomes, labelled, outcomes_of
from calibrant.metrics.binned import debiased_error


@documented
def classwise_ece(
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
    """Compute the mean over all classes of each class' calibration error.

    Parameters
    ----------
    {probs}
    {labels}
    {n_bins}
    {norm}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The mean error, as a fraction.

    Raises
    ------
    {refused}

    Notes
    -----
    A class without a label counts like any other: its probability should be small, and the error
    says how far it is not. Kull et al. sum over the classes instead: that is n_classes times this.

    References
    ----------
    Kull et al., "Beyond temperature scaling: Obtaining well-calibrated multiclass probabilities
    with Dirichlet calibration", NeurIPS 2019.

    Examples
    --------
    >>> round(classwise_ece([[0.8, 0.2], [0.8, 0.2]], [0, 1]), 3)
    0.3
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return float(calibration_error(bins_of("classes", data, n_bins), norm).mean())


@documented
def classwise_ece_per_class(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> Floats:
    """Compute the calibration error of each class' probability against "is it this class".

    Parameters
    ----------
    {probs}
    {labels}
    {n_bins}
    {norm}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    ndarray of shape (n_classes,)
        The error per class, as a fraction.

    Raises
    ------
    {refused}

    Examples
    --------
    >>> classwise_ece_per_class([[0.8, 0.2], [0.8, 0.2]], [0, 0]).round(3)
    array([0.2, 0.2])
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return calibration_error(bins_of("classes", data, n_bins), norm)


@documented
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
    {probs}
    {labels}
    n_bins : int, default 15
        The number of bins of every class.
    {norm}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The mean error, as a fraction.

    Raises
    ------
    {refused}

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


@documented
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
    {probs}
    {labels}
    n_bins : int, default 15
        The number of bins of every class.
    norm : {2, 1}, default 2
        The root mean square of the bins' gaps, or their mean.
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The mean error, as a fraction.

    Raises
    ------
    {refused}

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


@documented
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
    {probs}
    {labels}
    n_bins : int, default 15
        The number of bins of every class.
    threshold : float, default 0.0
        Probabilities that do not exceed it are left out; TACE has 0.01 or 0.001.
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The mean gap over all bins of all classes, as a fraction.

    Raises
    ------
    {refused}

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


@documented
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
    {probs}
    {labels}
    n_bins : int, default 15
        The number of bins of every predicted class.
    scheme : {"equal-width", "equal-mass"}, default "equal-mass"
        Bins of equal width, or with equally many rows.
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The error, as a fraction.

    Raises
    ------
    {refused}

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


# --- statistics -------------------------------------------------------------------------------


def classwise_adaptive_error(rows: RowsInBins, norm: Norm = 1) -> Floats:
    """The mean over the classes of their errors in bins of equally many rows."""
    bins = (part.bins(rows.n_bins) for part in outcomes_of(rows.data, "classwise"))
    return np.asarray(np.mean([calibration_error(stats, norm) for stats in bins]))


def classwise_debiased_error(rows: RowsInBins, norm: Literal[1, 2] = 2) -> Floats:
    """The mean over the classes of their debiased errors."""
    bins = (part.bins(rows.n_bins) for part in outcomes_of(rows.data, "classwise"))
    return np.asarray(np.mean([debiased_error(stats, norm) for stats in bins]))


def adaptive_error_of_bins(rows: RowsInBins, threshold: float = 0.0) -> Floats:
    """The mean gap over all bins of all classes."""
    gaps = []
    for part in outcomes_of(rows.data, "classwise"):
        if threshold > 0.0:
            part = part.take(part.score > threshold)
        if part.weight.sum() > 0.0:
            stats = part.bins(rows.n_bins)
            gaps.append(np.abs(stats.gap[stats.weight > 0.0]).mean())
    return np.asarray(np.mean(gaps)) if gaps else np.zeros(())


def top_label_error(rows: RowsInBins, scheme: Scheme = "equal-mass") -> Floats:
    """The error of the confidence of the rows of each predicted class, over all rows."""
    data, n_bins = rows
    predicted = data.by_tile(lambda tile, _: array_namespace(tile).argmax(tile, axis=1))
    top = Outcomes.of_columns(*data.top_label, data.rows.sample_weight)
    total = np.zeros(())
    for index in np.unique(predicted[data.weight > 0.0]):
        stats = top.take(predicted == index).bins(n_bins, scheme)
        total += np.abs(stats.residual).sum()
    return np.asarray(total / data.weight.sum())
