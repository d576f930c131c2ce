"""Quadratic scaling of the log-odds, one class against all others."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators._logistic import fit_one_logistic
from calibrant.calibrators._one_vs_all import Column
from calibrant.calibrators.odds._odds_curves import CurveFit, OddsCalibrator, Span
from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.formulas import OddsMap

ENDS = np.array([0.0, 1.0])


@documented
class QuadraticScaling(OddsCalibrator):
    """A parabola of the log-odds of each class. Does not preserve accuracy.

    Parameters
    ----------
    smooth_targets : bool, default True
        Fit Platt's targets, (n1 + 1) / (n1 + 2) and 1 / (n0 + 2), in place of 1 and 0. They keep
        few rows that a parabola can separate from certainty.
    {fit_progress}
    {input_logits}

    Attributes
    ----------
    coefficients_ : array of shape (classes, 3)
        The a, b and c of each class.

    Notes
    -----
    The new log-odds of a class are a s^2 + b s + c, s being its old log-odds, by maximum
    likelihood. Outside the range of s in the fitting rows the parabola continues straight. Of two
    classes one fit is the other's mirror image; of more, the probabilities are divided by their
    sum.

    The log-odds are exactly quadratic where the scores of either class are normally distributed:
    a, the difference in spread, is what Platt's sigmoid cannot repair.

    References
    ----------
    Berta, Holzmüller, Jordan and Bach, "Structured Matrix Scaling for Multi-Class Calibration",
    arXiv 2511.03685, 2025: quadratic scaling of two classes.

    Examples
    --------
    >>> quadratic = QuadraticScaling().fit([3.0, -2.0, 1.0, -1.0], [1, 0, 0, 1])
    >>> quadratic.coefficients_[1].round(3)
    array([ 0.074,  0.134, -0.302])
    """

    def __init__(
        self,
        smooth_targets: bool = True,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.smooth_targets = smooth_targets
        self.progress = progress
        self.input = input

    @property
    def coefficients_(self) -> Floats:
        """The a, b and c of each class."""
        curves = self._own_formula(OddsMap).curves
        result = np.empty((curves.count, 3))
        for index in range(curves.count):
            x, y, slope = curves.cubic(index)
            a = (slope[-1] - slope[0]) / (2.0 * (x[-1] - x[0])) if len(x) > 1 else 0.0
            b = slope[0] - 2.0 * a * x[0]
            result[index] = a, b, y[0] - (a * x[0] + b) * x[0]
        return result

    def _fit_curve(self, column: Column, span: Span) -> CurveFit:
        target = column.platts_target if self.smooth_targets else column.target
        centred = 2.0 * span.unit(column.score) - 1.0
        (b, a, c), _, converged = fit_one_logistic([centred, centred**2], target, column.weight)
        ends = 2.0 * ENDS - 1.0
        points = span.points(ENDS, a * ends**2 + b * ends + c, 2.0 * (2.0 * a * ends + b))
        return CurveFit(points, converged)
