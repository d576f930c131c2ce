"""How sure is a value, is one calibrator really better, is it calibrated? Data drawn again.

Intervals and comparisons draw rows with replacement. Consistency resampling shows what a calibrated
model would by chance: the predictions stay, labels are drawn from them, again and again, and the
metric is computed anew. Given the predictions that is the null hypothesis itself, so the p-value
holds for any number of rows and bins. (Vaicenavicius et al. also draw the predictions with
replacement.)
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, RandomState, RowRule, generator
from calibrant.data.weights import row_counts
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._differences import correlation_of, gap_of_errors, gap_of_means, paired_draws
from calibrant.metrics._intervals import check_level, check_resamples, noisy_errors, p_value_of
from calibrant.metrics._labelled import labelled
from calibrant.metrics._metric import Metric
from calibrant.metrics._notions import Notion, RowNotion
from calibrant.metrics._registry import METRICS, drawn_metric
from calibrant.metrics._resampling import Drawing, bootstrap_values, draw_repetitions, null_values

Method = Literal["auto", "basic", "percentile"]

_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


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
        The first minus the second; of calibration errors, both without the noise in them.
    low : float
        The low end of the interval of the difference.
    high : float
        The high end of the interval of the difference.
    p_value : float
        How likely a difference so far from 0 is where there is none; below 1 - level exactly where
        the interval leaves 0 out.
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


@documented
def bootstrap_ci(
    probs: Any,
    labels: Any,
    metric: str | Callable[..., float] = "ece",
    *,
    n_bins: int = DEFAULT_BINS,
    level: float = 0.95,
    method: Method = "auto",
    n_resamples: int = 1000,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> Interval:
    """Compute a confidence interval of a metric, by drawing anew.

    Parameters
    ----------
    {probs}
    {labels}
    metric : str or callable, default "ece"
        A name in ``METRICS``, or a function of (probs, labels, sample_weight=, row_sums=), which
        is called once per resample.
    {n_bins}
    level : float, default 0.95
        The confidence level.
    method : {"auto", "basic", "percentile"}, default "auto"
        The estimate minus the quantiles of the deviations ("basic"), or the quantiles themselves.
        "auto" is "basic", and for calibration errors the inversion of tests.
    n_resamples : int, default 1000
        How often rows are drawn.
    {random_state}
    {notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    Interval
        The value and its interval.

    Raises
    ------
    {refused}

    Notes
    -----
    Scores are drawn by rows, with replacement. The calibration error of drawn rows is larger than
    that of the rows, as that is larger than the true one: by noise, and the more so the smaller the
    true error is. So the interval of an error holds the true errors that may show the observed one
    (tests are inverted, with at least 400 draws of hits for each); it may lie below the estimate.
    "basic" and "percentile" cover far less than they say for errors, and are here for comparison.
    For the maximum, classwise, smooth and KDE errors no interval is known to cover: refused.
    Equal-mass edges stay those of the data.

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
        raise ValueError(f'method must be "auto", "basic" or "percentile", got {method!r}')
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    rng = generator(random_state)
    if callable(metric):
        chosen, (count, weight) = None, row_counts(data.weight)

        def value(weight: Floats) -> float:
            return float(metric(data.probs, data.labels, sample_weight=weight, row_sums="raw"))

        observed = value(data.weight)
        draws = (draw_repetitions(count, 1, rng)[:, 0] for _ in range(n_resamples))
        drawn = np.array([value(weight * times) for times in draws])
    else:
        chosen = drawn_metric(metric, weighted=data.weighted)
        observed = chosen.value(data, n_bins)
        drawing = Drawing([chosen.statistic], n_resamples, rng)
        drawn = bootstrap_values(chosen.reads, data, n_bins, drawing)[:, 0]
    tail = (1.0 - level) / 2.0
    low, high = (float(end) for end in np.quantile(drawn, [tail, 1.0 - tail]))
    if method != "percentile":
        low, high = 2.0 * observed - high, 2.0 * observed - low
    if chosen is not None and chosen.is_error and method == "auto":
        _require_interval(chosen)
        (error,) = noisy_errors([chosen], data, n_bins, n_resamples, rng)
        low, high = error.interval(level)
    elif chosen is not None and chosen.is_error:
        low, high = max(low, 0.0), max(high, 0.0)
    return Interval(observed, low, high, float(drawn.std()), level, n_resamples)


def _require_interval(metric: Metric) -> None:
    if not metric.has_interval:
        known = ", ".join(
            name for name, one in METRICS.items() if one.is_error and one.has_interval
        )
        raise ValueError(
            f"{metric.name} has no interval that covers: take one of {known}, a score such as "
            '"brier", or calibration_test, which asks whether there is an error at all'
        )


@documented
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
    notion: RowNotion | None = None,
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
    {labels}
    metric : str, default "brier"
        A name in ``METRICS``.
    {n_bins}
    level : float, default 0.95
        The confidence level.
    n_resamples : int, default 1000
        How often rows are drawn.
    {random_state}
    {notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    PairedComparison
        Both values, and the difference with its interval and two-sided p-value.

    Raises
    ------
    {refused}

    Notes
    -----
    Both are computed on the same draws of rows, which tells how a difference of scores varies; its
    interval and p-value are those of the normal distribution. The noise in a calibration error does
    not cancel: the sharper of two calibrated models shows the smaller one. So each is taken without
    its noise, as the true error that would show what was observed half of the time, the interval is
    made of those of both and of their correlation ("MOVER"), and the difference is not that of
    ``first`` and ``second``. Errors without an interval are refused.

    References
    ----------
    Zou and Donner, "Construction of confidence limits about effect measures: A general approach",
    Statistics in Medicine 27, 2008.

    Examples
    --------
    >>> sure, even = [[0.9, 0.1]] * 50, [[0.5, 0.5]] * 50
    >>> compare_paired(sure, even, [0, 1] * 25).difference > 0.0  # the first is worse
    True
    """
    check_level(level)
    check_resamples(n_resamples, 1)
    pair = [
        labelled(scores, labels, sample_weight, row_sums, input, ignore_index, notion)
        for scores in (first, second)
    ]
    chosen = drawn_metric(metric, weighted=pair[0].weighted)
    rng = generator(random_state)
    values = [chosen.value(data, n_bins) for data in pair]
    drawn = [paired_draws([chosen], data, n_bins, n_resamples, rng)[:, 0] for data in pair]
    if chosen.is_error:
        _require_interval(chosen)
        one, two = (  # by the same draws
            noisy_errors([chosen], data, n_bins, n_resamples, deepcopy(rng))[0] for data in pair
        )
        found = gap_of_errors(one, two, correlation_of(*drawn), level)
    else:
        found = gap_of_means(values[0] - values[1], float((drawn[0] - drawn[1]).std()), level)
    return PairedComparison(metric, values[0], values[1], *found, level, n_resamples)


# --- labels drawn from the predictions --------------------------------------------------------


@dataclass(frozen=True)
class CalibrationTest:
    """An error beside what a perfectly calibrated model would show on the same predictions.

    Parameters
    ----------
    metric : str
        The name of the error.
    observed : float
        Its value.
    p_value : float
        How likely a calibrated model is to show such a value.
    null_mean : float
        The mean value of a calibrated model.
    null_std : float
        The standard deviation of its values.
    quantiles : dict of float to float
        Levels, and the values of a calibrated model below which so large a share lies.
    n_resamples : int
        How often labels were drawn.
    notion : {"class-1", "confidence", "top-label", "classwise"}
        Whose calibration the error judges.
    """

    metric: str
    observed: float
    p_value: float
    null_mean: float
    null_std: float
    quantiles: dict[float, float]
    n_resamples: int
    notion: Notion


@documented
def calibration_test(
    probs: Any,
    labels: Any,
    metric: str = "ece",
    *,
    n_bins: int = DEFAULT_BINS,
    n_resamples: int = 1000,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> CalibrationTest:
    """Test "calibrated" with any calibration error as the statistic.

    Parameters
    ----------
    {probs}
    {labels}
    metric : str, default "ece"
        The name of a calibration error in ``METRICS``.
    {n_bins}
    n_resamples : int, default 1000
        How often labels are drawn.
    {random_state}
    {notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    CalibrationTest
        The p-value, and what a calibrated model would show.

    Raises
    ------
    {refused}

    Notes
    -----
    The p-value is (1 + the resamples that reach the observed value) / (1 + resamples). Weights
    enter the statistic; hits are drawn row by row, whatever a row weighs.

    References
    ----------
    Broecker and Smith, "Increasing the Reliability of Reliability Diagrams", Weather and
    Forecasting 22, 2007. Vaicenavicius et al., "Evaluating model calibration in classification",
    AISTATS 2019.

    Examples
    --------
    >>> calibration_test([[0.8, 0.2]] * 50, [0, 1] * 25, n_resamples=99).p_value
    0.01
    """
    check_resamples(n_resamples, 1)
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    error = drawn_metric(metric, weighted=data.weighted, errors_only=True)
    drawing = Drawing([error.statistic], n_resamples, generator(random_state))
    null = null_values(error.reads, data, n_bins, drawing)[:, 0]
    observed = error.value(data, n_bins)
    return CalibrationTest(
        metric=metric,
        observed=observed,
        p_value=p_value_of(observed, null),
        null_mean=float(null.mean()),
        null_std=float(null.std()),
        quantiles=dict(zip(_LEVELS, map(float, np.quantile(null, _LEVELS)), strict=True)),
        n_resamples=n_resamples,
        notion=error.notion or data.notion,
    )
