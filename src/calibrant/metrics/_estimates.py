"""Metrics of one set of probabilities, each with what is known about its noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np

from calibrant.common.types import Report
from calibrant.metrics._differences import Side
from calibrant.metrics._intervals import Estimate, mean_estimate, p_value_of
from calibrant.metrics._inversion import spread
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._metric import Metric
from calibrant.metrics._readings import Reads, error_sample, read_by, row_scores
from calibrant.metrics._resampling import Drawing


@dataclass(frozen=True)
class Estimates:
    """Estimates by the metrics' names, and what the intervals of errors were made from."""

    by_name: dict[str, Estimate] = field(default_factory=dict)
    sides: dict[str, Side] = field(default_factory=dict)


def families_of(metrics: list[Metric]) -> list[list[Metric]]:
    """Metrics that read the same thing together, in the order in which draws are made."""
    kinds: tuple[Reads, ...] = get_args(Reads)
    families = ([metric for metric in metrics if metric.reads == reads] for reads in kinds)
    return [family for family in families if family]


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
    families, found = families_of(metrics), Estimates()
    for done, family in enumerate(families):
        report(done, len(families))
        for metric in family:
            found.by_name[metric.name] = _plain_estimate(metric, data, n_bins, level)
        drawn = [metric for metric in family if metric.is_error and metric.resampled]
        if drawn and n_resamples:
            errors = _error_estimates(drawn, data, n_bins, n_resamples, level, rng)
            found.by_name.update(errors.by_name)
            found.sides.update(errors.sides)
    report(len(families), len(families))
    return found


def _plain_estimate(metric: Metric, data: Labelled, n_bins: int, level: float) -> Estimate:
    """What is known without drawing: the value, and for the mean of a score its interval."""
    if metric.is_error or not metric.resampled:
        return Estimate(metric.value(data, n_bins))
    return mean_estimate(row_scores(metric.statistic, data), data.weight, level)


def _error_estimates(
    errors: list[Metric],
    data: Labelled,
    n_bins: int,
    n_resamples: int,
    level: float,
    rng: np.random.Generator,
) -> Estimates:
    """Errors of the same bins, each beside what a calibrated model would show."""
    sample = error_sample(errors[0].reads, data, n_bins)
    bins = read_by(errors[0].reads, data, n_bins)
    null = sample.null(Drawing([metric.statistic for metric in errors], n_resamples, rng))
    covered = [metric for metric in errors if metric.has_interval]
    own = np.random.default_rng(rng.integers(2**63))  # whichever metrics there are
    tried = sample.families(Drawing([m.inverted for m in covered], n_resamples, own))
    found = Estimates()
    for metric, draws in zip(errors, null.T, strict=True):
        value = metric.from_bins(bins)
        known = Estimate(value, null=float(draws.mean()), p_value=p_value_of(value, draws))
        if metric.has_interval:
            which = covered.index(metric)
            side = Side(float(np.mean(metric.inverted(bins))), tried, which)
            low, high = side.interval(level)
            known = replace(known, low=low, high=high, std_error=spread(tried, which))
            found.sides[metric.name] = side
        found.by_name[metric.name] = known
    return found
