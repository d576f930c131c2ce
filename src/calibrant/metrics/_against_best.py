"""Many sets of probabilities on the same rows: how far is each from the best, beyond noise?"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.metrics._differences import (
    Gap,
    correlation_of,
    gap_of_errors,
    gap_of_scores,
    holm,
    paired_draws,
)
from calibrant.metrics._estimates import Estimates, estimates_of, families_of
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._metric import Metric
from calibrant.metrics._readings import row_scores


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
class Evidence:
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
    ) -> Evidence:
        """What there is to know; ``rng`` stays as it is, so that others draw the same."""
        estimates = estimates_of(metrics, data, n_bins, n_resamples, level, deepcopy(rng))
        paired = [metric for metric in metrics if metric.name in estimates.sides]
        draws: dict[str, Floats] = {}
        for family in families_of(paired):
            columns = paired_draws(family, data, n_bins, n_resamples, rng)
            draws |= {metric.name: column for metric, column in zip(family, columns.T, strict=True)}
        scores = {
            metric.name: row_scores(metric.statistic, data)
            for metric in metrics
            if not metric.is_error
        }
        return cls(estimates, scores, draws, data.true_class, data.top_label[0])

    def value(self, metric: Metric) -> float:
        """The metric's value."""
        return self.estimates.by_name[metric.name].value

    def same_probabilities(self, other: Evidence) -> bool:
        """Whether both gave the rows the same probabilities, but for rounding."""
        pairs = ((self.true_class, other.true_class), (self.confidence, other.confidence))
        return all(
            np.allclose(one[rows], two[rows], rtol=1e-5, atol=1e-9)
            for rows in (slice(1000), slice(None))  # a few rows tell most methods apart
            for one, two in pairs
        )


def best_of(metric: Metric, evidence: Mapping[str, Evidence]) -> str:
    """The name of the first that has the best value."""
    choose = max if metric.higher_is_better else min
    return choose(evidence, key=lambda name: evidence[name].value(metric))


def differences_to_best(
    metric: Metric, evidence: Mapping[str, Evidence], weight: Floats, level: float
) -> dict[str, Difference]:
    """Every set's difference to the best one; empty for errors whose noise is not known."""
    best = evidence[best_of(metric, evidence)]
    if metric.is_error and metric.name not in best.estimates.sides:
        return {}
    others = {name: one for name, one in evidence.items() if not one.same_probabilities(best)}
    gaps = {name: _gap(metric, one, best, weight, level) for name, one in others.items()}
    adjusted = holm([gap.p_value for gap in gaps.values()])
    found = {
        name: Difference(*gap, adjusted_p_value)
        for (name, gap), adjusted_p_value in zip(gaps.items(), adjusted, strict=True)
    }
    none = Difference(0.0, 0.0, 0.0, 1.0, 1.0, same=True)
    return {name: found.get(name, none) for name in evidence}


def _gap(metric: Metric, one: Evidence, best: Evidence, weight: Floats, level: float) -> Gap:
    name = metric.name
    if not metric.is_error:
        return gap_of_scores(one.scores[name], best.scores[name], weight, level)
    correlation = correlation_of(one.draws[name], best.draws[name])
    return gap_of_errors(one.estimates.sides[name], best.estimates.sides[name], correlation, level)
