"""Logistic regression with few inputs, for many targets at once: damped Newton steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats

RIDGE = 1e-10  # on slopes of inputs scaled to [-1, 1]: separable problems stay finite
TOLERANCE = 1e-10  # of the summed loss
ITERATIONS = 100
GROUPS = 512


class LogisticFits(NamedTuple):
    """Of each problem: the slopes and the intercept, the summed loss, and whether it converged."""

    coefficients: Floats
    loss: Floats
    converged: NDArray[np.bool_]


def fit_one_logistic(
    inputs: Sequence[Floats], target: Floats, weight: Floats
) -> tuple[Floats, float, bool]:
    """The fit of one problem, all of whose arrays are (rows,)."""
    fits = fit_logistic([x[None, :] for x in inputs], target[None, :], weight)
    return fits.coefficients[0], float(fits.loss[0]), bool(fits.converged[0])


def fit_logistic(inputs: Sequence[Floats], target: Floats, weight: Floats) -> LogisticFits:
    """Fit sigma(slopes . inputs + intercept) to each row of targets (problems, rows).

    ``weight`` is (rows,) or (problems, rows). With one input and many rows the first steps are
    made on groups of neighbouring inputs, so that few need all rows.
    """
    scale = np.column_stack([np.abs(x).max(axis=1) for x in inputs])
    scale[scale == 0.0] = 1.0
    scaled = [x / scale[:, i : i + 1] for i, x in enumerate(inputs)]
    problems = _Problems(scaled, target, np.atleast_2d(weight))
    theta, damping = np.zeros((len(target), len(inputs) + 1)), 1e-3
    if len(inputs) == 1 and target.shape[1] > 4 * GROUPS:
        theta, damping = _newton(problems.grouped(), theta, damping).coefficients, 1e-9
    theta, loss, converged = _newton(problems, theta, damping)
    return LogisticFits(np.column_stack([theta[:, :-1] / scale, theta[:, -1]]), loss, converged)


class _Model(NamedTuple):
    """The summed loss with its gradient and Hessian, per problem."""

    loss: Floats
    gradient: Floats
    hessian: Floats


@dataclass(frozen=True)
class _Problems:
    inputs: list[Floats]  # each (problems, rows)
    target: Floats
    weight: Floats

    def grouped(self) -> _Problems:
        """Rows with nearly the same input as one row with their mean input and mean target."""
        (x,) = self.inputs  # scaled to [-1, 1]
        count = len(x)
        group = ((x + 1.0) * (0.5 * (GROUPS - 1))).astype(np.intp)
        group += GROUPS * np.arange(count)[:, None]

        def sums(values: Floats) -> Floats:
            flat = np.broadcast_to(values, x.shape).ravel()
            total = np.bincount(group.ravel(), flat, count * GROUPS)
            return np.asarray(total, np.float64).reshape(count, GROUPS)

        mass = sums(self.weight)
        filled = np.maximum(mass, 1e-300)
        mean_x, mean_target = (sums(self.weight * part) / filled for part in (x, self.target))
        return _Problems([mean_x], mean_target, mass)

    def model(self, theta: Floats) -> _Model:
        """-log likelihood of targets in [0, 1] + ridge / 2 * slopes^2."""
        margin = theta[:, -1:] + sum(theta[:, i : i + 1] * x for i, x in enumerate(self.inputs))
        small = np.exp(-np.abs(margin))
        sigma = np.where(margin >= 0.0, 1.0, small) / (1.0 + small)
        loss = _sum(self.weight, np.maximum(margin, 0.0) + np.log1p(small) - self.target * margin)
        residual = self.weight * (sigma - self.target)
        curvature = self.weight * (sigma * (1.0 - sigma))
        size = len(self.inputs)
        slopes = theta[:, :size]
        gradient = np.empty_like(theta)
        hessian = np.empty((*theta.shape, size + 1))
        gradient[:, size] = residual.sum(axis=1)
        hessian[:, size, size] = curvature.sum(axis=1)
        for i, x in enumerate(self.inputs):
            gradient[:, i] = _sum(residual, x) + RIDGE * slopes[:, i]
            weighted = curvature * x
            hessian[:, i, size] = hessian[:, size, i] = weighted.sum(axis=1)
            for j in range(i + 1):
                hessian[:, i, j] = hessian[:, j, i] = _sum(weighted, self.inputs[j])
            hessian[:, i, i] += RIDGE
        loss += 0.5 * RIDGE * (slopes**2).sum(axis=1)
        return _Model(loss, gradient, hessian)


def _newton(problems: _Problems, start: Floats, damping: float) -> LogisticFits:
    """Levenberg-Marquardt: every accepted step lowers the loss, so the last point is the best.

    The step that shows convergence is taken, too: it squares what is left of the distance.
    """
    theta = start.copy()
    model = problems.model(theta)
    loss, converged = model.loss.copy(), np.zeros(len(theta), bool)
    active, damp = np.arange(len(theta)), np.full(len(theta), damping)
    for _ in range(ITERATIONS):
        diagonal = np.einsum("pii->pi", model.hessian)
        floor = 1e-8 * np.maximum(diagonal.max(axis=1, keepdims=True), 1e-12)
        damped = model.hessian.copy()
        np.einsum("pii->pi", damped)[:] += (
            damp[:, None] * np.maximum(diagonal, floor) + 1e-14 * floor
        )
        step = np.linalg.solve(damped, model.gradient[:, :, None])[:, :, 0]
        promise = np.einsum("pi,pi->p", step, model.gradient)  # the fall of the loss
        done = promise <= TOLERANCE * (1.0 + model.loss)
        converged[active] |= done
        if done.all():
            theta[active] -= step
            break
        if 2 * done.sum() >= len(done):  # copying the others is worth it
            theta[active[done]] -= step[done]
            rest = np.flatnonzero(~done)
            weight = problems.weight[rest] if len(problems.weight) > 1 else problems.weight
            inputs = [x[rest] for x in problems.inputs]
            problems = _Problems(inputs, problems.target[rest], weight)
            model = _Model(*(part[rest] for part in model))
            active, step, damp = active[rest], step[rest], damp[rest]
        trial = problems.model(theta[active] - step)
        lower = trial.loss <= model.loss
        theta[active[lower]] -= step[lower]
        loss[active[lower]] = trial.loss[lower]
        for part, lowered in zip(model, trial, strict=True):
            part[lower] = lowered[lower]
        damp = np.where(lower, damp / 10.0, damp * 10.0)
    return LogisticFits(theta, loss, converged)


def _sum(left: Floats, right: Floats) -> Floats:
    """The sum over the rows of a product, without making the product."""
    return np.einsum("pn,pn->p", np.broadcast_to(left, right.shape), right)
