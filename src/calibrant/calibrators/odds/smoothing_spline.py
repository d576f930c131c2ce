"""A smoothing spline of the log-odds, one class against all others (Lucena 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import eigh
from scipy.special import expit

from calibrant.calibrators._logistic import fit_one_logistic
from calibrant.calibrators._one_vs_all import Column, grouped_sums
from calibrant.calibrators._parameters import AtLeast, constraints
from calibrant.calibrators.odds._odds_curves import CurveFit, OddsCalibrator, Span
from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, Progress

CELLS = 1000  # as many groups of neighbouring rows: the curve is straight on this scale
DECIMALS = 3  # of the knots over [0, 1]: they keep a distance
SUREST = 18.0  # the largest log-odds that the prior rows believe, a probability of 1 - 1.5e-8
PENALTIES = 17  # from a straight line to one that the penalty leaves alone
PRICE = 0.5  # of a degree of freedom, beside the leave-one-out loss: small samples flatter curves
ITERATIONS = 100
TOLERANCE = 1e-9  # of the summed loss
RIDGE = 1e-10  # of the largest curvature: rows that are certain determine nothing


@documented
class SmoothingSpline(OddsCalibrator):
    """A smooth curve of the log-odds of each class. Does not preserve accuracy.

    As flexible as the rows allow: with few of them it is Platt's sigmoid, drawn towards the scores
    as they are.

    Parameters
    ----------
    n_knots : int, default 12
        The most knots of the spline, at quantiles of the log-odds.
    prior_rows : float, default 20
        As many rows are added, spread as the others are, that say the scores are right.
    {fit_progress}
    {input_logits}

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

    _constraints = constraints(
        n_knots=AtLeast(2), prior_rows=AtLeast(0, "must be a number from 0 on")
    )

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

    def _fit_curve(self, column: Column, span: Span) -> CurveFit:
        problem = PenalizedSpline.of(column, span, self.n_knots, self.prior_rows)
        best = problem.best()
        points = span.points(problem.knots, best.value, problem.slopes(best.value))
        return CurveFit(points, best.converged, {"degrees_of_freedom": best.degrees_of_freedom})


@dataclass(frozen=True)
class SplineFit:
    """The values of a spline at its knots, and how they were found."""

    value: Floats
    leave_one_out_loss: float
    degrees_of_freedom: float
    converged: bool


class PenalizedSpline:
    """Logistic regression on a natural cubic spline with a penalty on its curvature.

    Neighbouring rows are one cell: few enough that no fit depends on their number. ``total`` and
    ``target`` are fitted; ``rows`` and ``hits`` are those of them that can be left out, to judge a
    penalty.
    """

    def __init__(
        self, unit: Floats, rows: Floats, hits: Floats, total: Floats, target: Floats, knots: Floats
    ) -> None:
        self.unit = unit  # the mean log-odds of each cell over [0, 1], rising
        self.rows, self.hits = rows, hits  # its weight, and that of its hits
        self.total, self.target = total, target  # with the prior rows; the sum of its targets
        self.knots = knots
        # the splines that are 1 at one knot and 0 at the others
        self._each = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
        self._basis = np.asarray(self._each(unit))
        # the matrix of the integral of g''(s)^2 by Simpson's rule: g'' is linear between the knots
        bend, width = self._each(knots, 2), np.diff(knots)
        at_knots = np.append(width, 0.0) + np.append(0.0, width)
        ends, middle = bend.T @ (bend * at_knots[:, None]), bend[:-1] + bend[1:]
        self._roughness = np.asarray(ends / 6.0 + middle.T @ (middle * width[:, None]) / 6.0)

    @classmethod
    def of(cls, column: Column, span: Span, n_knots: int, prior_rows: float) -> PenalizedSpline:
        """Cells of one score, or of an equal share of the weight where there are many scores.

        The knots are both ends, and quantiles between.
        """
        unit, weight = span.unit(column.score), column.weight
        distinct, cell = np.unique(unit, return_inverse=True)
        if len(distinct) > CELLS:
            mass = grouped_sums(cell, weight)
            share = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
            cell = np.unique((CELLS * share).astype(np.intp), return_inverse=True)[1][cell]
        rows = grouped_sums(cell, weight)
        unit = grouped_sums(cell, weight * unit) / rows
        share = (np.cumsum(rows) - 0.5 * rows) / rows.sum()
        inner = np.interp(np.linspace(0.0, 1.0, n_knots)[1:-1], share, unit)
        prior = prior_rows * rows / rows.sum()
        believed = expit(np.clip(span.low + span.width * unit, -SUREST, SUREST))
        return cls(
            unit,
            rows,
            hits=grouped_sums(cell, weight * column.hit),
            total=rows + prior,
            target=grouped_sums(cell, weight * column.platts_target) + prior * believed,
            knots=np.unique(np.round(np.concatenate([[0.0], inner, [1.0]]), DECIMALS)),
        )

    def best(self) -> SplineFit:
        """The spline with the least leave-one-out loss, each degree of freedom at its price."""
        (slope, intercept), _, converged = fit_one_logistic(
            [2.0 * self.unit - 1.0], self.target / self.total, self.total
        )
        value = slope * (2.0 * self.knots - 1.0) + intercept
        if len(self.knots) == 2:
            return self._judged(value, 0.0, converged)
        # from a penalty that flattens every direction of the spline to one that flattens none
        ratio = eigh(self._roughness, self._hessian(value, 0.0), eigvals_only=True)[2:]
        smallest = max(ratio[0], 1e-12 * ratio[-1])
        fits = []
        for penalty in np.geomspace(100.0 / smallest, 0.01 / ratio[-1], PENALTIES):
            value, converged = self.fit(value, penalty)
            fits.append(self._judged(value, penalty, converged))
        return min(fits, key=lambda fit: fit.leave_one_out_loss + PRICE * fit.degrees_of_freedom)

    def fit(self, value: Floats, penalty: float) -> tuple[Floats, bool]:
        """The spline of a penalty from a start, and whether it converged: damped Newton steps."""
        loss = self._loss(value, penalty)
        for _ in range(ITERATIONS):
            residual = self.total * expit(self._basis @ value) - self.target
            gradient = self._basis.T @ residual + penalty * (self._roughness @ value)
            step = np.linalg.solve(self._hessian(value, penalty), gradient)
            if step @ gradient <= TOLERANCE * (1.0 + loss):
                return value, True
            length = 1.0
            while (trial := self._loss(value - length * step, penalty)) > loss and length > 1e-9:
                length *= 0.5
            value, loss = value - length * step, trial
        return value, False

    def slopes(self, value: Floats) -> Floats:
        """The slopes at the knots."""
        return np.asarray(self._each(self.knots, 1) @ value)

    def _loss(self, value: Floats, penalty: float) -> float:
        margin = self._basis @ value
        likelihood = self.total @ np.logaddexp(0.0, margin) - self.target @ margin
        return float(likelihood + 0.5 * penalty * (value @ self._roughness @ value))

    def _hessian(self, value: Floats, penalty: float) -> Floats:
        sigma = expit(self._basis @ value)
        curvature = self.total * sigma * (1.0 - sigma)
        hessian = (self._basis.T * curvature) @ self._basis + penalty * self._roughness
        return np.asarray(hessian + RIDGE * np.diagonal(hessian).max() * np.eye(len(hessian)))

    def _judged(self, value: Floats, penalty: float, converged: bool) -> SplineFit:
        """The loss of each row as if the fit had left it out, from one Newton step."""
        margin = self._basis @ value
        sigma = expit(margin)
        curvature = sigma * (1.0 - sigma)
        solved = np.linalg.solve(self._hessian(value, penalty), self._basis.T)
        leverage = np.einsum("nk,kn->n", self._basis, solved)
        moved = leverage / np.maximum(1.0 - leverage * curvature, 1e-3)
        hit, miss = margin - moved * (1.0 - sigma), margin + moved * sigma
        misses = self.rows - self.hits
        loss = self.hits @ np.logaddexp(0.0, -hit) + misses @ np.logaddexp(0.0, miss)
        freedom = float((self.total * curvature) @ leverage)
        return SplineFit(value, float(loss), freedom, converged)
