"""How sure is a value, and is one calibrator really better than another? Rows drawn again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from calibrant._arrays import RowRule
from calibrant.metrics._door import Floats, Labelled, Seed, labelled
from calibrant.metrics._named import ErrorName, ScoreName, error_metric, metric_of
from calibrant.metrics._resampling import draw_repetitions
from calibrant.metrics.binned import DEFAULT_BINS

MetricName = ErrorName | ScoreName
Method = Literal["basic", "percentile"]


@dataclass(frozen=True)
class Interval:
    """A value with its bootstrap confidence interval."""

    estimate: float
    low: float
    high: float
    std_error: float
    level: float
    resamples: int


@dataclass(frozen=True)
class PairedComparison:
    """Two sets of probabilities on the same rows; ``difference`` is first minus second."""

    metric: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    level: float
    resamples: int


def bootstrap_ci(
    probs: Any,
    labels: Any,
    metric: MetricName | Callable[..., float] = "ece",
    *,
    bins: int = DEFAULT_BINS,
    level: float = 0.95,
    method: Method = "basic",
    resamples: int = 1000,
    seed: Seed = 0,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> Interval:
    """A confidence interval of a metric, by drawing rows with replacement.

    The calibration error of drawn rows is larger than that of the rows, as that is larger than the
    true one: by noise. ``"basic"`` (the estimate minus the quantiles of the deviations) takes the
    rise out, so that the interval may lie below the estimate; it reaches down to 0 unless a
    calibrated model would show so much with a chance below (1 - level) / 2. ``"percentile"``
    doubles the rise, and is here for comparison. Equal-mass edges stay those of the data.
    ``metric`` may be a function of (probs, labels, sample_weight=, rows=), called once a resample.
    """
    _check(level, method, resamples)
    data = labelled(probs, labels, sample_weight, rows)
    rng = np.random.default_rng(seed)
    if callable(metric):
        observed = float(metric(data.probs, data.labels, sample_weight=data.weight, rows="raw"))
        drawn = _function_values(metric, data, resamples, rng)
    else:
        drawable = metric_of(metric, data, bins)
        observed = drawable.observed()
        drawn = drawable.bootstrap(resamples, rng, group=True)
    low, high = interval(observed, drawn, level, method)
    if not callable(metric) and metric in get_args(ErrorName):
        low, high = max(low, 0.0), max(high, 0.0)
        if method == "basic":
            null = error_metric(metric, data, bins).null(resamples, rng)
            low = reach_zero(low, observed, null, level)
    return Interval(observed, low, high, float(drawn.std()), level, resamples)


def compare_paired(
    first: Any,
    second: Any,
    labels: Any,
    metric: MetricName = "brier",
    *,
    bins: int = DEFAULT_BINS,
    level: float = 0.95,
    resamples: int = 1000,
    seed: Seed = 0,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> PairedComparison:
    """Is the first better (smaller error or score) than the second on the same rows?

    Both are computed on the same draws of rows, so what the rows do to both cancels. ``p_value``
    is two-sided: how often the difference strays from its observed value by that value's size.
    """
    _check(level, "basic", resamples)
    pair = [labelled(probs, labels, sample_weight, rows) for probs in (first, second)]
    metrics = [metric_of(metric, data, bins) for data in pair]
    values = [drawable.observed() for drawable in metrics]
    state = np.random.default_rng(seed).bit_generator.state
    drawn = []
    for drawable in metrics:
        rng = np.random.default_rng()
        rng.bit_generator.state = state  # the same rows for both
        drawn.append(drawable.bootstrap(resamples, rng, group=False))
    difference = values[0] - values[1]
    differences = drawn[0] - drawn[1]
    low, high = interval(difference, differences, level, "basic")
    strayed = np.abs(differences - difference) >= abs(difference) * (1.0 - 1e-12)
    p_value = (1 + int(strayed.sum())) / (1 + resamples)
    return PairedComparison(
        metric, values[0], values[1], difference, low, high, p_value, level, resamples
    )


def interval(
    observed: float, drawn: Floats, level: float, method: Method = "basic"
) -> tuple[float, float]:
    """The ends of an interval from draws."""
    tail = (1.0 - level) / 2.0
    low, high = (float(end) for end in np.quantile(drawn, [tail, 1.0 - tail]))
    if method == "basic":
        return 2.0 * observed - high, 2.0 * observed - low
    return low, high


def reach_zero(low: float, observed: float, null: Floats, level: float) -> float:
    """The low end of a calibration error: 0 unless the rows speak against calibration."""
    usual = float(np.quantile(null, 1.0 - (1.0 - level) / 2.0))
    return low if observed > usual else 0.0


def _function_values(
    metric: Callable[..., float], data: Labelled, resamples: int, rng: np.random.Generator
) -> Floats:
    count = np.ones(len(data.labels), np.int64)
    values = []
    for _ in range(resamples):
        weight = data.weight * draw_repetitions(count, 1, rng)[:, 0]
        values.append(float(metric(data.probs, data.labels, sample_weight=weight, rows="raw")))
    return np.array(values)


def _check(level: float, method: str, resamples: int) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    if method not in get_args(Method):
        raise ValueError(f'method must be "basic" or "percentile", got {method!r}')
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
