"""Calibration errors over bins: of class 1's probability of two classes, or of the confidence."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import (
    BinStats,
    Norm,
    Scheme,
    calibration_error,
    check_count,
    check_scheme,
    equal_cuts,
)
from calibrant.metrics._bins import DEFAULT_BINS, RowsInBins, bins_of
from calibrant.metrics._labelled import Labelled, labelled
from calibrant.metrics._notions import RowNotion

_MOST_BINS = 1000  # of the sweep

# --- functions --------------------------------------------------------------------------------


@documented
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
    {probs}
    {labels}
    {n_bins}
    {scheme}
    {notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    BinStats
        Sums of weights, scores and hits per bin.

    Raises
    ------
    {refused}

    Examples
    --------
    >>> bin_stats([[0.8, 0.2], [0.8, 0.2]], [0, 1], n_bins=2).gap
    array([0.3, nan])
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    return judged_bins(data, n_bins, scheme)


@documented
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
    {probs}
    {labels}
    {n_bins}
    {norm}
    {scheme}
    {notion}
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


@documented
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
    {probs}
    {labels}
    {n_bins}
    {norm}
    {scheme}
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


@documented
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
    {probs}
    {labels}
    {n_bins}
    {scheme}
    {notion}
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


@documented
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
    {probs}
    {labels}
    {n_bins}
    {norm}
    {notion}
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


@documented
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
    {probs}
    {labels}
    {n_bins}
    {scheme}
    {notion}
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


@documented
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
    {probs}
    {labels}
    {n_bins}
    norm : {2, 1}, default 2
        The root mean square of the bins' gaps, or their mean.
    scheme : {"equal-mass", "equal-width"}, default "equal-mass"
        Bins with equally many rows, or of equal width.
    {notion}
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


@documented
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
    {probs}
    {labels}
    {norm}
    max_bins : int, default 1000
        The most bins that are tried.
    {notion}
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


def judged_bins(data: Labelled, n_bins: int, scheme: Scheme) -> BinStats:
    """The judged scores and their hits in the bins of a scheme."""
    check_scheme(scheme)
    return bins_of(scheme, data, n_bins)


def sweep_error(rows: RowsInBins, norm: Norm = 1, most: int = _MOST_BINS) -> Floats:
    """The error in the most bins whose accuracies increase."""
    data = rows.data
    chosen = bins_of("equal-mass", data, 1)
    for number in range(2, min(most, len(data.rows)) + 1):
        stats = bins_of("equal-mass", data, number)
        accuracy = stats.accuracy[stats.weight > 0.0]
        if np.any(np.diff(accuracy) < -1e-12):
            break
        chosen = stats
    return calibration_error(chosen, norm)


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
    # E|X| of a normal X; its mean's size where the standard deviation is 0
    ratio = gap / np.where(noise > 0.0, noise, np.inf)
    folded = noise * np.sqrt(2.0 / np.pi) * np.exp(-(ratio**2) / 2.0) + gap * (
        1.0 - 2.0 * ndtr(-ratio)
    )
    folded = np.where(noise > 0.0, folded, gap)
    return 2.0 * calibration_error(stats) - (stats.share * folded).sum(-1)


def debiased_squares(stats: BinStats) -> Floats:
    """The share of each bin times its squared gap less the variance of it; 0 for a single row."""
    filled = np.where(stats.weight > 0.0, stats.weight, 1.0)
    gap, accuracy = stats.residual / filled, stats.correct_sum / filled
    several = stats.effective_rows > 1.0 + 1e-9
    variance = accuracy * (1.0 - accuracy) / np.where(several, stats.effective_rows - 1.0, 1.0)
    return np.asarray(stats.share * np.where(several, gap**2 - variance, 0.0))


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
