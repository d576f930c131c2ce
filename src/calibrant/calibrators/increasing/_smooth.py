"""A smooth increasing map of all logits, with its penalty chosen by held-out rows.

The logarithm of m's slope is linear between a few knots and constant beyond them:

    m'(x) = exp(s(x)),  s(knot_j) = theta_j,

so m increases whatever theta is, and equal theta are temperature scaling. The mean NLL plus a pull
of neighbouring theta towards each other is minimised by damped Newton steps along a path of
falling pulls, each from the last one's solution. What a row's loss had been without the row
follows from the same Newton model: it grows by g_i' H^-1 g_i / n, g_i being the row's gradient and
H the Hessian. A dozen parameters need neither random starts nor many rows.

The sums over the classes are those of DIAG's fit (``_fit.GridLoss``): one matrix, made once, so
that a step costs the same however many classes there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from calibrant.calibrators._best_temperature import Start
from calibrant.calibrators._choosing import (
    Sample,
    sample_of_logits,
    sampled,
    simplest_of_the_best,
)
from calibrant.calibrators._optimizers import damped_newton
from calibrant.calibrators.increasing._fit import Grid, GridLoss, deciding_logits, make_grid
from calibrant.common.types import Floats
from calibrant.data.rows import Rows
from calibrant.data.weights import copies, weighted_quantiles
from calibrant.formulas import IncreasingTable

PULLS = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0)  # in rows: a prior that weighs as much as these
# Weaker pulls than this over the number of rows are not tried; one of ALWAYS rows always is.
WEAKEST, ALWAYS = 750.0, 10.0
NEAREST = 1e-9  # knots, as a share of their range: between nearer ones a slope has no meaning
PATIENCE = 0.25  # standard errors that a stronger pull may be worse by and still be taken
DEFAULT_KNOTS = 16
MAP_SAMPLES = 5  # times the rows that choose the pull are enough to fit the map
TABLE_CELLS = 4096
MAX_ITER, TOLERANCE = 25, 1e-7


@dataclass(frozen=True)
class SmoothMap:
    """The chosen map, what leaving a row out adds to its NLL, and the path."""

    formula: IncreasingTable | None  # None where temperature scaling is as good
    optimism: Floats | float  # what leaving a row out adds to its NLL
    details: dict[str, Any]


def fit_smooth_map(data: Rows, start: Start, knots: int, sample: Sample | None) -> SmoothMap:
    """The smooth map of labelled logits; ``start`` is their temperature scaling.

    The rows of the sample choose the pull; some more rows, where there are, then move the map.
    """
    few = sampled(data, sample)
    if sample is None:
        return _fit(few, start, knots)
    return _fit(few, start, knots, sampled(data, sample_of_logits(data, MAP_SAMPLES)))


def _fit(data: Rows, start: Start, knots: int, more: Rows | None = None) -> SmoothMap:
    rows = data if more is None else more
    grid = make_grid(rows, start.temperature)
    places = None if grid is None else _knots(rows, grid, knots)
    if grid is None or places is None or len(places) < 3 or not start.converged:
        return SmoothMap(None, 0.0, {"choice": "temperature scaling", "path": []})
    loss = GridLoss(data, grid, start.temperature)
    problem = _CurveLoss(loss, grid, places)
    theta, names, held_out = problem.path(-np.log(start.temperature), data)
    choice, path = simplest_of_the_best(names, held_out, data.weight, PATIENCE)
    details = {"choice": names[choice], "path": path}
    if choice == 0:
        return SmoothMap(None, 0.0, details)
    chosen = theta[choice]
    if more is not None:
        loss = GridLoss(more, grid, start.temperature)
        pull = PULLS[choice - 1] / more.effective_rows
        chosen = _CurveLoss(loss, grid, places).solved(chosen, pull)
    fine = Grid(grid.low, grid.high, TABLE_CELLS)
    slopes = np.exp(np.interp(0.5 * (fine.nodes[1:] + fine.nodes[:-1]), places, chosen))
    table = np.append(0.0, np.cumsum(slopes * fine.step))
    optimism = held_out[choice] - problem.rows(theta[choice])[0]
    formula = IncreasingTable(grid.low, grid.high, table - table[-1], 1.0 / start.temperature)
    return SmoothMap(formula, optimism, details)


class _CurveLoss:
    """The mean NLL as a function of the log slopes at the knots."""

    def __init__(self, loss: GridLoss, grid: Grid, knots: Floats) -> None:
        self.loss, self.step = loss, grid.step
        middle = 0.5 * (grid.nodes[1:] + grid.nodes[:-1])
        # piecewise linear functions that are 1 at one knot and 0 at all others
        hats = [np.interp(middle, knots, unit) for unit in np.eye(len(knots))]
        self.hats = np.stack(hats, axis=1)
        rise = np.diff(np.eye(len(knots)), axis=0)
        self.roughness = (rise.T / (np.diff(knots) / np.ptp(knots))) @ rise

    def curve(self, theta: Floats) -> tuple[Floats, Floats]:
        """m at the nodes, and its Jacobian in theta."""
        rises = np.exp(self.hats @ theta) * self.step
        by_knot = np.cumsum(rises[:, None] * self.hats, axis=0)
        none = np.zeros((1, len(theta)))
        return np.append(0.0, np.cumsum(rises)), np.concatenate([none, by_knot])

    def at(self, theta: Floats, pull: Floats) -> tuple[float, Callable[[], tuple[Floats, Floats]]]:
        """The penalised loss; and how to get its gradient, and Hessian without m's curvature."""

        def model() -> tuple[Floats, Floats]:
            _, gradients, hessian = self.rows(theta)
            return self.loss.share @ gradients + pull @ theta, hessian + pull

        losses = self.loss.rows(self.curve(theta)[0])[0]
        return float(self.loss.share @ losses) + 0.5 * float(theta @ pull @ theta), model

    def rows(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """The loss and the gradient of every row, and the mean's Hessian."""
        share = self.loss.share
        m, jacobian = self.curve(theta)
        losses, powers, totals, rise, of_label = self.loss.rows(m)
        expected = (self.loss.sums @ (powers[:, None] * jacobian)) / totals[:, None]
        cell = self.loss.label_cell
        step = jacobian[cell + 1] - jacobian[cell]
        label = jacobian[cell] + (rise / of_label)[:, None] * step
        mass = ((share / totals) @ self.loss.sums) * powers  # of all probability, at each node
        hessian = (jacobian.T * mass) @ jacobian - (expected.T * share) @ expected
        return losses, expected - label, hessian

    def path(self, scaling: float, data: Rows) -> tuple[list[Floats], list[str], list[Floats]]:
        """Solutions, names and held-out losses: temperature scaling, then falling pulls."""
        rows = data.effective_rows
        copy_share = self.loss.share / copies(data.weight)
        theta = np.full(self.hats.shape[1], scaling)
        solutions, names = [theta], ["temperature scaling"]
        held_out = [self._held_out(theta, np.zeros_like(self.roughness), copy_share, rigid=True)]
        for pull in PULLS:
            if pull < min(WEAKEST / rows, ALWAYS):
                continue
            theta = self.solved(theta, pull / rows)
            solutions.append(theta)
            names.append(f"pull of {pull:g} rows")
            held_out.append(self._held_out(theta, self.roughness * (pull / rows), copy_share))
        return solutions, names, held_out

    def solved(self, theta: Floats, pull: float) -> Floats:
        """The solution at a pull, from another one's."""
        at = partial(self.at, pull=self.roughness * pull)
        with np.errstate(all="ignore"):  # what is not finite, the optimiser steps back from
            return damped_newton(at, theta, max_iter=MAX_ITER, tolerance=TOLERANCE).x

    def _held_out(
        self, theta: Floats, pull: Floats, copy_share: Floats, rigid: bool = False
    ) -> Floats:
        """The loss of each row had it not been fitted on; ``rigid``: all theta move as one."""
        losses, gradients, hessian = self.rows(theta)
        if rigid:
            gradients, hessian = gradients.sum(axis=1)[:, None], np.array([[hessian.sum()]])
            pull = np.zeros((1, 1))
        inverse = np.linalg.pinv(hessian + pull, hermitian=True)
        return np.asarray(losses + copy_share * np.vecdot(gradients @ inverse, gradients))


def _knots(data: Rows, grid: Grid, count: int) -> Floats:
    """Quantiles of logits: half of those that decide (labels and top two), half of all."""
    deciding = deciding_logits(data)
    every = data.logits[:, :: max(1, data.n_classes // deciding.shape[1])]
    pool = np.concatenate([deciding, every], axis=1)
    seen = pool >= grid.low
    pool_weight = np.broadcast_to(data.weight[:, None], pool.shape)[seen]
    places = np.linspace(0.005, 0.995, count)
    knots = np.unique(weighted_quantiles(pool[seen], pool_weight, places))
    apart = np.append(True, np.diff(knots) > NEAREST * np.ptp(knots))
    return np.asarray(knots[apart], np.float64)
