"""Spiegelhalter's z: is the Brier score what the probabilities themselves promise?

Under calibration p_y has mean sum_c p_c^2 and variance sum_c p_c^3 - (sum_c p_c^2)^2 in a row, and
the Brier score is an affine function of it. With two classes this is Spiegelhalter's (1986)
statistic; with more, its direct extension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from calibrant._arrays import RowRule, row_sums
from calibrant.metrics._door import Floats, labelled


@dataclass(frozen=True)
class ZTest:
    """A two-sided normal test. A positive z means a worse Brier score than promised."""

    z: float
    p_value: float


def spiegelhalter_test(
    probs: Any,
    labels: Any,
    *,
    of: Literal["classes", "top-label"] = "classes",
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> ZTest:
    """Test the Brier score of all classes, or of "the prediction is right" alone."""
    if of not in ("classes", "top-label"):
        raise ValueError(f'of must be "classes" or "top-label", got {of!r}')
    data = labelled(probs, labels, sample_weight, rows)
    if of == "classes":
        squares = data.by_tile(lambda tile, _: row_sums(tile * tile))
        cubes = data.by_tile(lambda tile, _: row_sums(tile * tile * tile))
        true = data.true_class()
    else:
        chance, correct = data.top()
        true = np.where(correct, chance, 1.0 - chance)
        squares = chance**2 + (1.0 - chance) ** 2
        cubes = chance**3 + (1.0 - chance) ** 3
    return _z_test(squares - true, np.maximum(cubes - squares**2, 0.0), data.weight)


def _z_test(excess: Floats, variance: Floats, weight: Floats) -> ZTest:
    total = float(weight @ excess)
    deviation = float(np.sqrt(weight**2 @ variance))
    if deviation > 1e-12 * weight.sum():
        z = total / deviation
    else:  # certain predictions: right everywhere, or refuted
        z = 0.0 if abs(total) <= 1e-9 * weight.sum() else float(np.copysign(np.inf, total))
    return ZTest(z, float(2.0 * ndtr(-abs(z))))
