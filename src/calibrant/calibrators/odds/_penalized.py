"""Logistic regression on a natural cubic spline with a penalty on its curvature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import eigh
from scipy.special import expit

from calibrant.calibrators._logistic import fit_logistic
from calibrant.common.types import Floats

PENALTIES = 17  # from a straight line to one that the penalty leaves alone
PRICE = 0.5  # of a degree of freedom, beside the leave-one-out loss: small samples flatter curves
ITERATIONS = 100
TOLERANCE = 1e-9  # of the summed loss
RIDGE = 1e-10  # of the largest curvature: rows that are certain determine nothing


@dataclass(frozen=True)
class SplineFit:
    """The values of a spline at its knots, and how they were found."""

    value: Floats
    left_out_loss: float
    degrees_of_freedom: float
    converged: bool


@dataclass(frozen=True)
class PenalizedSpline:
    """Cells of rows at places in [0, 1], and the spline that is fitted to them.

    ``total`` and ``target`` (the sum of the targets) are fitted; ``rows`` and ``hits`` are those of
    them that can be left out, to judge a penalty.
    """

    unit: Floats
    rows: Floats
    hits: Floats
    total: Floats
    target: Floats
    knots: Floats

    def best(self) -> SplineFit:
        """The spline with the least leave-one-out loss, each degree of freedom at its price."""
        value, converged = self._straight()
        if len(self.knots) == 2:
            return self._judged(value, 0.0, converged)
        fits = []
        for penalty in self._penalties(value):
            value, converged = self.fit(value, penalty)
            fits.append(self._judged(value, penalty, converged))
        return min(fits, key=lambda fit: fit.left_out_loss + PRICE * fit.degrees_of_freedom)

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

    @cached_property
    def _each(self) -> CubicSpline[np.float64]:
        """The splines that are 1 at one knot and 0 at the others."""
        return CubicSpline(self.knots, np.eye(len(self.knots)), bc_type="natural")

    @cached_property
    def _basis(self) -> Floats:
        return np.asarray(self._each(self.unit))

    @cached_property
    def _roughness(self) -> Floats:
        """The matrix of the integral of g''(s)^2: g'' is linear between the knots."""
        bend, width = self._each(self.knots, 2), np.diff(self.knots)
        ends, middle = bend.T @ (bend * _share_of_ends(width)[:, None]), bend[:-1] + bend[1:]
        return np.asarray(ends / 6.0 + middle.T @ (middle * width[:, None]) / 6.0)

    def _loss(self, value: Floats, penalty: float) -> float:
        margin = self._basis @ value
        likelihood = self.total @ np.logaddexp(0.0, margin) - self.target @ margin
        return float(likelihood + 0.5 * penalty * (value @ self._roughness @ value))

    def _hessian(self, value: Floats, penalty: float) -> Floats:
        sigma = expit(self._basis @ value)
        curvature = self.total * sigma * (1.0 - sigma)
        hessian = (self._basis.T * curvature) @ self._basis + penalty * self._roughness
        return np.asarray(hessian + RIDGE * np.diagonal(hessian).max() * np.eye(len(hessian)))

    def _straight(self) -> tuple[Floats, bool]:
        centred = (2.0 * self.unit - 1.0)[None, :]
        fit = fit_logistic([centred], (self.target / self.total)[None, :], self.total)
        slope, intercept = fit.coefficients[0]
        return slope * (2.0 * self.knots - 1.0) + intercept, bool(fit.converged[0])

    def _penalties(self, value: Floats) -> Floats:
        """From one that flattens every direction of the spline to one that flattens none."""
        ratio = eigh(self._roughness, self._hessian(value, 0.0), eigvals_only=True)[2:]
        smallest = max(ratio[0], 1e-12 * ratio[-1])
        return np.geomspace(100.0 / smallest, 0.01 / ratio[-1], PENALTIES)

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


def _share_of_ends(width: Floats) -> Floats:
    """Simpson's rule weighs the ends of every piece by its width."""
    return np.append(width, 0.0) + np.append(0.0, width)
