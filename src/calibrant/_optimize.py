"""The optimisers: each returns a result that says how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq


@dataclass(frozen=True)
class ScalarResult:
    """A minimiser on an interval."""

    x: float
    converged: bool  # False where the interval's end is the best point
    message: str


def falling_then_rising(
    slope: Callable[[float], float], low: float, high: float, unit: str, start: float | None = None
) -> ScalarResult:
    """The minimiser of a function whose slope changes sign at most once: a bracketed root.

    From ``start`` the bracket grows in doubling steps, so that a root near it is found at once.
    """
    if start is None:
        left, right = low, high
    else:
        left, right = _around(slope, float(np.clip(start, low, high)), low, high)
    if left == low and slope(low) >= 0.0:
        return ScalarResult(low, False, f"the loss still falls at the smallest {unit}")
    if right == high and slope(high) <= 0.0:
        return ScalarResult(high, False, f"the loss still falls at the largest {unit}")
    return ScalarResult(float(brentq(slope, left, right, xtol=1e-12)), True, "converged")


def _around(
    slope: Callable[[float], float], start: float, low: float, high: float
) -> tuple[float, float]:
    """Two points with the root of a rising slope between them, or the interval's end."""
    direction = -1.0 if slope(start) > 0.0 else 1.0
    near, step = start, 0.5
    while True:
        far = float(np.clip(near + direction * step, low, high))
        if far in (low, high) or direction * slope(far) >= 0.0:
            return (near, far) if direction > 0.0 else (far, near)
        near, step = far, 2.0 * step


def best_of_scan(
    value: Callable[[float], float],
    slope: Callable[[float], float],
    low: float,
    high: float,
    unit: str,
    points: int = 25,
) -> ScalarResult:
    """The global minimiser of a smooth function of one variable: a scan, then a bracketed root."""
    grid = np.linspace(low, high, points)
    best = int(np.argmin([value(float(x)) for x in grid]))
    left, right = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, points - 1)])
    result = falling_then_rising(slope, left, right, unit)
    if result.converged or result.x in (low, high):
        return result
    return ScalarResult(float(grid[best]), True, "the loss is flat around its minimum")


def simplex_quadratic(
    matrix: NDArray[np.float64], vector: NDArray[np.float64]
) -> NDArray[np.float64]:
    """argmin w'Aw - 2b'w over the simplex, exactly: the best stationary point of all faces."""
    size = len(vector)
    best, best_value = np.eye(size)[0], np.inf
    for count in range(1, size + 1):
        for face in combinations(range(size), count):
            weights = _on_face(matrix, vector, face)
            if weights.min() < -1e-12:
                continue
            weights = np.clip(weights, 0.0, None)
            weights /= weights.sum()
            value = float(weights @ matrix @ weights - 2.0 * vector @ weights)
            if value < best_value - 1e-15:
                best, best_value = weights, value
    return best


def _on_face(
    matrix: NDArray[np.float64], vector: NDArray[np.float64], face: tuple[int, ...]
) -> NDArray[np.float64]:
    """The stationary point with support on a face, its weights summing to 1."""
    count = len(face)
    system = np.zeros((count + 1, count + 1))
    system[:count, :count] = matrix[np.ix_(face, face)]
    system[:count, count] = system[count, :count] = 1.0
    right = np.append(vector[list(face)], 1.0)
    solution = np.linalg.lstsq(system, right, rcond=None)[0]  # equal temperatures: singular
    weights = np.zeros(len(vector))
    weights[list(face)] = solution[:count]
    return weights


@dataclass(frozen=True)
class NewtonResult:
    """The best point that damped Newton steps found."""

    x: NDArray[np.float64]
    value: float
    iterations: int
    converged: bool
    message: str


def damped_newton(
    value: Callable[[NDArray[np.float64]], float],
    model: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]],
    start: NDArray[np.float64],
    *,
    iterations: int,
    tolerance: float,
    progress: Callable[[int, int], None] | None = None,
) -> NewtonResult:
    """Levenberg-Marquardt: ``model`` gives the gradient and a positive semi-definite Hessian.

    Every accepted step lowers ``value``, so the last point is the best one. Ends when a step gains
    less than ``tolerance`` of the value.
    """
    x, current, damping = start, value(start), 1e-3
    for iteration in range(iterations):
        if progress is not None:
            progress(iteration, iterations)
        gradient, hessian = model(x)
        step = _damped_step(value, x, current, gradient, hessian, damping)
        if step is None:
            return NewtonResult(x, current, iteration, True, "no step lowers the loss any more")
        x, lower, damping = step
        gain, current = current - lower, lower
        if gain < tolerance * max(abs(current), 1e-12):
            return NewtonResult(x, current, iteration + 1, True, "converged")
    return NewtonResult(x, current, iterations, False, f"stopped after {iterations} iterations")


def _damped_step(
    value: Callable[[NDArray[np.float64]], float],
    x: NDArray[np.float64],
    current: float,
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    damping: float,
) -> tuple[NDArray[np.float64], float, float] | None:
    """The next point, its value and damping; None where even the shortest step does not help."""
    diagonal = np.diag(hessian)
    scale = np.maximum(diagonal, 1e-6 * max(float(diagonal.max()), 1e-12))
    for _ in range(12):
        candidate = x - np.linalg.solve(hessian + np.diag(damping * scale), gradient)
        lower = value(candidate)
        if lower < current:
            return candidate, lower, max(damping / 3.0, 1e-9)
        damping *= 4.0
    return None


def as_info(result: Any) -> dict[str, Any]:
    """How an optimiser ended, for ``fit_info_``."""
    return {"converged": bool(result.converged), "message": str(result.message)}
