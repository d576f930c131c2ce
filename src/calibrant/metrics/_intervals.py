"""A value with what is known about its noise: intervals of means, of errors and from draws.

Intervals of calibration errors ask: which true errors may show the observed one? Noise makes a
calibration error larger, the more so the smaller the true one is: drawing rows again
adds noise to noise, and no shift of what it gives covers both ends. So tests are inverted. A family
of true accuracies, confidence + s * gap, runs from a calibrated model (s = 0) through the gaps that
the rows show (s = 1) and beyond. Hits drawn from each member tell what error it shows, and without
noise its true error is known. The interval holds the true errors of all members that are likely
enough to show what was observed.

The gaps are themselves noisy, and gaps that are too rough take too much of the error for noise. Two
families are inverted, with the gaps of 15 bins and with a parabola through them, and the interval
is that of both together. `make statistics` shows what it covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calibrant.common.types import Floats, Report
from calibrant.data.binning import BinStats, bin_index, equal_mass_edges
from calibrant.data.weights import copy_squares, effective_rows, weighted_mean
from calibrant.metrics._bins import Reads, bins_of, row_scores
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._metric import Metric
from calibrant.metrics._resampling import BinnedRows, Drawing, binned_rows, null_values

DEFAULT_LEVEL = 0.95
DEFAULT_RESAMPLES = 200

SCALES = np.array([0.0, 0.3, 0.6, 0.85, 1.1, 1.4, 1.9, 3.0, 6.0])  # s
PATTERN_BINS = 15
FEWEST_DRAWS = 400  # of hits, for each member: the ends are far out in the tails


@dataclass(frozen=True, repr=False)
class Estimate:
    """A value, how sure it is, and for errors what a calibrated model would show.

    Parameters
    ----------
    value : float
        The value, as a fraction.
    low : float, optional
        The low end of the confidence interval.
    high : float, optional
        The high end of the confidence interval.
    null : float, optional
        The mean value of a calibrated model with the same predictions.
    p_value : float, optional
        How likely a calibrated model is to show such a value.
    std_error : float, optional
        The standard error of the value.
    max_error : float, optional
        How far the value can be from that of the rows, where it was computed from merged cells.
    """

    value: float
    low: float | None = None
    high: float | None = None
    null: float | None = None
    p_value: float | None = None
    std_error: float | None = None
    max_error: float | None = None

    def __repr__(self) -> str:
        known = ((part.name, getattr(self, part.name)) for part in fields(self))
        told = (f"{name}={value:.6g}" for name, value in known if value is not None)
        return f"Estimate({', '.join(told)})"


def check_level(level: float) -> None:
    """Refuse what is no confidence level."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")


def check_resamples(n_resamples: int, least: int) -> None:
    """Refuse a number of resamples below the least."""
    if n_resamples < least:
        raise ValueError(f"n_resamples must be at least {least}, got {n_resamples}")


# --- means of scores --------------------------------------------------------------------------


def mean_estimate(scores: NDArray[Any], weight: Floats, level: float) -> Estimate:
    """A mean with its normal interval; of truth values Wilson's, which is no point at 0 or 1."""
    mean = weighted_mean(scores, weight)
    if not np.isfinite(mean):
        return Estimate(mean)
    reach = float(ndtri((1.0 + level) / 2.0))
    counted = weight > 0.0
    with np.errstate(over="ignore"):  # of losses near the largest float: no interval
        squares = copy_squares(weight)[counted] @ (scores[counted] - mean) ** 2
    error = float(np.sqrt(squares) / weight.sum())
    if scores.dtype == np.bool_:
        number, square = effective_rows(weight), reach**2
        centre = (mean + square / (2.0 * number)) / (1.0 + square / number)
        spread = np.sqrt(mean * (1.0 - mean) / number + square / (4.0 * number**2))
        half = reach * float(spread) / (1.0 + square / number)
        low, high = max(centre - half, 0.0), min(centre + half, 1.0)
    else:
        low, high = mean - reach * error, mean + reach * error
        if scores[counted].min() >= 0.0:
            low = max(low, 0.0)
    return Estimate(mean, low, high, std_error=error)


def p_value_of(observed: float, null: Floats) -> float:
    """(1 + the draws that reach the observed value) / (1 + the draws)."""
    # Rounding must not decide between values that are equal in exact arithmetic.
    reached = int(np.count_nonzero(null >= observed - 1e-12 * abs(observed)))
    return (1 + reached) / (1 + len(null))


# --- errors: families of true accuracies ------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """True errors along the scales, and the errors shown there."""

    true: Floats  # (scales, statistics)
    shown: Floats  # (scales, draws, statistics)


def families(rows: BinnedRows, drawing: Drawing) -> list[Family]:
    """Both families, for statistics of the same bins."""
    fixed, size = rows.stats(), len(rows.edges) - 1
    score, weight, copies = rows.rows.score, rows.rows.weight, rows.count
    shape = (max(drawing.n_resamples, FEWEST_DRAWS), size)
    same = bool(np.all(weight == weight[0]))

    found = []
    for gap in _gaps(rows):
        true, shown = list[Floats](), list[Floats]()
        for scale in SCALES:
            chance = np.clip(score + scale * gap, 0.0, 1.0)
            mean = np.bincount(rows.index, weight * copies * chance, size).astype(np.float64)
            # The hits of a bin are drawn, not those of a row. Of rows that weigh the same that is
            # a binomial number, which has the right mean and hardly more than the right variance;
            # of others a normal one, which has both.
            if same:
                count = np.rint(fixed.weight / weight[0]).astype(np.int64)
                share = np.clip(mean / np.maximum(fixed.weight, 1e-300), 0.0, 1.0)
                hits = weight[0] * drawing.rng.binomial(count, share, shape)
            else:
                variance = weight**2 * copies * chance * (1.0 - chance)
                deviation = np.sqrt(np.bincount(rows.index, variance, size))
                hits = mean + deviation * drawing.rng.standard_normal(shape)
                hits = np.clip(hits, 0.0, fixed.weight)
            for sums, values in ((mean, true), (hits, shown)):
                columns = fixed.weight, fixed.confidence_sum, sums, fixed.weight_squares
                stats = BinStats(rows.edges, *np.broadcast_arrays(*columns))
                values.append(drawing.all_of(stats))
        found.append(Family(np.array(true), np.array(shown)))
    return found


def _gaps(rows: BinnedRows) -> tuple[Floats, Floats]:
    """Accuracy minus confidence of each row, as bins show it: rough, and as a parabola."""
    score, row_weight = rows.rows.score, rows.rows.weight * rows.count
    edges = equal_mass_edges(score, PATTERN_BINS, row_weight)
    index, size = bin_index(score, edges), len(edges) - 1
    weight = np.bincount(index, row_weight, size).astype(np.float64)
    filled = weight > 0.0
    total = np.where(filled, weight, 1.0)
    place, gap, variance = (
        np.bincount(index, row_weight * values, size) / total
        for values in (score, rows.rows.hit - score, score * (1.0 - score))
    )
    precision = np.sqrt(weight / np.maximum(variance, 1e-4)) * filled
    powers = np.vander(place, 3)
    line = np.linalg.lstsq(powers * precision[:, None], gap * precision, rcond=None)[0]
    return gap[index], np.clip(np.vander(score, 3) @ line, -1.0, 1.0)


# --- errors: the interval ---------------------------------------------------------------------


@dataclass(frozen=True)
class NoisyError:
    """A calibration error and the true errors that may show it."""

    shown: float
    families: Sequence[Family]
    which: int  # of the families' statistics

    @cached_property
    def true(self) -> float:
        """The true error of the members that show less than the observed one as often as more."""
        found = []
        for family in self.families:
            median = np.maximum.accumulate(np.median(family.shown[:, :, self.which], axis=1))
            scale = _crossing(median, self.shown)
            found.append(np.interp(scale, SCALES, family.true[:, self.which]))
        return float(np.mean(found))

    @property
    def std_error(self) -> float:
        """The standard deviation of the error that the rows' own gaps show."""
        near = int(np.argmin(np.abs(SCALES - 1.0)))
        return float(self.families[0].shown[near, :, self.which].std())

    def interval(self, level: float) -> tuple[float, float]:
        """The true errors of the first and the last member that may show the observed error.

        A calibrated model may show less than was observed with a small chance, too: the last
        member's chance is taken as a share of that, so that no interval is empty (the method
        "CLs"). The ends are the lowest and the highest over the families.
        """
        tail = (1.0 - level) / 2.0
        ends = []
        for family in self.families:
            true, shown = family.true[:, self.which], family.shown[:, :, self.which]
            below = float(np.mean(shown[0] <= self.shown))
            high_quantile = np.quantile(shown, 1.0 - tail, axis=1)
            low_quantile = np.quantile(shown, tail * max(below, 1.0 / shown.shape[1]), axis=1)
            first = _crossing(np.maximum.accumulate(high_quantile), self.shown)
            last = _crossing(np.maximum.accumulate(low_quantile), self.shown)
            ends.append(np.interp([first, last], SCALES, true))
        return min(float(low) for low, _ in ends), max(float(high) for _, high in ends)


def _crossing(quantile: NDArray[Any], observed: float) -> float:
    """The scale at which a rising quantile reaches the observed error."""
    if observed <= quantile[0]:
        return 0.0
    if observed >= quantile[-1]:
        return float(SCALES[-1])
    after = int(np.searchsorted(quantile, observed))
    before = after - 1
    part = (observed - quantile[before]) / max(quantile[after] - quantile[before], 1e-300)
    return float(SCALES[before] + part * (SCALES[after] - SCALES[before]))


# --- all metrics of one set of probabilities --------------------------------------------------


@dataclass(frozen=True)
class Estimates:
    """Estimates by the metrics' names, and what the intervals of errors were made from."""

    by_name: dict[str, Estimate] = field(default_factory=dict)
    errors: dict[str, NoisyError] = field(default_factory=dict)


def metrics_by_reads(metrics: list[Metric]) -> list[list[Metric]]:
    """Metrics that read the same thing together, in the order in which draws are made."""
    groups: dict[Reads, list[Metric]] = {reads: [] for reads in get_args(Reads)}
    for metric in metrics:
        groups[metric.reads].append(metric)
    return [group for group in groups.values() if group]


def estimates_of(
    metrics: list[Metric],
    data: Labelled,
    n_bins: int,
    n_resamples: int,
    level: float,
    rng: np.random.Generator,
    report: Report = lambda done, total: None,
) -> Estimates:
    """Estimates of all metrics; those that read the same thing share their draws."""
    groups, found = metrics_by_reads(metrics), Estimates()
    for done, group in enumerate(groups):
        report(done, len(groups))
        for metric in group:  # what is known without drawing
            if metric.is_error or not metric.resampled:
                found.by_name[metric.name] = Estimate(metric.value(data, n_bins))
            else:
                scores = row_scores(metric.statistic, data)
                found.by_name[metric.name] = mean_estimate(scores, data.weight, level)
        errors = [metric for metric in group if metric.is_error and metric.resampled]
        if not errors or not n_resamples:
            continue
        drawing = Drawing([metric.statistic for metric in errors], n_resamples, rng)
        null = null_values(group[0].reads, data, n_bins, drawing)
        own = np.random.default_rng(rng.integers(2**63))  # whichever metrics there are
        for metric, draws in zip(errors, null.T, strict=True):
            value = found.by_name[metric.name].value
            p_value = p_value_of(value, draws)
            found.by_name[metric.name] = Estimate(value, null=float(draws.mean()), p_value=p_value)
        covered = [metric for metric in errors if metric.has_interval]
        noisy = noisy_errors(covered, data, n_bins, n_resamples, own)
        for metric, error in zip(covered, noisy, strict=True):
            known, (low, high) = found.by_name[metric.name], error.interval(level)
            known = replace(known, low=low, high=high, std_error=error.std_error)
            found.by_name[metric.name] = known
            found.errors[metric.name] = error
    report(len(groups), len(groups))
    return found


def noisy_errors(
    metrics: Sequence[Metric], data: Labelled, n_bins: int, n_draws: int, rng: np.random.Generator
) -> list[NoisyError]:
    """Errors of the same bins, each with the true errors that may show it."""
    if not metrics:
        return []
    reads = metrics[0].reads
    drawing = Drawing([metric.inverted for metric in metrics], n_draws, rng)
    tried = families(binned_rows(reads, data, n_bins), drawing)
    stats = bins_of(reads, data, n_bins)
    return [
        NoisyError(float(np.mean(metric.inverted(stats))), tried, which)
        for which, metric in enumerate(metrics)
    ]
