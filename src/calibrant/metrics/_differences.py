"""Two models on the same rows: how far apart they are, and whether noise explains it.

A difference of scores is a mean over the rows, with the standard error of one. The noise in a
calibration error does not cancel: the sharper of two calibrated models shows the smaller one. So
each is taken without its noise, and the interval of the difference is made of those of both and of
their correlation on the same draws of rows ("MOVER": Zou and Donner, 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from calibrant.common.types import Floats
from calibrant.metrics._intervals import mean_estimate
from calibrant.metrics._inversion import Family, inverted_interval, without_noise
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._metric import Metric
from calibrant.metrics._readings import sample_of
from calibrant.metrics._resampling import Drawing

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


@dataclass(frozen=True)
class Side:
    """A calibration error and the true errors that may show it."""

    shown: float
    tried: Sequence[Family]
    which: int  # of the families' statistics

    @cached_property
    def true(self) -> float:
        """The error without its noise."""
        return without_noise(self.shown, self.tried, self.which)

    def interval(self, level: float) -> tuple[float, float]:
        """The true errors that may show what was observed."""
        return inverted_interval(self.shown, self.tried, self.which, level)

    def reaches(self, level: float) -> tuple[float, float]:
        """How far the interval reaches below and above."""
        low, high = self.interval(level)
        return max(self.true - low, 0.0), max(high - self.true, 0.0)


def gap_of_errors(first: Side, second: Side, correlation: float, level: float) -> Gap:
    """From the intervals of both; the p-value is 1 - the level that just leaves 0 out."""
    difference = first.true - second.true

    def ends(at: float) -> tuple[float, float]:
        (below, above), (other_below, other_above) = first.reaches(at), second.reaches(at)
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
    return sample_of(errors[0].reads, data, n_bins).bootstrap(drawing)


def correlation_of(first: Floats, second: Floats) -> float:
    """That of two values on the same draws of rows."""
    spread = float(first.std() * second.std())
    if spread == 0.0:
        return 0.0
    return float(
        np.clip(np.mean((first - first.mean()) * (second - second.mean())) / spread, -1.0, 1.0)
    )


# --- many at once -----------------------------------------------------------------------------


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
