"""Logistic regression with few inputs, for many targets at once: damped Newton steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats

RIDGE = 1e-10  # on slopes of inputs scaled to [-1, 1]: separable problems stay finite
TOLERANCE = 1e-10  # of the summed loss
ITERATIONS = 100
GROUPS = 512


@dataclass(frozen=True)
class LogisticFits:
    """One row per problem: the slopes, then the intercept; and whether each converged."""

    coefficients: Floats
    loss: Floats
    converged: NDArray[np.bool_]


@dataclass(frozen=True)
class _Model:
    """The summed loss with its gradient and Hessian, per problem."""

    loss: Floats
    gradient: Floats
    hessian: Floats

    def take(self, index: NDArray[np.intp]) -> _Model:
        return _Model(self.loss[index], self.gradient[index], self.hessian[index])

    def replaced(self, where: NDArray[np.bool_], new: _Model) -> _Model:
        return _Model(
            np.where(where, new.loss, self.loss),
            np.where(where[:, None], new.gradient, self.gradient),
            np.where(where[:, None, None], new.hessian, self.hessian),
        )


@dataclass(frozen=True)
class _Problems:
    inputs: list[Floats]  # each (problems, rows)
    target: Floats
    weight: Floats

    def take(self, index: NDArray[np.intp]) -> _Problems:
        weight = self.weight[index] if len(self.weight) > 1 else self.weight
        inputs = [x[index] for x in self.inputs]
        return _Problems(inputs, self.target[index], weight)

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
        theta, damping = _newton(_grouped(problems), theta, damping).coefficients, 1e-9
    fits = _newton(problems, theta, damping)
    coefficients = np.column_stack([fits.coefficients[:, :-1] / scale, fits.coefficients[:, -1]])
    return LogisticFits(coefficients, fits.loss, fits.converged)


def platts_targets(hit: NDArray[np.bool_], weight: Floats) -> Floats:
    """(n1 + 1) / (n1 + 2) for the n1 hits and 1 / (n0 + 2) for the n0 others (Platt 1999)."""
    ones, zeros = float(weight[hit].sum()), float(weight[~hit].sum())
    return np.where(hit, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))


def _grouped(problems: _Problems) -> _Problems:
    """Rows with nearly the same input as one row with their mean input and mean target."""
    (x,) = problems.inputs  # scaled to [-1, 1]
    count = len(x)
    group = ((x + 1.0) * (0.5 * (GROUPS - 1))).astype(np.intp)
    group += GROUPS * np.arange(count)[:, None]

    def sums(values: Floats) -> Floats:
        flat = np.broadcast_to(values, x.shape).ravel()
        total = np.bincount(group.ravel(), flat, count * GROUPS)
        return np.asarray(total, np.float64).reshape(count, GROUPS)

    mass = sums(problems.weight)
    filled = np.maximum(mass, 1e-300)
    mean_x = sums(problems.weight * x) / filled
    mean_target = sums(problems.weight * problems.target) / filled
    return _Problems([mean_x], mean_target, mass)


def _newton(problems: _Problems, start: Floats, damping: float) -> LogisticFits:
    """Levenberg-Marquardt: every accepted step lowers the loss, so the last point is the best.

    The step that shows convergence is taken, too: it squares what is left of the distance.
    """
    theta = start.copy()
    model = problems.model(theta)
    loss, converged = model.loss.copy(), np.zeros(len(theta), bool)
    active, damp = np.arange(len(theta)), np.full(len(theta), damping)
    for _ in range(ITERATIONS):
        step, promise = _damped_step(model, damp)
        done = promise <= TOLERANCE * (1.0 + model.loss)
        converged[active] |= done
        if done.all():
            theta[active] -= step
            break
        if 2 * done.sum() >= len(done):  # copying the others is worth it
            theta[active[done]] -= step[done]
            rest = np.flatnonzero(~done)
            problems, model = problems.take(rest), model.take(rest)
            active, step, damp = active[rest], step[rest], damp[rest]
        trial = problems.model(theta[active] - step)
        lower = trial.loss <= model.loss
        theta[active[lower]] -= step[lower]
        loss[active[lower]] = trial.loss[lower]
        model = model.replaced(lower, trial)
        damp = np.where(lower, damp / 10.0, damp * 10.0)
    return LogisticFits(theta, loss, converged)


def _damped_step(model: _Model, damping: Floats) -> tuple[Floats, Floats]:
    """The step to subtract, and the fall of the loss that it promises."""
    diagonal = np.einsum("pii->pi", model.hessian)
    floor = 1e-8 * np.maximum(diagonal.max(axis=1, keepdims=True), 1e-12)
    damped = model.hessian.copy()
    np.einsum("pii->pi", damped)[:] += (
        damping[:, None] * np.maximum(diagonal, floor) + 1e-14 * floor
    )
    step = np.asarray(np.linalg.solve(damped, model.gradient[:, :, None])[:, :, 0], np.float64)
    return step, np.einsum("pi,pi->p", step, model.gradient)


def _sum(left: Floats, right: Floats) -> Floats:
    """The sum over the rows of a product, without making the product."""
    return np.einsum("pn,pn->p", np.broadcast_to(left, right.shape), right)
