"""Models on the same rows: how far apart they are, and whether noise explains it.

A difference of scores is a mean over the rows, with the standard error of one. The noise in a
calibration error does not cancel: the sharper of two calibrated models shows the smaller one. So
each is taken without its noise, and the interval of the difference is made of those of both and of
their correlation on the same draws of rows ("MOVER": Zou and Donner, 2008).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from calibrant.common.types import Floats
from calibrant.metrics._bins import row_scores
from calibrant.metrics._intervals import (
    Estimates,
    NoisyError,
    estimates_of,
    mean_estimate,
    metrics_by_reads,
)
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._metric import Metric
from calibrant.metrics._resampling import Drawing, bootstrap_values

STEPS = 20  # halvings of a p-value


class Gap(NamedTuple):
    """A difference, the ends of its interval and its two-sided p-value."""

    value: float
    low: float
    high: float
    p_value: float


# --- scores -----------------------------------------------------------------------------------


def gap_of_means(difference: float, error: float, level: float) -> Gap:
    """By the normal distribution."""
    reach = error * float(ndtri((1.0 + level) / 2.0))
    p_value = (
        2.0 * float(ndtr(-abs(difference) / error)) if error > 0.0 else float(difference == 0.0)
    )
    return Gap(difference, difference - reach, difference + reach, p_value)


def gap_of_scores(first: NDArray[Any], second: NDArray[Any], weight: Floats, level: float) -> Gap:
    """The difference of two means of one score per row.

    A label that was impossible makes the mean infinite, and no other rows would mend that: the
    difference to a finite mean is beyond noise, and between two such means there is none to tell.
    """
    counted = weight > 0.0
    first, second = (scores[counted].astype(np.float64) for scores in (first, second))
    infinite = [bool(np.isinf(scores).any()) for scores in (first, second)]
    if any(infinite):
        value = 0.0 if all(infinite) else (np.inf if infinite[0] else -np.inf)
        return Gap(value, value, value, float(all(infinite)))
    known = mean_estimate(first - second, weight[counted], level)
    return gap_of_means(known.value, known.std_error or 0.0, level)


# --- calibration errors -----------------------------------------------------------------------


def gap_of_errors(first: NoisyError, second: NoisyError, correlation: float, level: float) -> Gap:
    """From the intervals of both; the p-value is 1 - the level that just leaves 0 out."""
    difference = first.true - second.true

    def ends(at: float) -> tuple[float, float]:
        (low, high), (other_low, other_high) = first.interval(at), second.interval(at)
        below, above = max(first.true - low, 0.0), max(high - first.true, 0.0)
        other_below = max(second.true - other_low, 0.0)
        other_above = max(other_high - second.true, 0.0)
        down = below**2 + other_above**2 - 2.0 * correlation * below * other_above
        up = above**2 + other_below**2 - 2.0 * correlation * above * other_below
        return difference - np.sqrt(max(down, 0.0)), difference + np.sqrt(max(up, 0.0))

    # p-values: 0 lies in the interval of level 1 - p below the sought one
    inside, outside = 0.0, 1.0
    for _ in range(STEPS):
        middle = 0.5 * (inside + outside)
        low, high = ends(1.0 - middle)
        inside, outside = (middle, outside) if low <= 0.0 <= high else (inside, middle)
    low, high = ends(level)
    return Gap(difference, float(low), float(high), outside)


def paired_draws(
    errors: Sequence[Metric],
    data: Labelled,
    n_bins: int,
    n_resamples: int,
    rng: np.random.Generator,
) -> Floats:
    """Metrics that read the same thing on drawn rows, (resamples, metrics).

    The same generator draws the same rows for another model.
    """
    statistics = [metric.statistic for metric in errors]
    drawing = Drawing(statistics, n_resamples, deepcopy(rng), group=False)
    return bootstrap_values(errors[0].reads, data, n_bins, drawing)


def correlation_of(first: Floats, second: Floats) -> float:
    """That of two values on the same draws of rows."""
    spread = float(first.std() * second.std())
    if spread == 0.0:
        return 0.0
    return float(
        np.clip(np.mean((first - first.mean()) * (second - second.mean())) / spread, -1.0, 1.0)
    )


# --- many models ------------------------------------------------------------------------------


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values such that those below a level are wrong, any of them, with that chance at most.

    Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of
    Statistics 6, 1979.

    >>> [round(p, 9) for p in holm([0.01, 0.5, 0.02])]
    [0.03, 0.5, 0.04]
    """
    order = np.argsort(p_values, kind="stable")
    times = np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(times * np.array(p_values)[order]), 1.0)
    return [float(p) for p in adjusted]


@dataclass(frozen=True)
class Difference:
    """A method minus the best method of a metric, on the same rows.

    Parameters
    ----------
    value : float
        The difference; of calibration errors, both without the noise in them, so that it is not
        that of the values, and may have the other sign.
    low : float
        The low end of its confidence interval.
    high : float
        The high end of its confidence interval.
    p_value : float
        How likely a difference so far from 0 is where there is none.
    adjusted_p_value : float
        The same after Holm's correction for the number of methods.
    same : bool
        Whether the method gives the same probabilities as the best one: it may be that itself.

    Examples
    --------
    >>> import calibrant
    >>> logits, labels = [[3.0, 0.0], [0.0, 3.0], [2.0, 0.0], [0.0, 1.0]], [0, 1, 1, 0]
    >>> got = calibrant.compare(logits, labels, logits, labels, methods=["base", "ts"])
    >>> got["ts"].differences["nll"].same, got["base"].differences["nll"].value > 0.0
    (True, True)
    """

    value: float
    low: float
    high: float
    p_value: float
    adjusted_p_value: float
    same: bool = False


@dataclass(frozen=True)
class ComparedModel:
    """What one set of probabilities leaves behind, to be compared with others: no probabilities."""

    estimates: Estimates
    scores: dict[str, NDArray[Any]]  # of every row
    draws: dict[str, Floats]  # errors on rows that are drawn, the same for all
    true_class: Floats
    confidence: Floats

    @classmethod
    def of(
        cls,
        metrics: list[Metric],
        data: Labelled,
        n_bins: int,
        n_resamples: int,
        level: float,
        rng: np.random.Generator,
    ) -> ComparedModel:
        """What there is to know; ``rng`` stays as it is, so that others draw the same."""
        estimates = estimates_of(metrics, data, n_bins, n_resamples, level, deepcopy(rng))
        paired = [metric for metric in metrics if metric.name in estimates.errors]
        draws: dict[str, Floats] = {}
        for group in metrics_by_reads(paired):
            columns = paired_draws(group, data, n_bins, n_resamples, rng)
            draws |= {metric.name: column for metric, column in zip(group, columns.T, strict=True)}
        scores = {
            metric.name: row_scores(metric.statistic, data)
            for metric in metrics
            if not metric.is_error
        }
        return cls(estimates, scores, draws, data.true_class, data.top_label[0])

    def same_probabilities(self, other: ComparedModel) -> bool:
        """Whether both gave the rows the same probabilities, but for rounding."""
        pairs = ((self.true_class, other.true_class), (self.confidence, other.confidence))
        return all(
            np.allclose(one[rows], two[rows], rtol=1e-5, atol=1e-9)
            for rows in (slice(1000), slice(None))  # a few rows tell most methods apart
            for one, two in pairs
        )


def differences_to_best(
    metric: Metric, models: Mapping[str, ComparedModel], weight: Floats, level: float
) -> dict[str, Difference]:
    """Every model's difference to the first best one; empty for errors whose noise is not known."""
    name = metric.name
    choose = max if metric.higher_is_better else min
    best = choose(models.values(), key=lambda model: model.estimates.by_name[name].value)
    if metric.is_error and name not in best.estimates.errors:
        return {}
    gaps: dict[str, Gap] = {}
    for key, one in models.items():
        if one.same_probabilities(best):
            continue
        if metric.is_error:
            correlation = correlation_of(one.draws[name], best.draws[name])
            errors = one.estimates.errors[name], best.estimates.errors[name]
            gaps[key] = gap_of_errors(*errors, correlation, level)
        else:
            gaps[key] = gap_of_scores(one.scores[name], best.scores[name], weight, level)
    adjusted = holm([gap.p_value for gap in gaps.values()])
    found = {
        key: Difference(*gap, adjusted_p_value)
        for (key, gap), adjusted_p_value in zip(gaps.items(), adjusted, strict=True)
    }
    none = Difference(0.0, 0.0, 0.0, 1.0, 1.0, same=True)
    return {key: found.get(key, none) for key in models}
