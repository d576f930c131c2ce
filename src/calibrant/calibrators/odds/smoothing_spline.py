"""A smoothing spline of the log-odds, one class against all others (Lucena 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._logistic import platts_targets
from calibrant.calibrators._one_vs_all import Column, grouped_sums
from calibrant.calibrators.odds._columns import CurveFit, Span, fit_odds
from calibrant.calibrators.odds._penalized import PenalizedSpline
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import OddsMap

CELLS = 1000  # as many groups of neighbouring rows: the curve is straight on this scale
DECIMALS = 3  # of the knots over [0, 1]: they keep a distance
SUREST = 18.0  # the largest log-odds that the prior rows believe, a probability of 1 - 1.5e-8


class SmoothingSpline(LogitCalibrator):
    """A smooth curve of the log-odds of each class. Does not preserve accuracy.

    As flexible as the rows allow: with few of them it is Platt's sigmoid, drawn towards the scores
    as they are.

    Parameters
    ----------
    n_knots : int, default 12
        The most knots of the spline, at quantiles of the log-odds.
    prior_rows : float, default 20
        As many rows are added, spread as the others are, that say the scores are right.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are.

    Notes
    -----
    The new log-odds of a class are a natural cubic spline g of its old log-odds s, which minimises
    the NLL of Platt's targets plus (penalty / 2) times the integral of g''(s)^2. The penalty has
    the least leave-one-out loss, summed over the rows, plus half the degrees of freedom that it
    leaves. Outside the range of s in the fitting rows the curve is straight. Of two classes one
    curve is the other's mirror image; of more, the probabilities are divided by their sum.

    The author's package, splinecalib, draws its knots at random, shrinks the coefficients of the
    spline in place of its curvature, chooses by a fifth of the rows and spreads the prior rows
    evenly over the probabilities. ``fit_info_.details["degrees_of_freedom"]`` has what the
    penalty has left of each curve: 2 is a straight line.

    References
    ----------
    Lucena, "Spline-Based Probability Calibration", arXiv 1809.07751, 2018. Green and Silverman,
    "Nonparametric Regression and Generalized Linear Models", 1994.

    Examples
    --------
    >>> spline = SmoothingSpline().fit([3.0, -2.0, 1.0, -1.0], [1, 0, 0, 1])
    >>> spline.predict_proba([2.0]).round(3)
    array([[0.177, 0.823]])
    """

    _gives = OddsMap

    def __init__(
        self,
        n_knots: int = 12,
        prior_rows: float = 20.0,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.n_knots = n_knots
        self.prior_rows = prior_rows
        self.progress = progress
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        if self.n_knots < 2:
            raise ValueError(f"n_knots must be at least 2, got {self.n_knots}")
        if not 0.0 <= self.prior_rows < np.inf:
            raise ValueError(f"prior_rows must be a number from 0 on, got {self.prior_rows}")

    def _fit_logits(self, data: Rows) -> Fitted:
        return fit_odds(data, self._fit_column, type(self).__name__, self.progress)

    def _fit_column(self, column: Column, span: Span) -> CurveFit:
        cells = _Cells.of(column, span)
        prior = self.prior_rows * cells.rows / cells.rows.sum()
        believed = expit(np.clip(span.low + span.width * cells.unit, -SUREST, SUREST))
        problem = PenalizedSpline(
            cells.unit,
            rows=cells.rows,
            hits=cells.hits,
            total=cells.rows + prior,
            target=cells.target + prior * believed,
            knots=cells.knots(self.n_knots),
        )
        best = problem.best()
        points = span.points(problem.knots, best.value, problem.slopes(best.value))
        return CurveFit(points, best.converged, {"degrees_of_freedom": best.degrees_of_freedom})


@dataclass(frozen=True)
class _Cells:
    """Neighbouring rows together: few enough that no fit depends on their number."""

    unit: Floats  # their mean log-odds over [0, 1], rising
    rows: Floats  # their weight
    hits: Floats
    target: Floats  # the sum of their Platt's targets

    @classmethod
    def of(cls, column: Column, span: Span) -> _Cells:
        """Rows of one score, or of an equal share of the weight where there are many scores."""
        unit, weight = span.unit(column.score), column.weight
        distinct, cell = np.unique(unit, return_inverse=True)
        if len(distinct) > CELLS:
            mass = grouped_sums(cell, weight)
            share = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
            cell = np.unique((CELLS * share).astype(np.intp), return_inverse=True)[1][cell]
        rows = grouped_sums(cell, weight)
        return cls(
            grouped_sums(cell, weight * unit) / rows,
            rows,
            grouped_sums(cell, weight * column.hit),
            grouped_sums(cell, weight * platts_targets(column.hit, weight)),
        )

    def knots(self, count: int) -> Floats:
        """Both ends, and quantiles between."""
        share = (np.cumsum(self.rows) - 0.5 * self.rows) / self.rows.sum()
        inner = np.interp(np.linspace(0.0, 1.0, count)[1:-1], share, self.unit)
        return np.unique(np.round(np.concatenate([[0.0], inner, [1.0]]), DECIMALS))
