"""Squared kernel calibration error (Widmann et al. 2019, 2021): all classes at once, no bins.

For two rows h = k(q, q') <e_y - q, e_y' - q'>, whose mean over independent rows is 0 if and only if
the model is calibrated. Averaging h over all pairs within blocks of fixed size is unbiased, costs
time linear in the rows, and gives independent block values: hence a test with a normal limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.special import ndtr

from calibrant._arrays import Array, RowRule, like, to_numpy
from calibrant.metrics._door import Floats, Labelled, Seed, labelled

Kernel = Literal["exponential", "total-variation", "gaussian"]
Estimator = Literal["blocks", "unbiased", "biased"]

_LARGEST_BLOCK = 16  # larger blocks have fewer, more skewed values: the normal limit comes later
_FEWEST_BLOCKS = 50
_MEDIAN_ROWS = 1000  # the median distance is taken over the pairs of so many rows
_TILE = 4_000_000  # elements of a temporary


@dataclass(frozen=True)
class SKCETest:
    """The test of "calibrated" by the squared kernel calibration error."""

    skce: float
    z: float
    p_value: float
    block_size: int
    bandwidth: float


def skce(
    probs: Any,
    labels: Any,
    *,
    estimator: Estimator = "blocks",
    kernel: Kernel = "exponential",
    bandwidth: float | None = None,
    block_size: int | None = None,
    seed: Seed = 0,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> float:
    """The squared kernel calibration error; unbiased, so it may be negative.

    ``"blocks"`` averages over pairs within blocks of shuffled rows, in linear time; ``"unbiased"``
    over all pairs and ``"biased"`` over all pairs and rows with themselves, in quadratic time.
    The kernel is exp(-|q - q'| / nu) of the Euclidean or total-variation distance, or
    exp(-|q - q'|^2 / (2 nu^2)); ``bandwidth`` nu is the median distance by default. A pair weighs
    the product of its rows' weights.
    """
    if estimator not in get_args(Estimator):
        raise ValueError(f'estimator must be "blocks", "unbiased" or "biased", got {estimator!r}')
    data = labelled(probs, labels, sample_weight, rows)
    pairs = _Pairs.of(data, kernel, bandwidth, seed)
    if estimator == "blocks" and len(data.labels) > 1:
        values, weight = pairs.blocks(block_size)
        return float(weight @ values / weight.sum())
    return pairs.all(with_itself=estimator == "biased")


def skce_test(
    probs: Any,
    labels: Any,
    *,
    kernel: Kernel = "exponential",
    bandwidth: float | None = None,
    block_size: int | None = None,
    seed: Seed = 0,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> SKCETest:
    """Is the model calibrated? One-sided normal test of the mean of independent blocks.

    Small p-values speak against calibration. Needs at least two blocks.
    """
    data = labelled(probs, labels, sample_weight, rows)
    pairs = _Pairs.of(data, kernel, bandwidth, seed)
    size = pairs.block_size(block_size)
    values, weight = pairs.blocks(block_size)
    if len(values) < 2:
        raise ValueError(
            f"the SKCE test needs at least two blocks of {size} rows, got {len(data.labels)} rows"
        )
    mean = float(weight @ values / weight.sum())
    deviation = float(np.sqrt(weight**2 @ (values - mean) ** 2) / weight.sum())
    z = mean / deviation if deviation > 0.0 else 0.0 if mean == 0.0 else np.inf * np.sign(mean)
    return SKCETest(mean, float(z), float(ndtr(-z)), size, pairs.bandwidth)


@dataclass(frozen=True)
class _Pairs:
    """Rows in random order, ready to be paired."""

    probs: Array
    residual: Array  # one-hot label minus probabilities
    weight: Floats
    kernel: Kernel
    bandwidth: float

    @classmethod
    def of(cls, data: Labelled, kernel: Kernel, bandwidth: float | None, seed: Seed) -> _Pairs:
        if kernel not in get_args(Kernel):
            raise ValueError(f"kernel must be one of {get_args(Kernel)}, got {kernel!r}")
        if bandwidth is not None and not bandwidth > 0.0:
            raise ValueError(f"bandwidth must be positive, got {bandwidth}")
        order = np.random.default_rng(seed).permutation(len(data.labels))
        xp = array_namespace(data.probs)
        probs = xp.astype(xp.take(data.probs, like(order, data.probs), axis=0), xp.float64)
        classes = like(np.arange(data.classes), probs)
        truth = like(data.labels[order][:, None], probs) == classes
        residual = xp.astype(truth, xp.float64) - probs
        nu = _median_distance(probs[:_MEDIAN_ROWS], kernel) if bandwidth is None else bandwidth
        return cls(probs, residual, data.weight[order], kernel, nu)

    def terms(self, left: slice, right: slice, shape: tuple[int, ...] = (-1,)) -> Array:
        """h for all pairs of two slices of rows; with a shape, of blocks of rows."""
        xp = array_namespace(self.probs)
        classes = self.probs.shape[1]
        a, b = (xp.reshape(self.probs[part], (*shape, classes)) for part in (left, right))
        u, v = (xp.reshape(self.residual[part], (*shape, classes)) for part in (left, right))
        near = _kernel_values(_distances(a, b, self.kernel), self.kernel, self.bandwidth)
        return near * (u @ xp.matrix_transpose(v))

    def all(self, with_itself: bool) -> float:
        """The mean over all pairs, tile by tile."""
        rows, classes = self.probs.shape
        step = max(1, _TILE // (rows * (classes if self.kernel == "total-variation" else 1)))
        total = 0.0
        for start in range(0, rows, step):
            tile = slice(start, min(start + step, rows))
            h = to_numpy(self.terms(tile, slice(0, rows))).copy()
            if not with_itself:
                h[np.arange(tile.stop - start), np.arange(start, tile.stop)] = 0.0
            total += float(self.weight[tile] @ h @ self.weight)
        weight = float(self.weight.sum()) ** 2
        pairs = weight if with_itself else weight - float(self.weight @ self.weight)
        return total / pairs if pairs > 1e-12 * weight else 0.0  # one row has no pair

    def block_size(self, asked: int | None) -> int:
        rows = len(self.weight)
        if asked is None:
            return int(np.clip(rows // _FEWEST_BLOCKS, 2, _LARGEST_BLOCK))
        if not 2 <= asked <= rows:
            raise ValueError(f"block_size must lie between 2 and the rows, {rows}, got {asked}")
        return asked

    def blocks(self, asked: int | None) -> tuple[Floats, Floats]:
        """The mean over the pairs of each block, and the block's weight; a rest is left out."""
        size = self.block_size(asked)
        number = len(self.weight) // size
        classes = self.probs.shape[1]
        wide = size * size * (classes if self.kernel == "total-variation" else 1)
        step = max(1, _TILE // max(wide, size * classes))
        above = np.triu(np.ones((size, size)), 1)
        values, weights = [], []
        for start in range(0, number, step):
            count = min(step, number - start)
            part = slice(start * size, (start + count) * size)
            h = to_numpy(self.terms(part, part, (count, size)))
            w = self.weight[part].reshape(count, size)
            pair_weight = w[:, :, None] * w[:, None, :] * above
            weight = pair_weight.sum(axis=(1, 2))
            weights.append(weight)
            values.append((pair_weight * h).sum(axis=(1, 2)) / np.where(weight > 0.0, weight, 1.0))
        return np.concatenate(values), np.concatenate(weights)


def _distances(a: Array, b: Array, kernel: Kernel) -> Array:
    """Distances of all rows of a and b (in their last two axes)."""
    xp = array_namespace(a)
    if kernel == "total-variation":
        return xp.sum(xp.abs(a[..., :, None, :] - b[..., None, :, :]), axis=-1) / 2.0
    squares = xp.sum(a * a, axis=-1)[..., :, None] + xp.sum(b * b, axis=-1)[..., None, :]
    square = squares - 2.0 * (a @ xp.matrix_transpose(b))
    return xp.sqrt(xp.where(square > 0.0, square, xp.zeros_like(square)))


def _kernel_values(distance: Array, kernel: Kernel, bandwidth: float) -> Array:
    xp = array_namespace(distance)
    scaled = distance / bandwidth
    return xp.exp(-(scaled**2) / 2.0) if kernel == "gaussian" else xp.exp(-scaled)


def _median_distance(probs: Array, kernel: Kernel) -> float:
    """The median over pairs of different rows; 1 where all rows are the same."""
    distance = to_numpy(_distances(probs, probs, kernel))
    pairs: NDArray[Any] = distance[np.triu_indices(len(distance), 1)]
    median = float(np.median(pairs)) if len(pairs) else 0.0
    return median if median > 1e-7 else 1.0
