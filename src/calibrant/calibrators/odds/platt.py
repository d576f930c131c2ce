"""Platt scaling (Platt 1999), for more than two classes one against all others."""

from __future__ import annotations

from typing import cast

import numpy as np

from calibrant.calibrators._base import Fitted
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._logistic import fit_one_logistic
from calibrant.calibrators._one_vs_all import Column
from calibrant.calibrators.odds._odds_curves import CurveFit, OddsCalibrator, Span
from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind
from calibrant.data.rows import Rows
from calibrant.formulas import LinearOdds, LogitMap, OddsMap

MIDDLE = np.array([0.5])


@documented
class PlattScaling(OddsCalibrator):
    """A sigmoid of the log-odds of each class. Does not preserve accuracy.

    Parameters
    ----------
    {input_logits}

    Attributes
    ----------
    slope_ : float, or array of shape (classes,) of more than two classes
        The fitted slope.
    intercept_ : float, or array of shape (classes,) of more than two classes
        The fitted intercept.

    Notes
    -----
    The probability of class 1 is sigma(slope s + intercept), s = z_1 - z_0, by maximum likelihood
    with Platt's targets: (n1 + 1) / (n1 + 2) for the n1 rows of class 1 and 1 / (n0 + 2) for the n0
    others, in place of 1 and 0. They keep separable rows, or rows of one class, finite.

    Of more than two classes each has a sigmoid of its own log-odds against all others, and the
    probabilities are divided by their sum.

    References
    ----------
    Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized
    Likelihood Methods", 1999.

    Examples
    --------
    >>> platt = PlattScaling().fit([3.0, -2.0, 1.0, -1.0], [1, 0, 0, 1])
    >>> platt.predict_proba([2.0]).round(3)
    array([[0.41, 0.59]])
    """

    _gives = LogitMap  # LinearOdds of two classes, OddsMap of more

    def __init__(self, input: InputKind = "logits") -> None:  # noqa: A002
        self.input = input

    @property
    def slope_(self) -> float | Floats:
        """The fitted slope."""
        return self._lines()[0]

    @property
    def intercept_(self) -> float | Floats:
        """The fitted intercept."""
        return self._lines()[1]

    def _lines(self) -> tuple[float | Floats, float | Floats]:
        """The slope and the intercept, of every class where there are more than two."""
        formula = self._own_formula(LinearOdds, OddsMap)
        if isinstance(formula, LinearOdds):
            return formula.slope, formula.intercept
        curves = cast("OddsMap", formula).curves
        lines = [curves.cubic(index) for index in range(curves.count)]
        x, y, slope = (np.array([line[i][0] for line in lines]) for i in range(3))
        return slope, y - slope * x

    def _fit_logits(self, data: Rows) -> Fitted:
        if data.n_classes > 2:
            return super()._fit_logits(data)
        column = Column.of_second_class(data)
        if len(column) == 0:
            return LinearOdds(1.0, 0.0), FitInfo(True, "no rows without a masked class")
        (slope, intercept), loss, converged = fit_one_logistic(
            [column.score], column.platts_target, column.weight
        )
        return LinearOdds(float(slope), float(intercept)), FitInfo(
            converged,
            "converged" if converged else "stopped early: check the scores for extreme values",
            loss="nll",
            before=column.mean_nll(column.score),
            after=column.mean_nll(slope * column.score + intercept),
            details={"loss_with_platts_targets": float(loss / column.weight.sum())},
        )

    def _fit_curve(self, column: Column, span: Span) -> CurveFit:
        centred = 2.0 * span.unit(column.score) - 1.0
        (slope, intercept), _, converged = fit_one_logistic(
            [centred], column.platts_target, column.weight
        )
        points = span.points(MIDDLE, np.array([intercept]), np.array([2.0 * slope]))
        return CurveFit(points, converged)
