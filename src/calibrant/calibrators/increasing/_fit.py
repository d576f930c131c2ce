"""The fit of DIAG: full-batch L-BFGS whose cost per iteration does not grow with the classes.

m has one variable, so an even grid of nodes t_k holds all of it. Between nodes exp(m) is
interpolated, in the form exp(m(z) - z/T), which is flat near the start: for z between t_k and
t_k+1, u cells to the right of t_k, with cells of width h,

    exp(m(z)) = (1 - u) exp(u h / T) exp(m_k) + u exp((u - 1) h / T) exp(m_k+1),

positive always and exact for temperature scaling. A row's sum over its classes is then its row of
a fixed matrix, made once, times exp(m_k): two products with it are a loss and a gradient.

m is the integral from 0 to x of g(t) = ELU(network(t)) + 1 + 1e-8. An integration rule is a linear
map from values of g at points to values of m at nodes; its transpose takes derivatives back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant.calibrators import _network as network
from calibrant.calibrators._optimizers import Minimum, lbfgs
from calibrant.common.arrays import row_tiles
from calibrant.common.types import Floats, Report
from calibrant.data.rows import Rows
from calibrant.data.weights import shares, weighted_quantiles
from calibrant.formulas.increasing import FINEST

SMALLEST_GROWTH = 1e-8
GAUSS = 0.5 / np.sqrt(3.0)  # the two Gauss points of a cell lie so far from its middle
STEP = 0.1  # of the grid, in units of the temperature
FEWEST_CELLS, MOST_CELLS = 64, 1024
NARROWEST = 1e-30  # range of logits, in units of T, whose cells have a size even in float32
WIDEST = 600.0  # widest range of logits, in units of T, whose exponentials are numbers
NEGLIGIBLE = 40.0  # so many T below all tops, a class without a label weighs nothing
TINY = 1e-300
SPARSE = 4  # a sparse matrix wins where rows have fewer than nodes / SPARSE entries
MEMORY = 20
TOLERANCE = 1e-8
SPRINT = 60  # iterations after which the best start shows


# --- the integral of a network ---


def growth(raw: Floats) -> tuple[Floats, Floats]:
    """g and its derivative with respect to the network's output."""
    falling = np.exp(np.minimum(raw, 0.0))
    negative = raw < 0.0
    values = np.where(negative, falling, raw + 1.0) + SMALLEST_GROWTH
    return values, np.where(negative, falling, 1.0)


def output_for(growth_value: float) -> float:
    """The network's output at which g has a value."""
    above = growth_value - SMALLEST_GROWTH
    return float(above - 1.0 if above >= 1.0 else np.log(above))


class CumulativeRule:
    """Evenly spaced nodes; every cell is integrated once, by two Gauss points, and added up.

    A rule says at which ``points`` g is needed; ``integrate`` makes m at the nodes of its values
    there, up to a constant, and ``pull_back`` takes derivatives from m back to g.
    """

    def __init__(self, nodes: Floats) -> None:
        self.nodes, self.step = nodes, float(nodes[-1] - nodes[0]) / (len(nodes) - 1)
        middle, aside = 0.5 * (nodes[1:] + nodes[:-1]), GAUSS * self.step
        self.points = np.stack([middle - aside, middle + aside], axis=1).ravel()

    def integrate(self, values: Floats) -> Floats:
        cells = 0.5 * self.step * values.reshape(-1, 2).sum(axis=1)
        return np.concatenate([[0.0], np.cumsum(cells)])

    def pull_back(self, slopes: Floats) -> Floats:
        later = np.cumsum(slopes[:0:-1])[::-1]  # a cell moves all nodes to its right
        return np.repeat(0.5 * self.step * later, 2)


class ClenshawCurtisRule:
    """The authors' rule: every node by itself, from 0 to it, with so many intervals."""

    def __init__(self, nodes: Floats, intervals: int) -> None:
        self.nodes = nodes
        self.weights, cosines = clenshaw_curtis(intervals)
        self.points = np.outer(nodes, 0.5 * (1.0 + cosines)).ravel()

    def integrate(self, values: Floats) -> Floats:
        return 0.5 * self.nodes * (values.reshape(len(self.nodes), -1) @ self.weights)

    def pull_back(self, slopes: Floats) -> Floats:
        return np.outer(0.5 * self.nodes * slopes, self.weights).ravel()


def clenshaw_curtis(intervals: int) -> tuple[Floats, Floats]:
    """The authors' weights and nodes cos(k pi / S) on [-1, 1].

    w_k = c_k / S (1 - sum_j 2 cos(2 j k pi / S) / (4 j^2 - 1)), j = 1 .. S/2, with c_k = 2 but 1
    at the ends. The textbook's rule halves the last term of the sum; the authors' code does not.
    """
    k = np.arange(intervals + 1)
    j = np.arange(1, intervals // 2 + 1)
    ends = np.where((k == 0) | (k == intervals), 1.0, 2.0)
    cosines = np.cos(2.0 * np.pi / intervals * np.outer(k, j))
    weights = ends / intervals * (1.0 - cosines @ (2.0 / (4.0 * j**2 - 1.0)))
    return weights, np.cos(k * np.pi / intervals)


Rule = CumulativeRule | ClenshawCurtisRule


# --- the loss of values at nodes ---


class Grid:
    """The evenly spaced nodes."""

    def __init__(self, low: float, high: float, cells: int) -> None:
        self.low, self.high, self.cells = low, high, cells
        self.nodes = np.linspace(low, high, cells + 1)
        self.step = (high - low) / cells

    def place(self, logits: Floats) -> tuple[NDArray[np.intp], Floats]:
        """The cell of each logit and how far it lies in it (0 to 1); the ends take the rest."""
        inside = np.clip(logits, self.low, self.high)
        position = np.minimum((inside - self.low) / self.step, self.cells)
        cell = np.minimum(position.astype(np.intp), self.cells - 1)
        return cell, position - cell


def make_grid(data: Rows, temperature: float) -> Grid | None:
    """Nodes over all logits that matter; None where they span too little, or too much.

    The ends are float32 numbers, so that float32 logits find their places without rounding.
    """
    logits = data.logits
    tops = logits.max(axis=1)
    true = logits[np.arange(len(data)), data.labels]
    lowest = float(np.min(logits, where=np.isfinite(logits), initial=np.inf))
    low = max(lowest, min(float(tops.min()) - NEGLIGIBLE * temperature, float(true.min())))
    with np.errstate(over="ignore"):
        low, high = _float32_at_most(low), -_float32_at_most(-float(tops.max()))
        width = (high - low) / temperature
    if not NARROWEST <= width <= WIDEST or high - low <= FINEST * max(abs(low), abs(high)):
        return None
    cells = int(np.clip(np.ceil(width / STEP), FEWEST_CELLS, MOST_CELLS))
    return Grid(low, high, cells)


def _float32_at_most(value: float) -> float:
    """The largest float32 number that is not above a value."""
    nearest = np.float32(value)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return float(nearest if float(nearest) <= value else below)


class GridLoss:
    """The mean NLL as a function of m at the nodes."""

    def __init__(self, data: Rows, grid: Grid, temperature: float) -> None:
        self.share = shares(data.weight)
        self.size = grid.cells + 1
        self.sums = _sum_matrix(data, grid, temperature)
        cell, fraction = grid.place(data.logits[np.arange(len(data)), data.labels])
        self.label_cell = cell
        self.label_left, self.label_right = _weights(fraction, grid.step / temperature)

    def rows(self, m: Floats) -> tuple[Floats, ...]:
        """Losses, exp(m), its sums; of the label's value the right node's part, and all.

        Sums that underflow are raised to a tiny number, which overstates the loss: such an m is
        avoided. The label's own value is formed without exponentials that could.
        """
        peak = m.max()
        powers = np.exp(m - peak)
        totals = np.maximum(self.sums @ powers, TINY)
        left, right = m[self.label_cell], m[self.label_cell + 1]
        rise = self.label_right * np.exp(np.minimum(right - left, 700.0))
        label = self.label_left + rise
        losses = np.log(totals) + peak - left - np.log(label)
        return losses, powers, totals, rise, label

    def __call__(self, m: Floats) -> tuple[float, Floats]:
        """The loss and its gradient."""
        losses, powers, totals, rise, label = self.rows(m)
        gradient = ((self.share / totals) @ self.sums) * powers
        upper = self.share * rise / label
        gradient -= np.bincount(self.label_cell, self.share - upper, minlength=self.size)
        gradient -= np.bincount(self.label_cell + 1, upper, minlength=self.size)
        return float(self.share @ losses), gradient


def _weights(fraction: Floats, step: float) -> tuple[Floats, Floats]:
    """What the nodes left and right of a logit contribute to its exp(m)."""
    return (1.0 - fraction) * np.exp(fraction * step), fraction * np.exp((fraction - 1.0) * step)


def _sum_matrix(data: Rows, grid: Grid, temperature: float) -> Any:
    """(rows, nodes): dense, or sparse where a row has few classes beside the nodes."""
    logits, (rows, classes) = data.logits, data.logits.shape
    nodes = grid.cells + 1
    sparse = 2 * classes * SPARSE < nodes
    parts: list[Any] = []
    dense = np.empty((0, 0) if sparse else (rows, nodes))
    for tile in row_tiles(logits):
        finite = np.isfinite(logits[tile])
        cell, fraction = grid.place(logits[tile][finite])
        left, right = _weights(fraction, grid.step / temperature)
        row = np.repeat(np.arange(len(finite)), finite.sum(axis=1))
        if sparse:
            parts.append((row + tile.start, cell, left, right))
            continue
        place = row * nodes + cell
        length = len(finite) * nodes
        sums = np.bincount(place, left, minlength=length)
        sums += np.bincount(place + 1, right, minlength=length)
        dense[tile] = sums.reshape(-1, nodes)
    if not sparse:
        return dense
    row, cell, left, right = (np.concatenate(part) for part in zip(*parts, strict=True))
    entries = np.concatenate([left, right])
    where = (np.concatenate([row, row]), np.concatenate([cell, cell + 1]))
    return csr_array((entries, where), shape=(rows, nodes))


class NetworkLoss:
    """The loss as a function of the network's flat weights, with a penalty on its kernels."""

    def __init__(
        self,
        loss: GridLoss,
        rule: Rule,
        hidden: Sequence[int],
        penalty: float = 0.0,
        centre: float = 0.0,
        spread: float = 1.0,
    ) -> None:
        self.loss, self.rule = loss, rule
        self.sizes = network.layer_sizes(1, hidden)
        self.penalty = np.where(network.kernel_mask(self.sizes), penalty, 0.0)
        self.inputs = ((rule.points - centre) / spread)[:, None]

    def __call__(self, flat: Floats) -> tuple[float, Floats]:
        weights = network.unflatten(flat, self.sizes)
        with np.errstate(all="ignore"):  # what is not finite, the optimiser steps back from
            raw, layers = network.forward_all(weights, self.inputs)
            values, slope = growth(raw)
            value, by_node = self.loss(self.rule.integrate(values))
            signal = self.rule.pull_back(by_node) * slope
            gradient = network.gradient(weights, layers, signal)
        pulled = self.penalty * flat
        return value + 0.5 * float(pulled @ flat), gradient + pulled


class DiagStart:
    """What the starts share: the inputs' standardisation and where the network may bend."""

    def __init__(self, data: Rows, grid: Grid, temperature: float) -> None:
        deciding = deciding_logits(data)
        finite = np.isfinite(deciding)
        self.temperature = temperature
        self.bend_weight = np.broadcast_to(data.weight[:, None], deciding.shape)[finite]
        bends, share = deciding[finite].clip(grid.low, grid.high), shares(self.bend_weight)
        self.centre = float(share @ bends)
        deviation = float(np.sqrt(share @ (bends - self.centre) ** 2))
        self.spread = max(deviation, 1e-3 * temperature)
        self.bends = (bends - self.centre) / self.spread  # the logits that decide, standardised

    def draw(self, sizes: Sequence[tuple[int, int]], rng: np.random.Generator) -> Floats:
        """Weights whose m is temperature scaling, with hidden units ready to bend it."""
        weights = network.glorot(sizes, rng)
        width = len(weights[1])
        sign = np.where(rng.permutation(width) % 2, 1.0, -1.0)
        weights[0][0] = sign * rng.uniform(0.5, 1.5, width)
        order = (rng.permutation(width) + 0.5) / width
        places = weighted_quantiles(self.bends, self.bend_weight, order)
        weights[1][:] = -weights[0][0] * places
        weights[-2][:] = 0.0
        weights[-1][:] = output_for(1.0 / self.temperature)
        return network.flatten(weights)


def deciding_logits(data: Rows) -> Floats:
    """Of each row the largest two and the label's."""
    true = data.logits[np.arange(len(data)), data.labels]
    return np.column_stack([np.partition(data.logits, -2, axis=1)[:, -2:], true])


def fit_network(
    objective: NetworkLoss,
    start: DiagStart,
    *,
    starts: int,
    max_iter: int,
    rng: np.random.Generator,
    report: Report,
) -> tuple[network.Weights, Minimum]:
    """The weights for raw logits, and how the fit ended.

    Of several starts, each run for a sprint, the best one goes on to the end.
    """
    whole = starts * SPRINT + max_iter

    def run(begin: Floats, allowed: int, done: int) -> Minimum:
        return lbfgs(
            objective,
            begin,
            max_iter=allowed,
            tolerance=TOLERANCE,
            memory=MEMORY,
            progress=lambda now, _: report(done + now, whole),
        )

    sprints = [run(start.draw(objective.sizes, rng), SPRINT, i * SPRINT) for i in range(starts)]
    best = min(sprints, key=lambda sprint: sprint.value)
    if np.isfinite(best.value):
        best = run(best.x, max_iter, starts * SPRINT)
    weights = network.unflatten(best.x.copy(), objective.sizes)
    weights[1] -= weights[0][0] * (start.centre / start.spread)
    weights[0] /= start.spread
    return weights, best
