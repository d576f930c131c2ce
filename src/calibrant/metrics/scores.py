"""Accuracy and the proper scores: per row first, then the weighted mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.arrays import like
from calibrant.common.arrays import row_sums as sums_of_rows
from calibrant.common.docstrings import documented
from calibrant.common.types import Array, Floats, InputKind, RowRule
from calibrant.data.weights import weighted_mean
from calibrant.metrics._labelled import Labelled, labelled, take_class

# --- functions --------------------------------------------------------------------------------


@documented
def accuracy(
    probs: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the share of rows whose largest probability (the first of ties) is the true class'.

    Parameters
    ----------
    {probs}
    {labels}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The share, as a fraction.

    Raises
    ------
    {refused}

    Examples
    --------
    >>> accuracy([[0.8, 0.2], [0.6, 0.4]], [0, 1])
    0.5
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return weighted_mean(correct_rows(data), data.weight)


@documented
def nll(
    probs: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the negative log-likelihood: the mean of -log(probability of the true class).

    Parameters
    ----------
    {probs}
    {labels}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The mean in natural logarithms; inf where a true class has probability 0.

    Raises
    ------
    {refused}

    Notes
    -----
    Nothing is clipped. Of logits the log-probabilities themselves are taken, which are exact where
    a probability underflows.

    References
    ----------
    Good, "Rational Decisions", Journal of the Royal Statistical Society B 14, 1952.

    Examples
    --------
    >>> round(nll([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
    0.4904
    >>> nll([[0.0, 2000.0]], [0], input="logits")
    2000.0
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return weighted_mean(nll_rows(data), data.weight)


@documented
def brier(
    probs: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the Brier score: the mean squared distance to the one-hot label.

    Parameters
    ----------
    {probs}
    {labels}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The mean over rows of the sum over classes, from 0 to 2.

    Raises
    ------
    {refused}

    References
    ----------
    Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather
    Review 78, 1950.

    Examples
    --------
    >>> brier([[0.5, 0.5], [0.0, 1.0]], [0, 1])
    0.25
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return weighted_mean(brier_rows(data), data.weight)


@documented
def nll_per_row(
    probs: Any,
    labels: Any,
    *,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> Array:
    """Compute -log(probability of the true class) per row.

    Parameters
    ----------
    {probs}
    {labels}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    array of shape (n_rows,)
        One number per row that is not left out, in the array kind of ``probs``.

    Raises
    ------
    {refused}

    Examples
    --------
    >>> nll_per_row([[0.5, 0.5], [0.25, 0.75]], [0, 1]).round(4)
    array([0.6931, 0.2877])
    """
    data = labelled(probs, labels, None, row_sums, input, ignore_index)
    return like(nll_rows(data), data.probs)


@documented
def brier_per_row(
    probs: Any,
    labels: Any,
    *,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> Array:
    """Compute the squared distance to the one-hot label per row.

    Parameters
    ----------
    {probs}
    {labels}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    array of shape (n_rows,)
        One number per row that is not left out, in the array kind of ``probs``.

    Raises
    ------
    {refused}

    Examples
    --------
    >>> brier_per_row([[0.5, 0.5], [0.0, 1.0]], [0, 1])
    array([0.5, 0. ])
    """
    data = labelled(probs, labels, None, row_sums, input, ignore_index)
    return like(brier_rows(data), data.probs)


@documented
def calibration_gain(
    base_probs: Any,
    probs: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute how much a calibrator lowers the Brier score: brier(base) - brier(calibrated).

    Parameters
    ----------
    base_probs : array of shape (n_rows, n_classes) or (n_rows,)
        What ``probs`` were before calibration.
    {probs}
    {labels}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The drop of the score, as a fraction. Higher is better.

    Raises
    ------
    {refused}

    Notes
    -----
    A map that loses no information leaves the refinement part of the score alone, so this is the
    drop of the squared calibration error over all classes.

    References
    ----------
    Zhang, Kailkhura and Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
    Calibration in Deep Learning", ICML 2020.

    Examples
    --------
    >>> round(calibration_gain([[0.9, 0.1]], [[0.8, 0.2]], [1]), 2)
    0.34
    """
    base, calibrated = (
        labelled(scores, labels, sample_weight, row_sums, input, ignore_index)
        for scores in (base_probs, probs)
    )
    before, after = (weighted_mean(brier_rows(data), data.weight) for data in (base, calibrated))
    return before - after


# --- one score per row ------------------------------------------------------------------------


def correct_rows(data: Labelled) -> NDArray[np.bool_]:
    """Whether the top label is right, per row."""
    return data.top_label[1]


def nll_rows(data: Labelled) -> Floats:
    """Minus the log-probability of the true class, per row."""
    if data.log_true is not None:
        return -data.log_true
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(data.true_class))


def brier_rows(data: Labelled) -> Floats:
    """The squared distance to the one-hot label, per row."""
    return data.by_tile(
        lambda tile, labels: sums_of_rows(tile * tile) - 2.0 * take_class(tile, labels) + 1.0
    )
