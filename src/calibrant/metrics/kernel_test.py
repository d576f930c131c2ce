"""The test of all classes at once by the squared kernel calibration error of all pairs of rows.

Under canonical calibration the labels are drawn from the probabilities: so they are drawn again and
again, and the error is computed anew. That is the null hypothesis itself, given the predictions, so
the p-value holds for any number of rows, however rare an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant.common.arrays import like, to_numpy
from calibrant.common.random import generator
from calibrant.common.types import Floats, InputKind, Labels, RandomState, RowRule
from calibrant.data.weights import row_counts
from calibrant.metrics._class_resampling import draw_labels
from calibrant.metrics._intervals import check_resamples
from calibrant.metrics._labelled import Labelled, labelled
from calibrant.metrics.squared_kernel import (
    MEDIAN_ROWS,
    Kernel,
    check_kernel,
    distances,
    kernel_values,
    median_distance,
)

MOST_ROWS = 2000  # the matrix of all pairs has 32 MB
_DENSE_CLASSES = 16  # up to here one matrix product per class is faster than sparse ones per draw
_TILE = 4_000_000  # elements of a temporary


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
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    kernel : {"exponential", "total-variation", "gaussian"}, default "exponential"
        ``exp(-|q - q'| / nu)`` of the Euclidean or total-variation distance, or
        ``exp(-|q - q'|^2 / (2 nu^2))``.
    bandwidth : float, optional
        The bandwidth nu of the kernel; the median distance of rows by default.
    n_resamples : int, default 499
        How often labels are drawn.
    max_rows : int, default 2000
        Of more rows than these, so many are drawn without replacement and looked at.
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
    rows = some_rows(data, max_rows, rng)
    if len(rows.places) < 2:
        raise ValueError(f"the SKCE test needs at least two rows, got {len(rows.places)}")
    return _test(data, rows, kernel, bandwidth, n_resamples, rng)


def quick_skce_test(
    data: Labelled, n_resamples: int, rng: np.random.Generator, max_rows: int = 1000
) -> SKCETest | None:
    """The test with all defaults, of fewer rows; None where there is nothing to draw or to pair."""
    rows = some_rows(data, max_rows, rng)
    if n_resamples == 0 or len(rows.places) < 2:
        return None
    return _test(data, rows, "exponential", None, n_resamples, rng)


def _test(
    data: Labelled,
    rows: ChosenRows,
    kernel: Kernel,
    bandwidth: float | None,
    n_resamples: int,
    rng: np.random.Generator,
) -> SKCETest:
    """The test of some rows."""
    probs = rows.of(data)
    pairs = PairSums.of(probs, rows.weight, kernel, bandwidth)
    observed = float(pairs.errors(data.labels[rows.places, None])[0])
    null = np.concatenate([pairs.errors(drawn) for drawn in draw_labels(probs, n_resamples, rng)])
    spread = float(null.std())
    # Rounding must not decide between values that are equal in exact arithmetic.
    reached = int(np.count_nonzero(null >= observed - 1e-9 * spread))
    return SKCETest(
        skce=observed,
        z=(observed - float(null.mean())) / spread if spread > 0.0 else 0.0,
        p_value=(1 + reached) / (1 + n_resamples),
        n_rows=len(rows.places),
        n_resamples=n_resamples,
        bandwidth=pairs.bandwidth,
    )


def check_max_rows(max_rows: int) -> None:
    """Refuse a number of rows without a pair."""
    if max_rows < 2:
        raise ValueError(f"max_rows must be at least 2, got {max_rows}")


class ChosenRows(NamedTuple):
    """Which rows a test looks at, and the weight of each."""

    places: NDArray[np.intp]
    weight: Floats

    def of(self, data: Labelled) -> Floats:
        """Their probabilities, in main memory."""
        xp = array_namespace(data.probs)
        taken = xp.take(data.probs, like(self.places, data.probs), axis=0)
        return to_numpy(taken).astype(np.float64)


def some_rows(data: Labelled, max_rows: int, rng: np.random.Generator) -> ChosenRows:
    """The rows that count, in their order; where they are too many, a random part of them.

    A whole weight is the row so often: each of its copies has a label of its own to draw.
    """
    count, weight = row_counts(data.weight)
    ends = np.cumsum(np.where(data.weight > 0.0, count, 0))
    total = int(ends[-1])
    places = np.arange(total) if total <= max_rows else rng.choice(total, max_rows, replace=False)
    index = np.searchsorted(ends, np.sort(places), side="right")
    return ChosenRows(index, weight[index])


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
    def of(cls, probs: Floats, weight: Floats, kernel: Kernel, bandwidth: float | None) -> PairSums:
        """The pairs of some rows."""
        nu = median_distance(probs[:MEDIAN_ROWS], kernel) if bandwidth is None else bandwidth
        rows, classes = probs.shape
        step = max(1, _TILE // (rows * (classes if kernel == "total-variation" else 1)))
        near = np.empty((rows, rows))
        for start in range(0, rows, step):
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
        dense = self.mean.shape[1] <= _DENSE_CLASSES
        same = self._same_dense(labels) if dense else self._same_sparse(labels)
        return np.asarray((same - 2.0 * linear + self.constant) / self.weight)

    def _same_dense(self, labels: Labels) -> Floats:
        """The sum over the pairs with the same label: a product per class, the first one's free."""
        others = np.zeros(labels.shape)  # near @ [label is not 0]
        total = np.zeros(labels.shape[1])
        for index in range(1, self.mean.shape[1]):
            of_class = (labels == index).astype(np.float64)
            sums = self.near @ of_class
            total += np.einsum("ij,ij->j", of_class, sums)
            others += sums
        first = (labels == 0).astype(np.float64)
        return total + first.T @ self.near.sum(axis=1) - np.einsum("ij,ij->j", first, others)

    def _same_sparse(self, labels: Labels) -> Floats:
        """The same for many classes: each draw adds up the rows of each class that came."""
        rows = np.arange(len(labels))
        total = np.empty(labels.shape[1])
        for draw, column in enumerate(labels.T):
            came, place = np.unique(column, return_inverse=True)
            shape = (len(came), len(rows))
            of_class = csr_array((np.ones(len(rows)), (place, rows)), shape=shape)
            total[draw] = np.asarray(of_class @ self.near)[place, rows].sum()
        return total
