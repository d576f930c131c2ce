"""Is the model calibrated? Consistency resampling: what a calibrated model would show by chance.

The predictions stay; labels are drawn from them, again and again, and the metric is computed anew.
Given the predictions that is the null hypothesis itself, so the p-value holds for any number of
rows and bins. (Vaicenavicius et al. 2019 also draw the predictions with replacement.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._arrays import RowRule
from calibrant.metrics._door import Floats, Seed, labelled
from calibrant.metrics._named import ErrorName, error_metric
from calibrant.metrics.binned import DEFAULT_BINS

_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True)
class CalibrationTest:
    """An error beside what a perfectly calibrated model would show on the same predictions."""

    metric: str
    observed: float
    p_value: float
    null_mean: float
    null_std: float
    quantiles: dict[float, float]  # level -> value of the null distribution
    resamples: int


def calibration_test(
    probs: Any,
    labels: Any,
    metric: ErrorName = "ece",
    *,
    bins: int = DEFAULT_BINS,
    resamples: int = 1000,
    seed: Seed = 0,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> CalibrationTest:
    """Test "calibrated" with any calibration error as the statistic.

    ``p_value`` is (1 + the resamples that reach the observed value) / (1 + resamples). Weights
    enter the statistic; hits are drawn row by row, whatever a row weighs. ``"rms_ece"`` is ``ece``
    with norm 2.
    """
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    data = labelled(probs, labels, sample_weight, rows)
    drawable = error_metric(metric, data, bins)
    null = drawable.null(resamples, np.random.default_rng(seed))
    return null_comparison(metric, drawable.observed(), null)


def null_comparison(metric: str, observed: float, null: Floats) -> CalibrationTest:
    """The observed value beside draws of the null."""
    # Rounding must not decide between values that are equal in exact arithmetic.
    reached = int(np.count_nonzero(null >= observed * (1.0 - 1e-12)))
    return CalibrationTest(
        metric=metric,
        observed=observed,
        p_value=(1 + reached) / (1 + len(null)),
        null_mean=float(null.mean()),
        null_std=float(null.std()),
        quantiles=dict(zip(_LEVELS, map(float, np.quantile(null, _LEVELS)), strict=True)),
        resamples=len(null),
    )
