"""Spiegelhalter's z: is the Brier score what the probabilities themselves promise?

Under calibration p_y has mean sum_c p_c^2 and variance sum_c p_c^3 - (sum_c p_c^2)^2 in a row, and
the Brier score is an affine function of it. With two classes this is Spiegelhalter's statistic;
with more, its direct extension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import ndtr

from calibrant.common.arrays import row_sums as sums_of_rows
from calibrant.common.docstrings import documented
from calibrant.common.types import InputKind, RowRule
from calibrant.data.weights import copy_squares
from calibrant.metrics._labelled import Labelled, labelled

Notion = Literal["classes", "top-label"]


@dataclass(frozen=True)
class ZTest:
    """A two-sided normal test. A positive z means a worse Brier score than promised.

    Parameters
    ----------
    z : float
        The statistic, standard normal under calibration.
    p_value : float
        How likely a calibrated model is to stray so far.
    """

    z: float
    p_value: float


@documented
def spiegelhalter_test(
    probs: Any,
    labels: Any,
    *,
    notion: Notion = "classes",
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> ZTest:
    """Test whether the Brier score is what the probabilities promise.

    Parameters
    ----------
    {probs}
    {labels}
    notion : {"classes", "top-label"}, default "classes"
        The calibration of all classes, or of "the prediction is right" alone.
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    ZTest
        The statistic and its p-value.

    Raises
    ------
    {refused}

    Notes
    -----
    z is sum_i w_i (sum_c p_c^2 - p_y) over the root of its variance under calibration,
    sum_i w_i^2 [sum_c p_c^3 - (sum_c p_c^2)^2].

    References
    ----------
    Spiegelhalter, "Probabilistic prediction in patient management and clinical trials",
    Statistics in Medicine 5, 1986.

    Examples
    --------
    >>> round(spiegelhalter_test([[0.8, 0.2]] * 4, [0, 0, 0, 1]).p_value, 3)
    0.803
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return promised_brier(data, notion)


def promised_brier(data: Labelled, notion: Notion = "classes") -> ZTest:
    """The test of the Brier score against what the probabilities promise."""
    if notion not in get_args(Notion):
        raise ValueError(f'notion must be "classes" or "top-label", got {notion!r}')
    if notion == "classes":
        squares = data.by_tile(lambda tile, _: sums_of_rows(tile * tile))
        cubes = data.by_tile(lambda tile, _: sums_of_rows(tile * tile * tile))
        true = data.true_class
    else:
        chance, correct = data.top_label
        true = np.where(correct, chance, 1.0 - chance)
        squares = chance**2 + (1.0 - chance) ** 2
        cubes = chance**3 + (1.0 - chance) ** 3
    excess, variance, weight = squares - true, np.maximum(cubes - squares**2, 0.0), data.weight
    total = float(weight @ excess)
    deviation = float(np.sqrt(copy_squares(weight) @ variance))
    if deviation > 1e-12 * weight.sum():
        z = total / deviation
    else:  # certain predictions: right everywhere, or refuted
        z = 0.0 if abs(total) <= 1e-9 * weight.sum() else float(np.copysign(np.inf, total))
    return ZTest(z, float(2.0 * ndtr(-abs(z))))
