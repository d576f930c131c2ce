"""Calibration errors over bins: of class 1's probability of two classes, or of the confidence."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import (
    BinStats,
    Norm,
    Scheme,
    calibration_error,
    check_scheme,
    equal_cuts,
)
from calibrant.metrics._labelled import Labelled, labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._readings import DEFAULT_BINS, bins_of

# --- functions --------------------------------------------------------------------------------


def bin_stats(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    *,
    scheme: Scheme = "equal-width",
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> BinStats:
    """Tabulate the mean score and how often its event came, per bin; ``print`` shows the table.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins.
    scheme : {"equal-width", "equal-mass"}, default "equal-width"
        Bins of equal width, or with equally many rows.
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
    BinStats
        Sums of weights, scores and hits per bin.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Examples
    --------
    >>> bin_stats([[0.8, 0.2], [0.8, 0.2]], [0, 1], n_bins=2).gap
    array([0.3, nan])
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    return judged_bins(data, n_bins, scheme)


def ece(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    scheme: Scheme = "equal-width",
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the expected calibration error.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins.
    norm : {1, 2, "max"}, default 1
        The mean gap of the bins, its root mean square, or the largest gap.
    scheme : {"equal-width", "equal-mass"}, default "equal-width"
        Bins of equal width, or with equally many rows.
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
    With W_m the weight of bin m and W their sum, norm 1 is
    ``sum_m (W_m / W) |accuracy_m - confidence_m|``. The error is biased upwards: on few rows or
    many bins a calibrated model shows more than 0, too (``calibration_test`` says how much).

    With two classes confidence_m is the mean probability of class 1 in the bin, and accuracy_m the
    share of its rows that are of class 1: the ECE that other tools report for a binary classifier.
    ``notion="confidence"`` judges the larger of the two probabilities instead, where errors below
    and above 1/2 can cancel. With more classes the confidence is judged.

    References
    ----------
    Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian
    Binning", AAAI 2015. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> round(ece([[0.8, 0.2], [0.8, 0.2]], [0, 1]), 3)
    0.3
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    return float(calibration_error(judged_bins(data, n_bins, scheme), norm))


def confidence_ece(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    scheme: Scheme = "equal-width",
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the expected calibration error of the largest probability.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins.
    norm : {1, 2, "max"}, default 1
        The mean gap of the bins, its root mean square, or the largest gap.
    scheme : {"equal-width", "equal-mass"}, default "equal-width"
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
    It is ``ece`` with ``notion="confidence"``. The two differ with two classes, where ``ece``
    judges the probability of class 1.

    References
    ----------
    Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> round(confidence_ece([0.6, 0.6, 0.4, 0.4], [0, 1, 0, 0]), 3)
    0.15
    """
    data = labelled(
        probs, labels, sample_weight, row_sums, input, ignore_index, notion="confidence"
    )
    return float(calibration_error(judged_bins(data, n_bins, scheme), norm))


def rms_ece(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    *,
    scheme: Scheme = "equal-width",
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the root mean square of the gaps between accuracy and confidence.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins.
    scheme : {"equal-width", "equal-mass"}, default "equal-width"
        Bins of equal width, or with equally many rows.
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
    It is ``ece`` with ``norm=2``: the root of sum_m (W_m / W) (accuracy_m - confidence_m)^2.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019.

    Examples
    --------
    >>> round(rms_ece([[0.8, 0.2], [0.8, 0.2]], [0, 1]), 3)
    0.3
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    return float(root_mean_square_gap(judged_bins(data, n_bins, scheme)))


def adaptive_ece(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the calibration error over bins that hold equally many rows.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins.
    norm : {1, 2, "max"}, default 1
        The mean gap of the bins, its root mean square, or the largest gap.
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
    It is ``ece`` with ``scheme="equal-mass"``: edges lie half way between neighbours, bins differ
    by at most one row, and equal confidences never part.

    References
    ----------
    Nguyen and O'Connor, "Posterior calibration and exploratory analysis for natural language
    processing models", EMNLP 2015. Nixon et al., "Measuring Calibration in Deep Learning", 2019.

    Examples
    --------
    >>> round(adaptive_ece([[0.8, 0.2], [0.6, 0.4]], [0, 1], n_bins=2), 3)
    0.4
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    return float(calibration_error(bins_of("equal-mass", data, n_bins), norm))


def mce(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    *,
    scheme: Scheme = "equal-width",
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the maximum calibration error: the largest gap of any bin that is not empty.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins.
    scheme : {"equal-width", "equal-mass"}, default "equal-width"
        Bins of equal width, or with equally many rows.
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
    It is ``max_m |accuracy_m - confidence_m|``, and mostly the noise of the emptiest bin. As the
    statistic of a test it has little power: use ``omnibus_test``.

    References
    ----------
    Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian
    Binning", AAAI 2015.

    Examples
    --------
    >>> round(mce([[0.8, 0.2], [0.6, 0.4]], [0, 1]), 3)
    0.6
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    return float(largest_gap(judged_bins(data, n_bins, scheme)))


def debiased_ece(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    norm: Literal[1, 2] = 2,
    *,
    scheme: Scheme = "equal-mass",
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the root mean square calibration error less the part that label noise adds.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins.
    norm : {2, 1}, default 2
        The root mean square of the bins' gaps, or their mean.
    scheme : {"equal-mass", "equal-width"}, default "equal-mass"
        Bins with equally many rows, or of equal width.
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
    The default is a root mean square, which is at least as large as a mean: it may exceed ``ece``.
    Norm 2 subtracts each bin's unbiased variance of the accuracy from the squared gap, adds up, and
    takes the root of what is left (0 where that is negative):
    sum_m (W_m / W) [gap_m^2 - acc_m (1 - acc_m) / (n_m - 1)], n_m being the bin's number of rows:
    the sum of whole weights, or Kish's effective number of others. Norm 1 subtracts the rise that
    normal noise of that size would cause, which may leave a small negative number.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019.

    Examples
    --------
    >>> debiased_ece([[0.8, 0.2], [0.8, 0.2]], [0, 1])
    0.0
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    return float(debiased_error(judged_bins(data, n_bins, scheme), norm))


# --- statistics -------------------------------------------------------------------------------


def judged_bins(data: Labelled, n_bins: int, scheme: Scheme) -> BinStats:
    """The judged scores and their hits in the bins of a scheme."""
    check_scheme(scheme)
    return bins_of(scheme, data, n_bins)


def root_mean_square_gap(stats: BinStats) -> Floats:
    """The error of norm 2 of each statistic."""
    return calibration_error(stats, 2)


def largest_gap(stats: BinStats) -> Floats:
    """The largest gap of each statistic."""
    return calibration_error(stats, "max")


def debiased_error(stats: BinStats, norm: Literal[1, 2] = 2) -> Floats:
    """The debiased error of each statistic. Weighted rows count as their effective number."""
    if norm not in (1, 2):
        raise ValueError(f"norm of a debiased error must be 1 or 2, got {norm!r}")
    if norm == 2:
        return np.sqrt(np.maximum(debiased_squares(stats).sum(-1), 0.0))
    filled = np.where(stats.weight > 0.0, stats.weight, 1.0)
    gap, accuracy = np.abs(stats.residual) / filled, stats.correct_sum / filled
    spread = accuracy * (1.0 - accuracy)
    noise = np.sqrt(np.maximum(spread, 0.0) / np.maximum(stats.effective_rows, 1.0))
    return 2.0 * calibration_error(stats) - (stats.share * _folded_mean(gap, noise)).sum(-1)


def debiased_squares(stats: BinStats) -> Floats:
    """The share of each bin times its squared gap less the variance of it; 0 for a single row."""
    filled = np.where(stats.weight > 0.0, stats.weight, 1.0)
    gap, accuracy = stats.residual / filled, stats.correct_sum / filled
    several = stats.effective_rows > 1.0 + 1e-9
    variance = accuracy * (1.0 - accuracy) / np.where(several, stats.effective_rows - 1.0, 1.0)
    return np.asarray(stats.share * np.where(several, gap**2 - variance, 0.0))


def _folded_mean(mean: Floats, std: Floats) -> Floats:
    """E|X| of a normal X; its mean's size where the standard deviation is 0."""
    ratio = mean / np.where(std > 0.0, std, np.inf)
    folded = std * np.sqrt(2.0 / np.pi) * np.exp(-(ratio**2) / 2.0) + mean * (
        1.0 - 2.0 * ndtr(-ratio)
    )
    return np.where(std > 0.0, folded, mean)


# --- from a meter's sums ----------------------------------------------------------------------


def expected_ece(variances: Floats, total_weight: float) -> float:
    """The mean ECE of a calibrated model, from the variances of the bins' sums of hits."""
    # E|X| of a normal X; rounding may leave the variance of certain rows below 0
    noise = np.sqrt(np.maximum(variances, 0.0) * (2.0 / np.pi))
    return float(noise.sum() / total_weight)


def merged_equal_mass(cells: BinStats, n_bins: int) -> BinStats:
    """Equal-mass bins whose edges are edges of cells: a cut within a cell moves to its end."""
    ends = _cuts_in_cells(cells, n_bins)[0]
    starts = np.concatenate([[0], ends + 1])
    starts = starts[starts < len(cells.weight)]
    edges = np.append(cells.edges[starts], cells.edges[-1])
    return BinStats(edges, *(np.add.reduceat(column, starts) for column in cells.columns))


def merged_equal_mass_bound(cells: BinStats, n_bins: int) -> float:
    """How far the ECE of the merged equal-mass bins can be from that of the rows' own.

    The rows that change bins lie in the cell behind the cut, and change the error by at most twice
    their residuals.
    """
    ends, moved = _cuts_in_cells(cells, n_bins)
    low, high = cells.edges[ends], cells.edges[ends + 1]
    hits = cells.correct_sum[ends]
    every_row = (cells.weight[ends] - hits) * high + hits * (1.0 - low)
    residuals = np.minimum(every_row, moved * np.maximum(high, 1.0 - low))
    return float(2.0 * residuals.sum() / cells.total_weight)


def _cuts_in_cells(cells: BinStats, n_bins: int) -> tuple[NDArray[np.intp], Floats]:
    """The cells that hold a cut into equal parts, and the weight that lies behind it there."""
    filled = np.flatnonzero(cells.weight > 0.0)
    mass = np.cumsum(cells.weight[filled])
    cuts = equal_cuts(mass, n_bins)
    ends, first = np.unique(np.searchsorted(mass, cuts, side="left"), return_index=True)
    return filled[ends], mass[ends] - cuts[first]
