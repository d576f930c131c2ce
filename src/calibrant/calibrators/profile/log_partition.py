"""A row's log-partition function: the numerics under ``TemperatureProfile``.

Write ``b = 1/T`` and, for a row of logits ``z`` with maximum ``m``, gaps ``d = z - m <= 0``. Then

    psi(b) = log sum_c exp(b d_c)

holds everything that any temperature does to that row (ARCHITECTURE.md lists the identities).
psi is smooth and convex and falls from ``log(finite classes)`` to ``log(ties)``. Two summaries of
a row live here, with the same ``psi`` method:

- ``GapRows`` keeps the gaps themselves: exact, and the smaller one while there are few classes;
- ``NodeRows`` keeps psi and its first two derivatives with respect to ``log b`` on a geometric
  grid, joined by quintic Hermite pieces: a fixed size, however many classes there are.

The grid has ``NODES_PER_OCTAVE`` nodes per octave, so ``exp(2 b d) = exp(b d)^2`` gives every
second octave for one multiplication. Outside the grid psi goes over into its exact limits.
All derivatives here are with respect to ``log b``: they stay bounded for any ``b``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from calibrant.common.arrays import to_numpy
from calibrant.common.types import Array, Floats

Index = NDArray[np.intp]

NODES_PER_OCTAVE = 4
OCTAVES = 11
NODES = NODES_PER_OCTAVE * OCTAVES + 1
B_MAX = 40.0  # the Brier score at T = 0.05 needs psi(2 b) there
B_MIN = B_MAX / 2.0**OCTAVES  # T = 51.2
FEW_CLASSES = 16  # up to here sums over the classes of each row are the slower way round
STEP = float(np.log(2.0)) / NODES_PER_OCTAVE
GRID: NDArray[np.float64] = B_MIN * np.exp2(np.arange(NODES) / NODES_PER_OCTAVE)

_OCTAVE_BLOCKS = OCTAVES + 1  # the last one for its first node alone

# exp(-43.5)^2 is still a normal float32 number: arithmetic on denormal ones is many times slower,
# and what is left out is below 1e-18 of a row's sum.
_DEEPEST_EXPONENT = -43.5
# exp(B_MIN d) is 0 in float32 below this gap, which also keeps d^2 from overflowing.
NEGLIGIBLE_GAP = -6000.0
# The same for rows of gaps: with the largest b of all, 1e12, its product is finite.
_DEEPEST_ROW_GAP = np.float32(-1e25)
# Stands for -inf where 0 * inf must not arise: its exp is 0, and its square does not overflow.
_MASKED = -1e140


class Psi(NamedTuple):
    """psi and its first two derivatives with respect to log b, one value per row."""

    value: Floats
    slope: Floats
    curvature: Floats


class PsiPair(NamedTuple):
    """psi and its slope at b and at 2 b: all that the slope of the Brier score needs."""

    value: Floats
    slope: Floats
    value_at_double: Floats
    slope_at_double: Floats


# --- building ---------------------------------------------------------------------------------


class Workspace:
    """Scratch memory of one thread for ``tabulate_tile``; node-major, so that every array
    operation is one long contiguous run that lets other threads go on."""

    def __init__(self, rows: int, classes: int) -> None:
        self.powers = np.ones((3, rows, classes), np.float32)
        self.exponentials = np.empty((2 * NODES_PER_OCTAVE, rows, classes), np.float32)


def tabulate_tile(gaps: NDArray[np.float32], work: Workspace) -> NDArray[np.float32]:
    """(rows, NODES, 3) table of a NumPy tile of float32 gaps."""
    rows = gaps.shape[0]
    powers, exponentials = work.powers[:, :rows], work.exponentials[:, :rows]
    gaps = np.maximum(gaps, NEGLIGIBLE_GAP, out=powers[1])
    np.square(gaps, out=powers[2])
    deepest = float(gaps.min())
    sums = np.empty((rows, _OCTAVE_BLOCKS * NODES_PER_OCTAVE, 3), np.float32)
    for octave in range(0, _OCTAVE_BLOCKS, 2):
        for node in range(NODES_PER_OCTAVE):
            b = GRID[node] * 2.0**octave
            block = np.multiply(gaps, np.float32(b), out=exponentials[node])
            if deepest * b < _DEEPEST_EXPONENT:
                np.maximum(block, _DEEPEST_EXPONENT, out=block)
            np.exp(block, out=block)
            np.square(block, out=exponentials[NODES_PER_OCTAVE + node])
        nodes = slice(octave * NODES_PER_OCTAVE, (octave + 2) * NODES_PER_OCTAVE)
        np.matmul(exponentials.transpose(1, 0, 2), powers.transpose(1, 2, 0), out=sums[:, nodes])
    return _nodes_from_sums(sums[:, :NODES], GRID.astype(np.float32), np)


def tabulate(gaps: Array, xp: Any) -> Array:
    """The same table in any array namespace, for arrays that live on an accelerator."""
    gaps = xp.clip(gaps, min=NEGLIGIBLE_GAP)
    columns = xp.stack([xp.ones_like(gaps), gaps, gaps * gaps], axis=2)
    grid = xp.asarray(GRID.astype(np.float32), device=gaps.device)
    blocks = []
    for octave in range(0, _OCTAVE_BLOCKS, 2):
        exponents = gaps[:, None, :] * (grid[:NODES_PER_OCTAVE, None] * 2.0**octave)
        exponentials = xp.exp(xp.clip(exponents, min=_DEEPEST_EXPONENT))
        blocks.append(xp.matmul(exponentials, columns))
        blocks.append(xp.matmul(exponentials * exponentials, columns))
    return _nodes_from_sums(xp.concat(blocks, axis=1)[:, :NODES, :], grid, xp)


def _nodes_from_sums(sums: Array, grid: Array, xp: Any) -> Array:
    mean = sums[..., 1] / sums[..., 0]
    variance = sums[..., 2] / sums[..., 0] - mean * mean
    slope = grid * mean
    return xp.stack([xp.log(sums[..., 0]), slope, slope + grid * grid * variance], axis=2)


# --- reading ----------------------------------------------------------------------------------


def _hermite_matrix() -> NDArray[np.float64]:
    """Maps (f0, f0', f0'', f1, f1', f1'') on a unit interval to the coefficients 1, t, .., t^5."""
    powers = np.arange(6)
    conditions = np.zeros((6, 6))
    for derivative in range(3):
        falling = np.prod([powers - i for i in range(derivative)], axis=0) if derivative else 1.0
        conditions[derivative, derivative] = np.prod(np.arange(1, derivative + 1))
        conditions[3 + derivative] = falling
    unit = np.tile(STEP ** np.arange(3), 2)  # derivatives per log b -> per step of the grid
    return np.asarray(np.linalg.inv(conditions) * unit).T.copy()


# Where the numbers of two neighbouring nodes lie, and those of the two an octave above.
_OCTAVE = np.add.outer([0, 3 * NODES_PER_OCTAVE], np.arange(6)).ravel()
HERMITE = _hermite_matrix()
HERMITE_SLOPE = HERMITE[:, 1:] * np.arange(1.0, 6.0) / STEP


@np.errstate(invalid="ignore")  # BLAS may raise the flag for lanes that it does not use
def _psi_of_powers(exponent: Floats, power: Floats) -> Psi:
    """psi of class-major exponents and their exponentials, which are used up."""
    ones = np.ones(len(exponent))  # BLAS sums faster than NumPy where the first axis is short
    total = ones @ power
    power *= exponent
    mean = (ones @ power) / total
    power *= exponent
    second = (ones @ power) / total
    return Psi(np.log(total), mean, mean + second - mean * mean)


@dataclass(frozen=True)
class GapRows:
    """Every gap of every row: exact. Class-major, so that sums over classes are long runs."""

    gaps: NDArray[np.float32]  # (classes, rows), largest first; masked classes are -inf, last

    def psi(self, b: Floats, index: Index) -> Psi:
        """psi of the rows in ``index`` at one ``b`` each."""
        return _psi_of_powers(*self._powers(b, index))

    def psi_both(self, b: Floats, index: Index) -> tuple[Psi, Psi]:
        """psi at b and at 2 b: exp(2 b d) is the square of exp(b d)."""
        exponent, power = self._powers(b, index)
        double = power * power
        one = _psi_of_powers(exponent, power)
        exponent *= 2.0
        return one, _psi_of_powers(exponent, double)

    @np.errstate(invalid="ignore")
    def psi_pair(self, b: Floats, index: Index) -> PsiPair:
        """psi and its slope at b and 2 b, for hardly more than the cost of one of them."""
        if len(self.gaps) > FEW_CLASSES:  # in float32, the precision of the nodes of more classes
            gaps = self.by_row.take(index, axis=0)
            gaps *= b.astype(np.float32)[:, None]
            weight, each = np.exp(gaps), np.ones(gaps.shape[1], np.float32)
            total, first = (weight @ each).astype(np.float64), np.vecdot(weight, gaps)
            np.square(weight, out=weight)
            twice, second = (weight @ each).astype(np.float64), np.vecdot(weight, gaps)
            return PsiPair(np.log(total), first / total, np.log(twice), 2.0 * second / twice)
        exponent, power = self._powers(b, index)
        double, ones = power * power, np.ones(len(exponent))
        total, double_total = ones @ power, ones @ double
        power *= exponent
        double *= exponent
        return PsiPair(
            np.log(total),
            (ones @ power) / total,
            np.log(double_total),
            2.0 * (ones @ double) / double_total,
        )

    @cached_property
    def by_row(self) -> NDArray[np.float32]:
        """The gaps row by row, from which rows are gathered faster; no product is infinite."""
        return np.maximum(self.gaps.T, _DEEPEST_ROW_GAP, order="C")

    def _powers(self, b: Floats, index: Index) -> tuple[Floats, Floats]:
        """b d and exp(b d), class-major."""
        exponent = self.gaps.take(index, axis=1).astype(np.float64)
        np.maximum(exponent, _MASKED, out=exponent)
        exponent *= b
        return exponent, np.exp(exponent)

    def take(self, index: Index) -> GapRows:
        return GapRows(self.gaps[:, index])


@dataclass(frozen=True)
class NodeRows:
    """psi at the nodes of the grid, and what its limits beyond the grid are made of."""

    nodes: NDArray[np.float32]  # (rows, NODES, 3)
    top: NDArray[np.float32]  # (rows, k): the largest gaps, in decreasing order
    finite: NDArray[np.int32]  # (rows,) classes whose logit is finite
    ties: NDArray[np.int32]  # (rows,) classes whose gap is 0
    mean: NDArray[np.float32]  # (rows,) mean of the finite gaps

    def psi(self, b: Floats, index: Index) -> Psi:
        """psi of the rows in ``index`` at one ``b`` each."""
        position = (np.log(b) - np.log(B_MIN)) / STEP
        result = self._interpolate(np.clip(position, 0.0, NODES - 1.0), index)
        for outside, limit in ((position < 0.0, _small_b), (position > NODES - 1.0, _large_b)):
            if outside.any():
                where = np.flatnonzero(outside)
                part = limit(self.take(index[where]), b[where])
                for whole, values in zip(result, part, strict=True):
                    whole[where] = values
        return result

    def psi_both(self, b: Floats, index: Index) -> tuple[Psi, Psi]:
        """psi at b and at 2 b."""
        both = self.psi(np.concatenate([b, 2.0 * b]), np.concatenate([index, index]))
        return Psi(*(part[: len(b)] for part in both)), Psi(*(part[len(b) :] for part in both))

    def psi_pair(self, b: Floats, index: Index) -> PsiPair:
        """psi and its slope at b and 2 b: the same place in two intervals, an octave apart."""
        position = (np.log(b) - np.log(B_MIN)) / STEP
        left = np.clip(position.astype(np.intp), 0, NODES - 2 - NODES_PER_OCTAVE)
        t = position - left
        powers = np.ones((6, len(t)))
        for degree in range(1, 6):
            np.multiply(powers[degree - 1], t, out=powers[degree])
        shares = HERMITE @ powers, HERMITE_SLOPE @ powers[:5]
        places = _OCTAVE[:, None] + 3 * (index * NODES + left)
        nodes = self.nodes.reshape(-1).take(places).astype(np.float64)
        both = nodes[:6], nodes[6:]
        result = PsiPair(*(np.einsum("ij,ij->j", part, of) for part in both for of in shares))
        _keep_falling(result[0], result[1])
        _keep_falling(result[2], result[3])
        outside = (t < 0.0) | (t > 1.0)
        if outside.any():
            where = np.flatnonzero(outside)
            one, two = (self.psi(times * b[where], index[where]) for times in (1.0, 2.0))
            exact = (one.value, one.slope, two.value, two.slope)
            for whole, values in zip(result, exact, strict=True):
                whole[where] = values
        return result

    @cached_property
    def _pairs(self) -> NDArray[np.float32]:
        """A sliding window over consecutive nodes: a gather of it takes six neighbours per row."""
        floats = self.nodes.reshape(-1)
        return as_strided(
            floats, (max(floats.size // 3 - 1, 0), 6), (3 * floats.itemsize, floats.itemsize)
        )

    def _interpolate(self, position: Floats, index: Index) -> Psi:
        left = np.minimum(position.astype(np.intp), NODES - 2)
        t = position - left
        window = self._pairs[index * NODES + left]
        c0, c1, c2, c3, c4, c5 = np.ascontiguousarray((window.astype(np.float64) @ HERMITE).T)
        value = ((((c5 * t + c4) * t + c3) * t + c2) * t + c1) * t + c0
        slope = (((5 * c5 * t + 4 * c4) * t + 3 * c3) * t + 2 * c2) * t + c1
        curvature = ((20 * c5 * t + 12 * c4) * t + 6 * c3) * t + 2 * c2
        _keep_falling(value, slope)
        return Psi(value, slope / STEP, curvature / STEP**2)

    def take(self, index: Index) -> NodeRows:
        return NodeRows(
            self.nodes[index],
            self.top[index],
            self.finite[index],
            self.ties[index],
            self.mean[index],
        )

    def at_node(self, node: int) -> Psi:
        value, slope, curvature = self.nodes[:, node].T.astype(np.float64)
        return Psi(value, slope, curvature)


def _keep_falling(value: Floats, slope: Floats) -> None:
    """Psi falls to 0; where it is almost there, a quintic piece may pass it by some 1e-6."""
    np.maximum(value, 0.0, out=value)
    np.minimum(slope, 0.0, out=slope)


def _small_b(rows: NodeRows, b: Floats) -> Psi:
    """Between b = 0 (psi = log n, slope = mean gap: exact) and the first node.

    A monotone rational quadratic: like psi it only falls, whatever the size of the logits.
    """
    first = rows.at_node(0)
    start = np.log(rows.finite)
    # over the unit interval t = b / B_MIN
    at_end = np.minimum(first.slope, -1e-30)
    at_start = np.minimum(rows.mean * B_MIN, at_end)
    # narrow rows: the difference of two values drowns in float32's rounding, the slopes do not
    chord = np.clip(first.value - start, at_start, at_end)
    t = b / B_MIN
    bend = at_start + at_end - 2.0 * chord
    top = chord * t * t + at_start * t * (1.0 - t)
    top1 = 2.0 * chord * t + at_start * (1.0 - 2.0 * t)
    top2 = 2.0 * (chord - at_start)
    low = chord + bend * t * (1.0 - t)
    low1 = bend * (1.0 - 2.0 * t)
    low2 = -2.0 * bend
    wronskian = top1 * low - top * low1
    slope = chord * wronskian / low**2
    curvature = chord * ((top2 * low - top * low2) / low**2 - 2.0 * low1 * wronskian / low**3)
    return Psi(start + chord * top / low, t * slope, t * slope + t * t * curvature)


def _large_b(rows: NodeRows, b: Floats) -> Psi:
    """Beyond the last node: the stored top gaps exactly, the rest as a Gamma law of gaps.

    The rest matters only where more classes than are stored lie within 1/40 of the top one. No gap
    of it is smaller than f, the last stored one, so its sum is modelled by

        R exp(-(b - B_MAX) f) (1 + (b - B_MAX) v/g)^(-g^2/v),

    the Laplace transform of f plus a Gamma distribution, f + g being the mean gap and v the
    variance that the last node shows. Where ties leave f = 0, v is kept below g^2, for a wider law
    falls too slowly to reach the limit.
    """
    last = rows.at_node(NODES - 1)
    edge = np.full(len(b), B_MAX)
    total = np.exp(last.value)
    whole = total, total * last.slope, total * (last.curvature + last.slope**2)
    rest = [a - c for a, c in zip(whole, _top_sums(rows, edge), strict=True)]
    amount = np.where(rest[0] > 1e-5 * total, rest[0], 0.0)
    safe = np.where(amount > 0.0, amount, 1.0)
    floor = -rows.top[:, -1].astype(np.float64)
    mean = -rest[1] / safe / B_MAX
    gap = np.maximum(mean - floor, 1e-8)
    widest = np.where(floor > 0.0, np.inf, gap**2)
    variance = np.clip((rest[2] - rest[1]) / safe / B_MAX**2 - mean**2, 1e-4 * gap**2, widest)
    ratio = variance / gap
    reach = 1.0 + (b - B_MAX) * ratio
    decay = b * (floor + gap / reach)  # minus the slope of log R
    r0 = amount * np.exp(-(b - B_MAX) * floor) * reach ** -(gap / ratio)
    r1 = -r0 * decay
    r2 = r0 * (decay**2 - decay + b**2 * gap * ratio / reach**2)
    s0, s1, s2 = (near + far for near, far in zip(_top_sums(rows, b), (r0, r1, r2), strict=True))
    slope = s1 / s0
    return Psi(np.log(s0), slope, s2 / s0 - slope**2)


def _top_sums(rows: NodeRows, b: Floats) -> tuple[Floats, Floats, Floats]:
    """The stored classes' share of exp(psi) and its derivatives, ties beyond them included."""
    k = rows.top.shape[1]
    exponent = b[:, None] * rows.top.astype(np.float64)
    stored = np.arange(k) < np.minimum(rows.finite, k)[:, None]  # the rest is padding
    weight = np.where(stored, np.exp(exponent), 0.0)
    exponent[weight == 0.0] = 0.0
    first = np.vecdot(weight, exponent)
    unstored_ties = np.maximum(rows.ties - k, 0)
    return weight.sum(axis=1) + unstored_ties, first, first + np.vecdot(weight, exponent**2)


def joined(parts: Sequence[GapRows | NodeRows]) -> GapRows | NodeRows:
    """The rows of all parts, in order and in main memory."""
    first = parts[0]
    axis = 1 if isinstance(first, GapRows) else 0
    columns = [[to_numpy(getattr(part, f.name)) for part in parts] for f in fields(first)]
    return type(first)(*(c[0] if len(c) == 1 else np.concatenate(c, axis) for c in columns))
