"""Cox's recalibration: the slope and intercept that the log-odds should have had.

log-odds of the event = intercept + slope x log-odds of the promised chance. A calibrated model has
slope 1 and intercept 0; a slope below 1 says that the model is over-confident, an intercept below 0
that it promises the event too often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, expit, logit

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.weights import effective_rows, shares
from calibrant.metrics._labelled import Outcomes, labelled, outcomes_of
from calibrant.metrics._notions import ScoreNotion, score_notion

_CERTAIN = 1e-12  # chances are kept so far from 0 and 1
_MOST_STEPS = 100
_CONVERGED = 1e-10  # the gain of the log-likelihood at which Newton's steps end


@dataclass(frozen=True)
class CoxTest:
    """The slope and intercept of the log-odds, and the test that they are 1 and 0.

    Parameters
    ----------
    slope : float
        1 for a calibrated model, less for an over-confident one; infinite where a threshold on the
        scores tells all events apart, NaN where nothing can tell it.
    intercept : float
        0 for a calibrated model, less for one that promises the event too often; NaN or infinite
        where the slope is.
    slope_std_error : float
        The standard error of the slope; NaN where there is none.
    intercept_std_error : float
        The standard error of the intercept; NaN where there is none.
    statistic : float
        Twice the gain in log-likelihood over slope 1 and intercept 0.
    p_value : float
        How likely a calibrated model is to show such a gain: chi-squared, 2 degrees of freedom (1
        where all scores are the same, and the slope is not tested).
    notion : {"confidence", "class-1", "classwise"}
        The null hypothesis: whose calibration was tested.
    """

    slope: float
    intercept: float
    slope_std_error: float
    intercept_std_error: float
    statistic: float
    p_value: float
    notion: ScoreNotion


@documented
def cox_test(
    probs: Any,
    labels: Any,
    *,
    notion: ScoreNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> CoxTest:
    """Fit the calibration slope and intercept, and test that they are 1 and 0.

    Parameters
    ----------
    {probs}
    {labels}
    {tested_notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    CoxTest
        The slope, the intercept, their standard errors and the likelihood-ratio test.

    Raises
    ------
    {refused}

    Notes
    -----
    Chances are kept 1e-12 away from 0 and 1. A whole weight is the row so often; rows of other
    weights tell as much as Kish's effective number of rows. Where the log-likelihood has no largest
    value (all events above a threshold, or no event at all) the test takes the value that it
    approaches. The p-value is that of many rows: with only a handful of events it is an
    approximation, and ``omnibus_test`` an exact answer. With "classwise" the test is that of the
    class with the smallest p-value, times the number of classes (Bonferroni).

    References
    ----------
    Cox, "Two further applications of a model for binary regression", Biometrika 45, 1958. Miller,
    Langefeld, Tierney, Hui and McDonald, "Validation of probabilistic predictions", Medical
    Decision Making 13, 1993.

    Examples
    --------
    >>> test = cox_test([0.1] * 50 + [0.9] * 50, ([0] * 4 + [1]) * 10 + ([1] * 4 + [0]) * 10)
    >>> round(test.slope, 3), abs(test.intercept) < 1e-9, test.p_value < 0.05
    (0.631, True, True)
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    chosen = score_notion(notion, data.n_classes)
    tests = [_test(part, chosen) for part in outcomes_of(data, chosen)]
    test = min(tests, key=lambda one: (one.p_value, -one.statistic))
    return CoxTest(**{**vars(test), "p_value": min(1.0, len(tests) * test.p_value)})


def _test(part: Outcomes, notion: ScoreNotion) -> CoxTest:
    """The fit and the test of one pair of columns."""
    part = part.of_some_weight()
    weight = shares(part.weight) * effective_rows(part.weight)
    x, hit = log_odds(part.score), part.hit
    varies = bool(np.ptp(x) > 1e-9)
    columns = np.stack([np.ones(len(x)), x], axis=1)[:, : 2 if varies else 1]
    offset = np.zeros(len(x)) if varies else x
    start = np.array([0.0, 1.0])[: columns.shape[1]]
    found = _newton(columns, offset, hit, weight, start)
    gain = _log_likelihood(offset + columns @ found, hit, weight) - _log_likelihood(x, hit, weight)
    statistic = 2.0 * max(gain, 0.0)
    errors = np.sqrt(np.diag(np.linalg.pinv(_information(columns, offset, weight, found))))
    limit = _limit(x, hit)
    intercept, slope = limit if limit is not None else np.append(found, np.nan)[:2]
    intercept_error, slope_error = np.append(errors, np.nan)[:2] if limit is None else [np.nan] * 2
    return CoxTest(
        slope=float(slope),
        intercept=float(intercept),
        slope_std_error=float(slope_error),
        intercept_std_error=float(intercept_error),
        statistic=statistic,
        p_value=float(chdtrc(columns.shape[1], statistic)),
        notion=notion,
    )


def log_odds(score: Floats) -> Floats:
    """The log-odds of chances, kept finite."""
    return logit(np.clip(score, _CERTAIN, 1.0 - _CERTAIN))


def _limit(x: Floats, hit: NDArray[np.bool_]) -> tuple[float, float] | None:
    """Where intercept and slope tend to if the likelihood has no maximum; None if it has one."""
    if hit.all() or not hit.any():
        return float(np.copysign(np.inf, hit[0] - 0.5)), np.nan
    if np.ptp(x) <= 1e-9:
        return None
    if x[hit].min() >= x[~hit].max():
        return np.nan, np.inf
    return (np.nan, -np.inf) if x[hit].max() <= x[~hit].min() else None


def _newton(
    columns: Floats, offset: Floats, hit: NDArray[np.bool_], weight: Floats, start: Floats
) -> Floats:
    """The coefficients of the largest likelihood, or so far on the way to it that nothing gains.

    Steps are halved until they gain; the likelihood is concave.
    """
    found = start
    value = _log_likelihood(offset + columns @ found, hit, weight)
    for _ in range(_MOST_STEPS):
        slope = columns.T @ (weight * (hit - expit(offset + columns @ found)))
        step = np.linalg.pinv(_information(columns, offset, weight, found)) @ slope
        for _ in range(40):
            new = _log_likelihood(offset + columns @ (found + step), hit, weight)
            if new >= value:
                break
            step = step / 2.0
        else:
            return found
        found, gain, value = found + step, new - value, new
        if gain < _CONVERGED:
            return found
    return found


def _information(columns: Floats, offset: Floats, weight: Floats, at: Floats) -> Floats:
    """The Fisher information of the coefficients."""
    chance = expit(offset + columns @ at)
    return np.asarray((columns.T * (weight * chance * (1.0 - chance))) @ columns)


def _log_likelihood(odds: Floats, hit: NDArray[np.bool_], weight: Floats) -> float:
    """The weighted log-likelihood of events with these log-odds."""
    return float(-(weight @ np.logaddexp(0.0, np.where(hit, -odds, odds))))
