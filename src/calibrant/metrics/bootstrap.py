"""How sure is a value, and is one calibrator really better than another? Rows drawn again."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from calibrant._random import generator
from calibrant._types import Floats, InputKind, RandomState, RowRule
from calibrant._weights import row_counts
from calibrant.metrics._intervals import (
    Method,
    check_level,
    check_resamples,
    interval,
    zero_unless_rejected,
)
from calibrant.metrics._labelled import Labelled, labelled
from calibrant.metrics._metric import Metric
from calibrant.metrics._readings import DEFAULT_BINS, error_sample, sample_of
from calibrant.metrics._registry import drawn_metric
from calibrant.metrics._resampling import Drawing, draw_repetitions


@dataclass(frozen=True)
class Interval:
    """A value with its bootstrap confidence interval.

    Parameters
    ----------
    estimate : float
        The value on the rows.
    low : float
        The low end of the interval.
    high : float
        The high end of the interval.
    std_error : float
        The standard deviation of the values on drawn rows.
    level : float
        The confidence level.
    n_resamples : int
        How often rows were drawn.
    """

    estimate: float
    low: float
    high: float
    std_error: float
    level: float
    n_resamples: int


@dataclass(frozen=True)
class PairedComparison:
    """Two sets of probabilities on the same rows.

    Parameters
    ----------
    metric : str
        The name of the metric.
    first : float
        Its value for the first.
    second : float
        Its value for the second.
    difference : float
        The first minus the second.
    low : float
        The low end of the interval of the difference.
    high : float
        The high end of the interval of the difference.
    p_value : float
        How often the difference strays from its observed value by that value's size.
    level : float
        The confidence level.
    n_resamples : int
        How often rows were drawn.
    """

    metric: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    level: float
    n_resamples: int


def bootstrap_ci(
    probs: Any,
    labels: Any,
    metric: str | Callable[..., float] = "ece",
    *,
    n_bins: int = DEFAULT_BINS,
    level: float = 0.95,
    method: Method = "basic",
    n_resamples: int = 1000,
    random_state: RandomState = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> Interval:
    """Compute a confidence interval of a metric, by drawing rows with replacement.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    metric : str or callable, default "ece"
        A name in ``METRICS``, or a function of (probs, labels, sample_weight=, row_sums=), which
        is called once per resample.
    n_bins : int, default 15
        The number of bins.
    level : float, default 0.95
        The confidence level.
    method : {"basic", "percentile"}, default "basic"
        The estimate minus the quantiles of the deviations, or the quantiles themselves.
    n_resamples : int, default 1000
        How often rows are drawn.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws; None is 0.
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
    Interval
        The value and its interval.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    The calibration error of drawn rows is larger than that of the rows, as that is larger than the
    true one: by noise. "basic" takes the rise out, so that the interval may lie below the estimate;
    it reaches down to 0 unless a calibrated model would show so much with a chance below
    (1 - level) / 2. "percentile" doubles the rise, and is here for comparison. Equal-mass edges
    stay those of the data.

    References
    ----------
    Davison and Hinkley, "Bootstrap Methods and their Application", 1997.

    Examples
    --------
    >>> got = bootstrap_ci([[0.8, 0.2]] * 50, [0, 1] * 25, "accuracy")
    >>> bool(got.low < got.estimate < got.high)
    True
    """
    check_level(level)
    check_resamples(n_resamples, 1)
    if method not in get_args(Method):
        raise ValueError(f'method must be "basic" or "percentile", got {method!r}')
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    rng = generator(random_state)
    if callable(metric):
        observed, drawn = _function_values(metric, data, n_resamples, rng)
        low, high = interval(observed, drawn, level, method)
    else:
        chosen = drawn_metric(metric, weighted=data.weighted)
        observed = chosen.value(data, n_bins)
        drawing = Drawing([chosen.statistic], n_resamples, rng)
        drawn = sample_of(chosen.reads, data, n_bins).bootstrap(drawing)[:, 0]
        low, high = interval(observed, drawn, level, method)
        if chosen.is_error:
            low, high = max(low, 0.0), max(high, 0.0)
        if chosen.is_error and method == "basic":
            null = error_sample(chosen.reads, data, n_bins).null(drawing)[:, 0]
            low = zero_unless_rejected(low, observed, null, level)
    return Interval(observed, low, high, float(drawn.std()), level, n_resamples)


def _function_values(
    metric: Callable[..., float], data: Labelled, n_resamples: int, rng: np.random.Generator
) -> tuple[float, Floats]:
    """The value of a user's function on the rows, and on drawn rows."""
    count, weight = row_counts(data.weight)

    def value(weight: Floats) -> float:
        return float(metric(data.probs, data.labels, sample_weight=weight, row_sums="raw"))

    draws = (draw_repetitions(count, 1, rng)[:, 0] for _ in range(n_resamples))
    return value(data.weight), np.array([value(weight * times) for times in draws])


def compare_paired(
    first: Any,
    second: Any,
    labels: Any,
    metric: str = "brier",
    *,
    n_bins: int = DEFAULT_BINS,
    level: float = 0.95,
    n_resamples: int = 1000,
    random_state: RandomState = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> PairedComparison:
    """Compare two sets of probabilities on the same rows.

    Parameters
    ----------
    first : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    second : array of shape (n_rows, n_classes) or (n_rows,)
        The same of the other model.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    metric : str, default "brier"
        A name in ``METRICS``.
    n_bins : int, default 15
        The number of bins.
    level : float, default 0.95
        The confidence level.
    n_resamples : int, default 1000
        How often rows are drawn.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws; None is 0.
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
    PairedComparison
        Both values, and the difference with its interval and two-sided p-value.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    Both are computed on the same draws of rows, so what the rows do to both cancels.

    Examples
    --------
    >>> sure, even = [[0.9, 0.1]] * 50, [[0.5, 0.5]] * 50
    >>> compare_paired(sure, even, [0, 1] * 25).difference > 0.0  # the first is worse
    True
    """
    check_level(level)
    check_resamples(n_resamples, 1)
    pair = [
        labelled(scores, labels, sample_weight, row_sums, input, ignore_index)
        for scores in (first, second)
    ]
    chosen = drawn_metric(metric, weighted=pair[0].weighted)
    values = [chosen.value(data, n_bins) for data in pair]
    difference = values[0] - values[1]
    differences = _paired_differences(chosen, pair, n_bins, n_resamples, generator(random_state))
    low, high = interval(difference, differences, level)
    strayed = np.abs(differences - difference) >= abs(difference) * (1.0 - 1e-12)
    p_value = (1 + int(strayed.sum())) / (1 + n_resamples)
    return PairedComparison(
        metric, values[0], values[1], difference, low, high, p_value, level, n_resamples
    )


def _paired_differences(
    metric: Metric, pair: list[Labelled], n_bins: int, n_resamples: int, rng: np.random.Generator
) -> Floats:
    """First minus second on the same draws of rows."""
    drawn = []
    for data in pair:
        drawing = Drawing([metric.statistic], n_resamples, deepcopy(rng), group=False)
        drawn.append(sample_of(metric.reads, data, n_bins).bootstrap(drawing)[:, 0])
    return drawn[0] - drawn[1]
