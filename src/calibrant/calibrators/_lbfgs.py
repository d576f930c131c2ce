"""Full-batch L-BFGS (SciPy's) for the fits with analytic gradients: keeps the best point it saw."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

Progress = Callable[[int, int], None]  # (iterations done, iterations allowed)
Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]

FORBIDDEN = 1e30  # stands for a value that is not finite, so that the line search steps back
_AT_LIMIT = 1  # SciPy's status for "iterations or evaluations used up"


def one_thread(unless: bool = False) -> Any:
    """A context in which matrix products use one thread, unless they are large.

    Threads that wait for each other over small ones cost far more than they save, and one thread
    rounds the same way on every machine.
    """
    return nullcontext() if unless else threadpool_limits(limits=1, user_api="blas")


@dataclass(frozen=True)
class Minimum:
    """The best point of a run, and how the run ended."""

    x: NDArray[np.float64]
    value: float
    iterations: int
    converged: bool
    message: str


class _BestSoFar:
    """The objective as SciPy calls it: finite always, and it remembers its lowest point."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.value = np.inf
        self.x: NDArray[np.float64] | None = None

    def __call__(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = self.objective(x)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return FORBIDDEN, np.zeros_like(x)
        if value < self.value:
            self.value, self.x = value, x.copy()
        return value, gradient


def lbfgs(
    objective: Objective,
    start: NDArray[np.float64],
    *,
    iterations: int,
    tolerance: float,
    memory: int = 10,
    progress: Progress | None = None,
) -> Minimum:
    """Minimise from ``start``; never ends above it.

    Ends when one iteration gains less than ``tolerance`` (of the value, or absolutely below 1).
    A line search that finds no lower point means that rounding is all that is left to win.
    """
    seen = _BestSoFar(objective)
    done = 0

    def count(_: NDArray[np.float64]) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, iterations)

    options = {
        "maxiter": iterations,
        "maxfun": 3 * iterations,
        "maxcor": memory,
        "ftol": tolerance,
        "gtol": 1e-9,
        "maxls": 30,
    }
    search: Any = minimize  # its type stubs know no objective that is an object
    result = search(seen, start, jac=True, method="L-BFGS-B", callback=count, options=options)
    if seen.x is None:
        return Minimum(start, np.inf, done, False, "the loss is not finite at the start")
    if result.status == _AT_LIMIT:
        message = f"stopped after {done} iterations"
        return Minimum(seen.x, seen.value, done, False, message)
    return Minimum(seen.x, seen.value, done, True, "converged")
