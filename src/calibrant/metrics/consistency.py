"""Is the model calibrated? Consistency resampling: what a calibrated model would show by chance.

The predictions stay; labels are drawn from them, again and again, and the metric is computed anew.
Given the predictions that is the null hypothesis itself, so the p-value holds for any number of
rows and bins. (Vaicenavicius et al. also draw the predictions with replacement.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.common.docstrings import documented
from calibrant.common.types import InputKind, RandomState, RowRule, generator
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._intervals import check_resamples, p_value_of
from calibrant.metrics._labelled import labelled
from calibrant.metrics._notions import Notion, RowNotion
from calibrant.metrics._registry import drawn_metric
from calibrant.metrics._resampling import Drawing, null_values

_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


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
