"""Squared kernel calibration error: all classes at once, no bins.

For two rows h = k(q, q') <e_y - q, e_y' - q'>, whose mean over independent rows is 0 if and only if
the model is calibrated. Averaging h over all pairs within blocks of fixed size is unbiased and
costs time linear in the rows; ``kernel_test`` has the test, which takes all pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant.common.arrays import like, to_numpy
from calibrant.common.random import generator
from calibrant.common.types import Array, Floats, InputKind, RandomState, RowRule
from calibrant.data.weights import copy_squares, weighted_mean
from calibrant.metrics._labelled import Labelled, labelled

Kernel = Literal["exponential", "total-variation", "gaussian"]
Estimator = Literal["blocks", "unbiased", "biased"]

_LARGEST_BLOCK = 16
_FEWEST_BLOCKS = 50
MEDIAN_ROWS = 1000  # the median distance is taken over the pairs of so many rows
_TILE = 4_000_000  # elements of a temporary


def skce(
    probs: Any,
    labels: Any,
    *,
    estimator: Estimator = "blocks",
    kernel: Kernel = "exponential",
    bandwidth: float | None = None,
    block_size: int | None = None,
    random_state: RandomState = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the squared kernel calibration error; unbiased, so it may be negative.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    estimator : {"blocks", "unbiased", "biased"}, default "blocks"
        Pairs within blocks of shuffled rows, in linear time; all pairs, in quadratic time; or all
        pairs and rows with themselves.
    kernel : {"exponential", "total-variation", "gaussian"}, default "exponential"
        ``exp(-|q - q'| / nu)`` of the Euclidean or total-variation distance, or
        ``exp(-|q - q'|^2 / (2 nu^2))``.
    bandwidth : float, optional
        The bandwidth nu of the kernel; the median distance of rows by default.
    block_size : int, optional
        The rows per block; by default a fiftieth of the rows, from 2 to 16.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws; None is 0.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    ignore_index : int, optional
        Rows with this label are left out.

    Returns
    -------
    float
        The squared error.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    It is the mean over pairs of rows of k(q, q') <e_y - q, e_y' - q'>, where q are a row's
    probabilities and e_y is its one-hot label. A pair weighs the product of its rows' weights.

    References
    ----------
    Widmann, Lindsten and Zachariah, "Calibration tests in multi-class classification: A unifying
    framework", NeurIPS 2019, and "Calibration tests beyond classification", ICLR 2021.

    Examples
    --------
    >>> round(skce([[0.9, 0.1]] * 4, [0, 0, 1, 1], estimator="unbiased"), 3)
    0.153
    """
    if estimator not in get_args(Estimator):
        raise ValueError(f'estimator must be "blocks", "unbiased" or "biased", got {estimator!r}')
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    pairs = _Pairs.of(data, kernel, bandwidth, random_state)
    if estimator == "blocks" and len(pairs.weight) > 1:  # rows of weight 0 are gone
        return weighted_mean(*pairs.blocks(block_size))
    return pairs.all(with_itself=estimator == "biased")


@dataclass(frozen=True)
class _Pairs:
    """Rows in random order, ready to be paired."""

    probs: Array
    residual: Array  # one-hot label minus probabilities
    weight: Floats
    kernel: Kernel
    bandwidth: float

    @classmethod
    def of(
        cls,
        data: Labelled,
        kernel: Kernel,
        bandwidth: float | None,
        random_state: RandomState,
    ) -> _Pairs:
        """The rows of a data set, shuffled."""
        check_kernel(kernel, bandwidth)
        order = generator(random_state).permutation(data.n_rows)
        order = order[data.weight[order] > 0.0]  # rows of weight 0 are as good as absent
        xp = array_namespace(data.probs)
        probs = xp.astype(xp.take(data.probs, like(order, data.probs), axis=0), xp.float64)
        classes = like(np.arange(data.n_classes), probs)
        truth = like(data.labels[order][:, None], probs) == classes
        residual = xp.astype(truth, xp.float64) - probs
        nu = median_distance(probs[:MEDIAN_ROWS], kernel) if bandwidth is None else bandwidth
        return cls(probs, residual, data.weight[order], kernel, nu)

    def terms(self, left: slice, right: slice, shape: tuple[int, ...] = (-1,)) -> Array:
        """h for all pairs of two slices of rows; with a shape, of blocks of rows."""
        xp = array_namespace(self.probs)
        classes = self.probs.shape[1]
        a, b = (xp.reshape(self.probs[part], (*shape, classes)) for part in (left, right))
        u, v = (xp.reshape(self.residual[part], (*shape, classes)) for part in (left, right))
        near = kernel_values(distances(a, b, self.kernel), self.kernel, self.bandwidth)
        return near * (u @ xp.matrix_transpose(v))

    def all(self, with_itself: bool) -> float:
        """The mean over all pairs, tile by tile."""
        rows, classes = self.probs.shape
        squares = copy_squares(
            self.weight
        )  # the pairs of a row, or of each of its copies, with itself
        step = max(1, _TILE // (rows * (classes if self.kernel == "total-variation" else 1)))
        total = 0.0
        for start in range(0, rows, step):
            tile = slice(start, min(start + step, rows))
            h = to_numpy(self.terms(tile, slice(0, rows))).copy()
            total += float(self.weight[tile] @ h @ self.weight)
            if not with_itself:
                own = h[np.arange(tile.stop - start), np.arange(start, tile.stop)]
                total -= float(squares[tile] @ own)
        weight = float(self.weight.sum()) ** 2
        pairs = weight if with_itself else weight - float(squares.sum())
        return total / pairs if pairs > 1e-12 * weight else 0.0  # one row has no pair

    def block_size(self, asked: int | None) -> int:
        """The rows per block: as asked, or a fiftieth of the rows within bounds."""
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


def check_kernel(kernel: str, bandwidth: float | None) -> None:
    """Refuse what is no kernel, or no bandwidth of one."""
    if kernel not in get_args(Kernel):
        raise ValueError(f"kernel must be one of {get_args(Kernel)}, got {kernel!r}")
    if bandwidth is not None and not bandwidth > 0.0:
        raise ValueError(f"bandwidth must be positive, got {bandwidth}")


def distances(a: Array, b: Array, kernel: Kernel) -> Array:
    """Distances of all rows of a and b (in their last two axes)."""
    xp = array_namespace(a)
    if kernel == "total-variation":
        return xp.sum(xp.abs(a[..., :, None, :] - b[..., None, :, :]), axis=-1) / 2.0
    squares = xp.sum(a * a, axis=-1)[..., :, None] + xp.sum(b * b, axis=-1)[..., None, :]
    square = squares - 2.0 * (a @ xp.matrix_transpose(b))
    return xp.sqrt(xp.where(square > 0.0, square, xp.zeros_like(square)))


def kernel_values(distance: Array, kernel: Kernel, bandwidth: float) -> Array:
    """The kernel of each distance."""
    xp = array_namespace(distance)
    scaled = distance / bandwidth
    return xp.exp(-(scaled**2) / 2.0) if kernel == "gaussian" else xp.exp(-scaled)


def median_distance(probs: Array, kernel: Kernel) -> float:
    """The median over pairs of different rows; 1 where all rows are the same."""
    distance = to_numpy(distances(probs, probs, kernel))
    pairs: NDArray[Any] = distance[np.triu_indices(len(distance), 1)]
    median = float(np.median(pairs)) if len(pairs) else 0.0
    return median if median > 1e-7 else 1.0
