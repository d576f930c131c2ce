"""Two classes as practitioners see them: is the probability of class 1 what it says?

The calibration slope and intercept are those of ``cox_test``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import Norm, Scheme, calibration_error, check_scheme
from calibrant.data.weights import weighted_quantiles
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._labelled import Labelled, Outcomes, class_outcomes, labelled
from calibrant.metrics._notions import check_two_classes

_SPAN = 0.75  # the share of rows in a window of the smooth curve
_MOST_PLACES = 500  # where the curve is computed; it is linear in between
_TILE = 4_000_000  # elements of a temporary


@dataclass(frozen=True)
class CalibrationIndices:
    """Distances of class 1's probability from a smooth curve of its observed frequency.

    Parameters
    ----------
    ici : float
        The mean distance: the integrated calibration index.
    e50 : float
        The median distance.
    e90 : float
        The distance that 90% of the rows do not exceed.
    emax : float
        The largest distance.
    """

    ici: float
    e50: float
    e90: float
    emax: float


@dataclass(frozen=True)
class HosmerLemeshowTest:
    """Hosmer and Lemeshow's test of groups of equal size.

    Parameters
    ----------
    statistic : float
        The sum over groups of the squared difference between events and their promised number, over
        its variance.
    p_value : float
        How likely a calibrated model is to show such a sum, or a larger one.
    degrees : int
        The degrees of freedom of its chi-squared law.
    """

    statistic: float
    p_value: float
    degrees: int


@documented
def class1_ece(
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
    """Compute the expected calibration error of the probability of class 1 of two.

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
    It is ``ece`` of two classes, by a name that refuses more than two. ``confidence_ece`` judges
    the larger of the two probabilities instead, where a class that is promised too often cancels:
    the rows that predict it lose what the rows that predict the other gain.

    References
    ----------
    Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian
    Binning", AAAI 2015.

    Examples
    --------
    >>> round(class1_ece([0.6, 0.6, 0.4, 0.4], [0, 1, 0, 0]), 3)
    0.25
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    check_scheme(scheme)
    return float(calibration_error(_class_1(data).bins(n_bins, scheme), norm))


@documented
def calibration_indices(
    probs: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> CalibrationIndices:
    """Compute ICI, E50, E90 and Emax: how far class 1's probability is from a smooth curve.

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
    CalibrationIndices
        The four numbers, as fractions.

    Raises
    ------
    {refused}

    Notes
    -----
    The curve is a local linear regression of the events on the probabilities, with tricube weights
    over the nearest 75% of the rows (of their weight), kept within [0, 1]. It is computed at up to
    500 of the scores and is linear between them. Like an ECE the indices are above 0 for a
    calibrated model, too.

    References
    ----------
    Austin and Steyerberg, "The Integrated Calibration Index (ICI) and related metrics for
    quantifying the calibration of logistic regression models", Statistics in Medicine 38, 2019.
    Cleveland, "Robust locally weighted regression and smoothing scatterplots", JASA 74, 1979.

    Examples
    --------
    >>> calibration_indices([0.2] * 10 + [0.7] * 10, [0, 1] * 5 + [1] * 5 + [0] * 5).ici
    0.25
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    part = _class_1(data)
    places = np.unique(part.score)
    if len(places) > _MOST_PLACES:
        places = places[np.linspace(0.0, len(places) - 1.0, _MOST_PLACES).astype(np.intp)]
    step = max(1, _TILE // len(part.score))
    curve = [_local_lines(part, places[i : i + step]) for i in range(0, len(places), step)]
    gap = np.abs(np.interp(part.score, places, np.concatenate(curve)) - part.score)
    levels = weighted_quantiles(gap, part.weight, np.array([0.5, 0.9, 1.0]))
    return CalibrationIndices(float(part.weight @ gap / part.weight.sum()), *map(float, levels))


@documented
def hosmer_lemeshow_test(
    probs: Any,
    labels: Any,
    n_bins: int = 10,
    *,
    fitted: bool = False,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> HosmerLemeshowTest:
    """Test class 1's probability in groups of equal size, as Hosmer and Lemeshow do.

    Parameters
    ----------
    {probs}
    {labels}
    n_bins : int, default 10
        The number of bins (groups).
    fitted : bool, default False
        Whether the model was fitted on these very rows, which takes two degrees of freedom.
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    HosmerLemeshowTest
        The statistic and its p-value.

    Raises
    ------
    {refused}

    Notes
    -----
    The statistic is the sum over groups of (O - E)^2 / (n p (1 - p)), where O are the events of a
    group, E the sum of its probabilities and p their mean. It has as many degrees of freedom as
    groups. It is here to compare with what others report: ``omnibus_test`` needs no groups, and
    keeps its level with rare events.

    References
    ----------
    Hosmer and Lemeshow, "Goodness of fit tests for the multiple logistic regression model",
    Communications in Statistics 9, 1980.

    Examples
    --------
    >>> hosmer_lemeshow_test([0.2] * 20 + [0.7] * 20, [0, 1] * 20, n_bins=2).p_value < 0.01
    True
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    stats = _class_1(data).bins(n_bins)
    groups = stats.weight > 0.0
    degrees = int(groups.sum()) - 2 * fitted
    if degrees < 1:
        raise ValueError(f"the test needs more groups of different scores, got {groups.sum()}")
    mean, squared_weight = stats.confidence[groups], stats.weight_squares[groups]
    residual, variance = stats.residual[groups], squared_weight * mean * (1.0 - mean)
    certain = variance <= 1e-12 * squared_weight
    missed = np.where(np.abs(residual) > 1e-9 * stats.weight[groups], np.inf, 0.0)
    squares = np.where(certain, missed, residual**2 / np.where(certain, 1.0, variance))
    statistic = float(squares.sum())
    return HosmerLemeshowTest(statistic, float(chdtrc(degrees, statistic)), degrees)


def _class_1(data: Labelled) -> Outcomes:
    """The probability of class 1 and whether a row is of it, of the rows that count."""
    check_two_classes(data.n_classes)
    return class_outcomes(data, 1).of_some_weight()


def _local_lines(part: Outcomes, places: Floats) -> Floats:
    """The value at each place of the line through the rows near it."""
    x = part.score[None, :] - places[:, None]
    distance = np.abs(x)
    # how far the nearest rows reach that make up the window's share of the weight
    if np.all(part.weight == part.weight[0]):
        nearest = int(np.ceil(_SPAN * len(part))) - 1
        reach = np.partition(distance, nearest, axis=1)[:, nearest]
    else:
        order = np.argsort(distance, axis=1)
        inside = np.cumsum(part.weight[order], axis=1) < _SPAN * part.weight.sum()
        last = np.take_along_axis(order, inside.sum(axis=1, keepdims=True), axis=1)
        reach = np.take_along_axis(distance, last, axis=1)[:, 0]
    reach = np.maximum(reach, 1e-9)[:, None] * (1.0 + 1e-9)
    w = part.weight * np.maximum(1.0 - (distance / reach) ** 3, 0.0) ** 3
    w /= w.sum(axis=1, keepdims=True)
    mean = (w * x).sum(axis=1)
    event = w @ part.hit
    spread = (w * x * x).sum(axis=1) - mean**2
    slope = (w * x) @ part.hit - mean * event
    flat = spread <= 1e-12 * reach[:, 0] ** 2
    slope = np.where(flat, 0.0, slope / np.where(flat, 1.0, spread))
    return np.clip(event - slope * mean, 0.0, 1.0)
