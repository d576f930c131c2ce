"""The optimisers: each returns a result that says how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from calibrant.common.types import Report

#: The value, the slope and the curvature of a function of one variable.
Derivatives = Callable[[float], tuple[float, float, float]]
Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]

FORBIDDEN = 1e30  # stands for a value that is not finite, so that the line search steps back
_AT_LIMIT = 1  # SciPy's status for "iterations or evaluations used up"


@dataclass(frozen=True)
class ScalarResult:
    """A minimiser on an interval."""

    x: float
    converged: bool  # False where the interval's end is the best point
    message: str


def falling_then_rising(
    at: Derivatives, low: float, high: float, unit: str, start: float | None = None
) -> ScalarResult:
    """The minimiser of a function whose slope changes sign at most once: a bracketed root.

    From ``start`` the bracket grows in doubling steps, so that a root near it is found at once.
    """

    def slope(x: float) -> float:
        return at(x)[1]

    left, right = low, high
    if start is not None:
        near, step = float(np.clip(start, low, high)), 0.5
        direction = -1.0 if slope(near) > 0.0 else 1.0
        while True:
            far = float(np.clip(near + direction * step, low, high))
            if far in (low, high) or direction * slope(far) >= 0.0:
                break
            near, step = far, 2.0 * step
        left, right = (near, far) if direction > 0.0 else (far, near)
    if left == low and slope(low) >= 0.0:
        return ScalarResult(low, False, f"the loss still falls at the smallest {unit}")
    if right == high and slope(high) <= 0.0:
        return ScalarResult(high, False, f"the loss still falls at the largest {unit}")
    return ScalarResult(float(brentq(slope, left, right, xtol=1e-12)), True, "converged")


def best_of_scan(
    at: Derivatives, low: float, high: float, unit: str, points: int = 25
) -> ScalarResult:
    """The global minimiser of a smooth function of one variable: a scan, then a bracketed root."""
    grid = np.linspace(low, high, points)
    best = int(np.argmin([at(float(x))[0] for x in grid]))
    left, right = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, points - 1)])
    result = falling_then_rising(at, left, right, unit)
    if result.converged or result.x in (low, high):
        return result
    return ScalarResult(float(grid[best]), True, "the loss is flat around its minimum")


def newton_minimum(at: Derivatives, start: float) -> float | None:
    """The minimiser near ``start``; None where Newton's steps go astray."""
    x, widest = start, 0.5
    for _ in range(10):
        _, slope, curvature = at(x)
        if not abs(slope) < widest * curvature:
            return None
        step = slope / curvature
        x -= step
        if abs(step) < 1e-6:  # what is left is of the order of its square
            return x
        widest = abs(step)
    return None


def simplex_quadratic(
    matrix: NDArray[np.float64], vector: NDArray[np.float64]
) -> NDArray[np.float64]:
    """argmin w'Aw - 2b'w over the simplex, exactly: the best stationary point of all faces."""
    size = len(vector)
    best, best_value = np.eye(size)[0], np.inf
    for count in range(1, size + 1):
        for face in combinations(range(size), count):
            # the stationary point with support on a face, its weights summing to 1
            system = np.zeros((count + 1, count + 1))
            system[:count, :count] = matrix[np.ix_(face, face)]
            system[:count, count] = system[count, :count] = 1.0
            right = np.append(vector[list(face)], 1.0)
            solution = np.linalg.lstsq(system, right, rcond=None)[0]  # equal temperatures: singular
            weights = np.zeros(size)
            weights[list(face)] = solution[:count]
            if weights.min() < -1e-12:
                continue
            weights = np.clip(weights, 0.0, None)
            weights /= weights.sum()
            value = float(weights @ matrix @ weights - 2.0 * vector @ weights)
            if value < best_value - 1e-15:
                best, best_value = weights, value
    return best


@dataclass(frozen=True)
class Minimum:
    """The best point of a run, and how the run ended."""

    x: NDArray[np.float64]
    value: float
    iterations: int
    converged: bool
    message: str
    last_gain: float = 0.0  # by which share of the value the last step lowered it


#: The value at a point, and how to get the gradient and a positive semi-definite Hessian there.
Modelled = Callable[
    [NDArray[np.float64]],
    tuple[float, Callable[[], tuple[NDArray[np.float64], NDArray[np.float64]]]],
]


def damped_newton(
    at: Modelled, start: NDArray[np.float64], *, max_iter: int, tolerance: float
) -> Minimum:
    """Levenberg-Marquardt: the Hessian is asked for only where a step has been taken.

    Every accepted step lowers the value, so the last point is the best one. Ends when a step gains
    less than ``tolerance`` of the value.
    """
    x, damping, gain = start, 1e-3, np.inf
    current, model = at(x)
    for iteration in range(max_iter):
        gradient, hessian = model()
        diagonal = np.diag(hessian)
        scale = np.maximum(diagonal, 1e-6 * max(float(diagonal.max()), 1e-12))
        for _ in range(12):
            candidate = x - np.linalg.solve(hessian + np.diag(damping * scale), gradient)
            lower, there = at(candidate)
            if lower < current:
                break
            damping *= 4.0
        else:
            return Minimum(x, current, iteration, True, "no step lowers the loss any more")
        gain, current = current - lower, lower
        x, model, damping = candidate, there, max(damping / 3.0, 1e-9)
        if gain < tolerance * max(abs(current), 1e-12):
            return Minimum(x, current, iteration + 1, True, "converged")
    share = gain / max(abs(current), 1e-12)
    return Minimum(x, current, max_iter, False, f"stopped after {max_iter} iterations", share)


def lbfgs(
    objective: Objective,
    start: NDArray[np.float64],
    *,
    max_iter: int,
    tolerance: float,
    memory: int = 10,
    progress: Report | None = None,
) -> Minimum:
    """Minimise from ``start``; never ends above it.

    Ends when one iteration gains less than ``tolerance`` (of the value, or absolutely below 1).
    A line search that finds no lower point means that rounding is all that is left to win.
    """
    best, lowest, done = None, np.inf, 0

    def finite(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal best, lowest
        value, gradient = objective(x)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return FORBIDDEN, np.zeros_like(x)
        if value < lowest:
            best, lowest = x.copy(), value
        return value, gradient

    def count(_: NDArray[np.float64]) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, max_iter)

    options = {
        "maxiter": max_iter,
        "maxfun": 3 * max_iter,
        "maxcor": memory,
        "ftol": tolerance,
        "gtol": 1e-9,
        "maxls": 30,
    }
    search: Any = minimize  # its type stubs know no objective with a gradient
    result = search(finite, start, jac=True, method="L-BFGS-B", callback=count, options=options)
    if best is None:
        return Minimum(start, np.inf, done, False, "the loss is not finite at the start")
    if result.status == _AT_LIMIT:
        return Minimum(best, lowest, done, False, f"stopped after {done} iterations")
    return Minimum(best, lowest, done, True, "converged")
