"""Squared kernel calibration error: all classes at once, no bins.

For two rows h = k(q, q') <e_y - q, e_y' - q'>, whose mean over independent rows is 0 if and only if
the model is calibrated. Averaging h over all pairs within blocks of fixed size is unbiased and
costs time linear in the rows.

The test takes all pairs. Under canonical calibration the labels are drawn from the probabilities:
so they are drawn again and again, and the error is computed anew. That is the null hypothesis
itself, given the predictions, so the p-value holds for any number of rows, however rare an event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant.common.arrays import like, to_numpy
from calibrant.common.docstrings import documented
from calibrant.common.types import Array, Floats, InputKind, Labels, RandomState, RowRule, generator
from calibrant.data.rows import Rows
from calibrant.data.weights import copy_squares, row_counts, weighted_mean
from calibrant.metrics._intervals import check_resamples
from calibrant.metrics._labelled import Labelled, labelled
from calibrant.metrics._resampling import draw_labels

Kernel = Literal["exponential", "total-variation", "gaussian"]
Estimator = Literal["blocks", "unbiased", "biased"]

_LARGEST_BLOCK = 16
_FEWEST_BLOCKS = 50
MEDIAN_ROWS = 1000  # the median distance is taken over the pairs of so many rows
_TILE = 4_000_000  # elements of a temporary
MOST_ROWS = 2000  # of the test: the matrix of all pairs has 32 MB
_DENSE_CLASSES = 16  # up to here one matrix product per class is faster than sparse ones per draw


@documented
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
    {probs}
    {labels}
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
    {random_state}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The squared error.

    Raises
    ------
    {refused}

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
    pairs = _Pairs.of(data.rows, kernel, bandwidth, random_state)
    if estimator == "blocks" and len(pairs.rows) > 1:  # rows of weight 0 are gone
        return weighted_mean(*pairs.blocks(block_size))
    return pairs.all(with_itself=estimator == "biased")


@dataclass(frozen=True)
class SKCETest:
    """The test of "calibrated" by the squared kernel calibration error of all pairs.

    Parameters
    ----------
    skce : float
        The error: the mean over all pairs of the rows that were looked at.
    z : float
        How many standard deviations it lies above the mean of a calibrated model. It is not normal:
        the p-value does not come from it.
    p_value : float
        How likely a calibrated model is to show such an error, or a larger one.
    n_rows : int
        The rows that were looked at.
    n_resamples : int
        How often labels were drawn.
    bandwidth : float
        The bandwidth of the kernel.
    notion : {"canonical"}
        The null hypothesis: the probabilities of all classes together are calibrated.
    """

    skce: float
    z: float
    p_value: float
    n_rows: int
    n_resamples: int
    bandwidth: float
    notion: Literal["canonical"] = "canonical"


@documented
def skce_test(
    probs: Any,
    labels: Any,
    *,
    kernel: Kernel = "exponential",
    bandwidth: float | None = None,
    n_resamples: int = 499,
    max_rows: int = MOST_ROWS,
    random_state: RandomState = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> SKCETest:
    """Test "calibrated" for all classes at once, by all pairs of rows.

    Parameters
    ----------
    {probs}
    {labels}
    kernel : {"exponential", "total-variation", "gaussian"}, default "exponential"
        ``exp(-|q - q'| / nu)`` of the Euclidean or total-variation distance, or
        ``exp(-|q - q'|^2 / (2 nu^2))``.
    bandwidth : float, optional
        The bandwidth nu of the kernel; the median distance of rows by default.
    n_resamples : int, default 499
        How often labels are drawn.
    max_rows : int, default 2000
        Of more rows than these, so many are drawn without replacement and looked at.
    {random_state}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    SKCETest
        The error and its p-value. Small p-values are evidence against calibration.

    Raises
    ------
    ValueError
        Where an argument is refused, or where there are fewer than two rows of positive weight.

    Notes
    -----
    The p-value is (1 + the draws that reach the observed error) / (1 + draws). Time grows with
    rows^2 x draws, and up to 16 classes with their number.

    References
    ----------
    Widmann, Lindsten and Zachariah, "Calibration tests in multi-class classification: A unifying
    framework", NeurIPS 2019, and "Calibration tests beyond classification", ICLR 2021.

    Examples
    --------
    >>> skce_test([[0.9, 0.1]] * 100, [0, 1] * 50, n_resamples=199).p_value
    0.005
    """
    check_kernel(kernel, bandwidth)
    check_resamples(n_resamples, 1)
    check_max_rows(max_rows)
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    rng = generator(random_state)
    rows = some_rows(data.rows, max_rows, rng)
    if len(rows) < 2:
        raise ValueError(f"the SKCE test needs at least two rows, got {len(rows)}")
    return _test(rows, kernel, bandwidth, n_resamples, rng)


def quick_skce_test(
    data: Labelled, n_resamples: int, rng: np.random.Generator, max_rows: int = 1000
) -> SKCETest | None:
    """The test with all defaults, of fewer rows; None where there is nothing to draw or to pair."""
    rows = some_rows(data.rows, max_rows, rng)
    if n_resamples == 0 or len(rows) < 2:
        return None
    return _test(rows, "exponential", None, n_resamples, rng)


def _test(
    rows: Rows, kernel: Kernel, bandwidth: float | None, n_resamples: int, rng: np.random.Generator
) -> SKCETest:
    """The test of some rows."""
    pairs = PairSums.of(rows, kernel, bandwidth)
    observed = float(pairs.errors(rows.labels[:, None])[0])
    draws = draw_labels(rows.scores, n_resamples, rng)
    null = np.concatenate([pairs.errors(labels) for labels in draws])
    spread = float(null.std())
    # Rounding must not decide between values that are equal in exact arithmetic.
    reached = int(np.count_nonzero(null >= observed - 1e-9 * spread))
    return SKCETest(
        skce=observed,
        z=(observed - float(null.mean())) / spread if spread > 0.0 else 0.0,
        p_value=(1 + reached) / (1 + n_resamples),
        n_rows=len(rows),
        n_resamples=n_resamples,
        bandwidth=pairs.bandwidth,
    )


def check_max_rows(max_rows: int) -> None:
    """Refuse a number of rows without a pair."""
    if max_rows < 2:
        raise ValueError(f"max_rows must be at least 2, got {max_rows}")


def some_rows(rows: Rows, max_rows: int, rng: np.random.Generator) -> Rows:
    """The rows that count, in their order and in main memory; of too many, a random part.

    A whole weight is the row so often: each of its copies has a label of its own to draw.
    """
    count, weight = row_counts(rows.weight)
    ends = np.cumsum(np.where(rows.weight > 0.0, count, 0))
    total = int(ends[-1])
    places = np.arange(total) if total <= max_rows else rng.choice(total, max_rows, replace=False)
    index = np.searchsorted(ends, np.sort(places), side="right")
    chosen = rows.take(index)
    probs = to_numpy(chosen.scores).astype(np.float64)
    return replace(chosen, scores=probs, sample_weight=weight[index])


# --- all pairs, for many labels ---------------------------------------------------------------


@dataclass(frozen=True)
class PairSums:
    """All pairs of rows, ready for any labels.

    <e_y - q, e_y' - q'> = [y = y'] - q_y' - q'_y + <q, q'>: only the first two terms hang on the
    labels, and one of them is linear in each label.
    """

    near: Floats  # weights times kernel of each pair, 0 on the diagonal
    mean: Floats  # near @ probs
    constant: float
    weight: float  # of all pairs together
    bandwidth: float

    @classmethod
    def of(cls, rows: Rows, kernel: Kernel, bandwidth: float | None) -> PairSums:
        """The pairs of some rows in main memory."""
        probs, weight = rows.scores, rows.weight
        nu = median_distance(probs[:MEDIAN_ROWS], kernel) if bandwidth is None else bandwidth
        size, classes = probs.shape
        step = max(1, _TILE // (size * (classes if kernel == "total-variation" else 1)))
        near = np.empty((size, size))
        for start in range(0, size, step):
            tile = slice(start, start + step)
            near[tile] = kernel_values(distances(probs[tile], probs, kernel), kernel, nu)
        near *= weight[:, None] * weight
        np.fill_diagonal(near, 0.0)
        mean = near @ probs
        pairs = float(weight.sum() ** 2 - weight @ weight)
        return cls(near, mean, float((probs * mean).sum()), pairs, nu)

    def errors(self, labels: Labels) -> Floats:
        """The squared kernel calibration error of each column of labels (rows, draws)."""
        linear = np.take_along_axis(self.mean, labels, axis=1).sum(axis=0)
        same = np.zeros(labels.shape[1])  # the sum over the pairs with the same label
        if self.mean.shape[1] <= _DENSE_CLASSES:  # a product per class, the first one's free
            others = np.zeros(labels.shape)  # near @ [label is not 0]
            for index in range(1, self.mean.shape[1]):
                of_class = (labels == index).astype(np.float64)
                sums = self.near @ of_class
                same += np.einsum("ij,ij->j", of_class, sums)
                others += sums
            first = (labels == 0).astype(np.float64)
            same = same + first.T @ self.near.sum(axis=1) - np.einsum("ij,ij->j", first, others)
        else:  # each draw adds up the rows of each class that came
            rows = np.arange(len(labels))
            for draw, column in enumerate(labels.T):
                came, place = np.unique(column, return_inverse=True)
                shape = (len(came), len(rows))
                placed = csr_array((np.ones(len(rows)), (place, rows)), shape=shape)
                same[draw] = np.asarray(placed @ self.near)[place, rows].sum()
        return np.asarray((same - 2.0 * linear + self.constant) / self.weight)


# --- pairs within blocks ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Pairs:
    """Rows in random order, ready to be paired."""

    rows: Rows
    residual: Array  # one-hot label minus probabilities
    kernel: Kernel
    bandwidth: float

    @classmethod
    def of(
        cls, rows: Rows, kernel: Kernel, bandwidth: float | None, random_state: RandomState
    ) -> _Pairs:
        """The rows of some weight, shuffled."""
        check_kernel(kernel, bandwidth)
        order = generator(random_state).permutation(len(rows))
        rows = rows.take(order).of_some_weight()
        xp = array_namespace(rows.scores)
        probs = xp.astype(rows.scores, xp.float64)
        truth = like(rows.labels[:, None], probs) == like(np.arange(rows.n_classes), probs)
        nu = median_distance(probs[:MEDIAN_ROWS], kernel) if bandwidth is None else bandwidth
        residual = xp.astype(truth, xp.float64) - probs
        return cls(rows.with_scores(probs, "probs"), residual, kernel, nu)

    def terms(self, left: slice, right: slice, shape: tuple[int, ...] = (-1,)) -> Array:
        """h for all pairs of two slices of rows; with a shape, of blocks of rows."""
        probs = self.rows.scores
        xp, classes = array_namespace(probs), probs.shape[1]
        a, b = (xp.reshape(probs[part], (*shape, classes)) for part in (left, right))
        u, v = (xp.reshape(self.residual[part], (*shape, classes)) for part in (left, right))
        near = kernel_values(distances(a, b, self.kernel), self.kernel, self.bandwidth)
        return near * (u @ xp.matrix_transpose(v))

    def all(self, with_itself: bool) -> float:
        """The mean over all pairs, tile by tile."""
        rows, classes = self.rows.scores.shape
        weight = self.rows.weight
        squares = copy_squares(weight)  # the pairs of a row, or of each of its copies, with itself
        step = max(1, _TILE // (rows * (classes if self.kernel == "total-variation" else 1)))
        total = 0.0
        for start in range(0, rows, step):
            tile = slice(start, min(start + step, rows))
            h = to_numpy(self.terms(tile, slice(0, rows))).copy()
            total += float(weight[tile] @ h @ weight)
            if not with_itself:
                own = h[np.arange(tile.stop - start), np.arange(start, tile.stop)]
                total -= float(squares[tile] @ own)
        every = float(weight.sum()) ** 2
        pairs = every if with_itself else every - float(squares.sum())
        return total / pairs if pairs > 1e-12 * every else 0.0  # one row has no pair

    def blocks(self, size: int | None) -> tuple[Floats, Floats]:
        """The mean over the pairs of each block, and the block's weight; a rest is left out.

        A block has by default a fiftieth of the rows, within bounds.
        """
        rows, classes = self.rows.scores.shape
        if size is None:
            size = int(np.clip(rows // _FEWEST_BLOCKS, 2, _LARGEST_BLOCK))
        if not 2 <= size <= rows:
            raise ValueError(f"block_size must lie between 2 and the rows, {rows}, got {size}")
        number = rows // size
        wide = size * size * (classes if self.kernel == "total-variation" else 1)
        step = max(1, _TILE // max(wide, size * classes))
        above = np.triu(np.ones((size, size)), 1)
        values, weights = [], []
        for start in range(0, number, step):
            count = min(step, number - start)
            part = slice(start * size, (start + count) * size)
            h = to_numpy(self.terms(part, part, (count, size)))
            w = self.rows.weight[part].reshape(count, size)
            pair_weight = w[:, :, None] * w[:, None, :] * above
            weight = pair_weight.sum(axis=(1, 2))
            weights.append(weight)
            values.append((pair_weight * h).sum(axis=(1, 2)) / np.where(weight > 0.0, weight, 1.0))
        return np.concatenate(values), np.concatenate(weights)


# --- kernels ----------------------------------------------------------------------------------


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
