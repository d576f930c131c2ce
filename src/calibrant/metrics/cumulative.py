"""Kolmogorov-Smirnov and Kuiper tests of cumulative differences: no bins, no bandwidth.

Rows are sorted by score, and the differences "event minus promised chance" added up. Under
calibration the sums are a walk without drift whose variance is known, in the limit a Brownian
motion; a walk that strays shows where the scores promise too much (it falls) or too little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.weights import copy_squares
from calibrant.metrics._labelled import Labelled, Outcomes, labelled, outcomes_of
from calibrant.metrics._notions import ScoreNotion, score_notion

_TERMS = np.arange(1.0, 40.0)
_SWITCH = 1.5  # where both series of a distribution need only a few terms


@dataclass(frozen=True)
class CumulativeTest:
    """A test of the cumulative differences between events and their promised chances.

    Parameters
    ----------
    error : float
        How far the cumulative differences stray, as a fraction of the weight of all rows.
    statistic : float
        The same in standard deviations of their end under calibration.
    p_value : float
        How likely a calibrated model is to stray so far, or further.
    notion : {"confidence", "class-1", "classwise"}
        The null hypothesis: whose calibration was tested.
    """

    error: float
    statistic: float
    p_value: float
    notion: ScoreNotion


@documented
def ks_test(
    probs: Any,
    labels: Any,
    *,
    notion: ScoreNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> CumulativeTest:
    """Test calibration by the largest absolute cumulative difference (Kolmogorov-Smirnov).

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
    CumulativeTest
        The statistic and its p-value in the limit of many rows.

    Raises
    ------
    {refused}

    Notes
    -----
    With rows sorted by their score p, and k = 1 where the event came, the statistic is the largest
    ``|sum_{i <= m} w_i (k_i - p_i)|`` over the root of sum_i w_i^2 p_i (1 - p_i), where a whole
    weight w counts as w rows of weight 1; rows of equal score are added at once, so that their
    order does not matter. The p-value is that of the largest absolute value of a Brownian motion on
    [0, 1]. With "classwise" the test is that of the class
    with the smallest p-value, times the number of classes (Bonferroni).

    References
    ----------
    Arrieta-Ibarra, Gujral, Tannen, Tygert and Xu, "Metrics of calibration for probabilistic
    predictions", JMLR 23, 2022. Tygert, "Calibration of P-values for calibration and for deviation
    of a subpopulation from the full population", Advances in Computational Mathematics 49, 2023.

    Examples
    --------
    >>> test = ks_test([0.2] * 60 + [0.8] * 40, [0, 1] * 50)
    >>> round(test.error, 3), test.p_value < 0.001, test.notion
    (0.18, True, 'class-1')
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return _test(data, notion, lambda path: np.abs(path).max(axis=0), ks_p_value)


@documented
def kuiper_test(
    probs: Any,
    labels: Any,
    *,
    notion: ScoreNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> CumulativeTest:
    """Test calibration by the range of the cumulative differences (Kuiper).

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
    CumulativeTest
        The statistic and its p-value in the limit of many rows.

    Raises
    ------
    {refused}

    Notes
    -----
    As ``ks_test``, with the largest minus the smallest sum (0 before the first row is one of them):
    the largest total difference of any interval of scores. The p-value is that of the range of a
    Brownian motion on [0, 1].

    References
    ----------
    Arrieta-Ibarra, Gujral, Tannen, Tygert and Xu, "Metrics of calibration for probabilistic
    predictions", JMLR 23, 2022. Tygert, "Calibration of P-values for calibration and for deviation
    of a subpopulation from the full population", Advances in Computational Mathematics 49, 2023.

    Examples
    --------
    >>> test = kuiper_test([0.2] * 60 + [0.8] * 40, [0, 1] * 50)
    >>> round(test.error, 3), test.p_value < 0.001, test.notion
    (0.18, True, 'class-1')
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return _test(data, notion, span, kuiper_p_value)


def _test(
    data: Labelled,
    asked: ScoreNotion | None,
    extent: Callable[[Floats], Floats],
    p_value: Callable[[float], float],
) -> CumulativeTest:
    """The test of the one pair of columns, or of the class with the most evidence."""
    notion, tests = score_notion(asked, data.n_classes), []
    for part in outcomes_of(data, notion):
        path, deviation = cumulative_differences(part)
        total, strayed = float(part.weight.sum()), float(extent(path))
        if deviation > 1e-12 * total:
            statistic = strayed / deviation
        else:  # certain predictions: right everywhere, or refuted
            statistic = 0.0 if strayed <= 1e-9 * total else np.inf
        tests.append((strayed / total, statistic, p_value(statistic)))
    # Where p-values underflow, the statistic still tells which is the smallest.
    error, statistic, p = min(tests, key=lambda test: (test[2], -test[1]))
    return CumulativeTest(error, statistic, min(1.0, len(tests) * p), notion)


def cumulative_differences(part: Outcomes) -> tuple[Floats, float]:
    """Sums of w (hit - score) up to each distinct score, and the deviation of the last one."""
    order = np.argsort(part.score, kind="stable")
    steps = (part.weight * (part.hit - part.score))[order]
    variance = copy_squares(part.weight) @ (part.score * (1.0 - part.score))
    return summed_up(part.score[order], steps), float(np.sqrt(variance))


def summed_up(score: Floats, steps: Floats) -> Floats:
    """The cumulative steps of rows in ascending order, where the rows of equal score end."""
    ends = np.flatnonzero(np.append(np.diff(score) > 0.0, True))
    return np.asarray(np.cumsum(steps, axis=0)[ends])


def span(path: Floats) -> Floats:
    """The range of each path, which begins at 0; paths run along the first axis."""
    return np.asarray(np.maximum(path.max(axis=0), 0.0) - np.minimum(path.min(axis=0), 0.0))


# --- distributions ----------------------------------------------------------------------------


def ks_p_value(x: float) -> float:
    """The chance that the largest absolute value of a Brownian motion on [0, 1] reaches x.

    4 sum_{k odd} (+-) Phi(-k x) for large x; for small x one minus
    (4 / pi) sum_{k odd} (+-) exp(-k^2 pi^2 / (8 x^2)) / k. Signs alternate.
    """
    odd = 2.0 * _TERMS - 1.0
    sign = -((-1.0) ** _TERMS)
    if x > _SWITCH:
        return float(4.0 * (sign * ndtr(-odd * x)).sum())
    rate = (odd * np.pi / max(x, 1e-3)) ** 2
    return float(1.0 - 4.0 / np.pi * (sign * np.exp(-rate / 8.0) / odd).sum())


def kuiper_p_value(x: float) -> float:
    """The chance that the range of a Brownian motion on [0, 1] reaches x.

    8 sum_k (+-) k Phi(-k x) for large x (Feller, Annals of Mathematical Statistics 22, 1951); for
    small x one minus 8 sum_{k odd} (1 / x^2 + 1 / (k pi)^2) exp(-k^2 pi^2 / (2 x^2)).
    """
    if x > _SWITCH:
        sign = -((-1.0) ** _TERMS)
        return float(8.0 * (sign * _TERMS * ndtr(-_TERMS * x)).sum())
    x = max(x, 1e-3)
    rate = ((2.0 * _TERMS - 1.0) * np.pi) ** 2
    return float(1.0 - 8.0 * ((1.0 / x**2 + 1.0 / rate) * np.exp(-rate / (2.0 * x**2))).sum())
