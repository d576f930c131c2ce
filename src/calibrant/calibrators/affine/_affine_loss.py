"""The engine of the affine maps: softmax(u + x D + b), fitted by its penalised mean NLL.

u are a row's features (logits or log-probabilities) in units in which D = 0, b = 0 is the start,
temperature scaling; x are the features as inputs of D. The loss is convex and its penalties pull
towards the start: the fit is never worse than it in the fitted loss, and strong penalties give it
back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._optimizers import Minimum, lbfgs
from calibrant.common.arrays import row_tiles
from calibrant.common.threads import available_cores, mapping, one_blas_thread
from calibrant.common.types import Floats, Report
from calibrant.data.rows import Rows
from calibrant.data.weights import copies, shares
from calibrant.formulas.affine import LARGE_CLASSES

TILE = 1 << 20  # elements of a tile: large for the matrix products, small for memory
NARROW_SIZE = 1 << 18  # elements from which on the fit computes in float32, twice as fast
TOLERANCE = {"float32": 1e-7, "float64": 1e-12}  # float32 does not resolve smaller gains
# Smaller probabilities count as these: subnormal numbers make products fifty times slower.
SMALLEST_LOG = {"float32": -34.0, "float64": -300.0}
EVIDENCE_ROWS = 600  # rows whose pairs tell how much the gradients' entries depend on each other
EVIDENCE_SHARE = 0.25  # of the penalty that the moments give; best on ten networks, see the docs
MEAN_NOISE = 1e-5  # of the largest feature: row means below it are float32's rounding error
NO_EVIDENCE = 1e9  # the penalty where there is nothing but noise

# Inputs, shares, losses and residuals of some rows.
Tile = tuple[NDArray[Any], Floats, Floats, NDArray[Any]]


@dataclass(frozen=True)
class Penalty:
    """What multiplies the sums of squares of D's diagonal, of its other entries and of b.

    None for the other entries: estimated from the data. ``common`` is for the row of D that
    reads the mean feature; None where the mean is not kept apart.
    """

    slope: float
    off_diagonal: float | None
    intercept: float
    common: float | None = None


@dataclass(frozen=True)
class AffineFit:
    """D (a matrix, or its diagonal alone), b, and how the fit ended."""

    change: Floats
    intercept: Floats
    minimum: Minimum
    nll: float
    penalty: Penalty
    loss: AffineLoss
    pull: Floats  # what multiplies the square of each parameter


@dataclass(frozen=True)
class AffineLoss:
    """The mean NLL as a function of the flat (D, b), D a full matrix or a diagonal."""

    features: Rows  # their scores are the features, in whose precision the fit computes
    inputs: NDArray[Any]  # (rows, classes), or one column more: the mean feature
    finite: NDArray[np.bool_] | None  # None where no class is masked
    share: Floats  # of each row in the mean; sums to 1
    copy_share: Floats  # of one copy of each row, where whole weights count copies
    full: bool

    @cached_property
    def size(self) -> int:
        """The number of parameters."""
        depth = self.inputs.shape[1] if self.full else 1
        return self.features.n_classes * (depth + 1)

    def split(self, flat: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """D and b as views of the flat parameters."""
        classes = self.features.n_classes
        change, intercept = flat[:-classes], flat[-classes:]
        return (change.reshape(-1, classes) if self.full else change), intercept

    def value(self, flat: Floats) -> float:
        """The loss alone."""
        return sum(float(share @ losses) for _, share, losses, _ in self._tiles(flat))

    def gradient(self, flat: Floats) -> tuple[float, Floats]:
        """The loss and its gradient, flat."""
        narrow = flat.astype(self.features.scores.dtype)

        def of_tile(rows: slice) -> tuple[float, Floats]:
            inputs, share, losses, residual = self.tile(narrow, rows)
            slope = np.zeros(self.size)
            self._add_products(slope, inputs, residual, share)
            return float(share @ losses), slope

        value, slope = 0.0, np.zeros(self.size)
        rows = row_tiles(self.features.scores, TILE)
        # A large matrix product has threads of its own.
        alone = self.full and self.features.n_classes >= LARGE_CLASSES
        with mapping(1 if alone else min(available_cores(), len(rows))) as on_threads:
            for tile_value, tile_slope in on_threads(of_tile, rows):
                value += tile_value
                slope += tile_slope
        return value, slope

    def fisher(self, flat: Floats) -> Floats:
        """The mean square of the rows' gradients: the diagonal of the Fisher information."""
        result = np.zeros(self.size)
        for inputs, share, _, residual in self._tiles(flat):
            np.square(residual, out=residual)
            self._add_products(result, np.square(inputs), residual, share)
        return result

    def _add_products(
        self, flat: Floats, left: NDArray[Any], right: NDArray[Any], share: Floats
    ) -> None:
        """Add the sums of products over rows that count by their share; ``right`` is spent."""
        right *= share.astype(right.dtype)[:, None]
        change, intercept = self.split(flat)
        change += left.T @ right if self.full else np.einsum("ij,ij->j", left, right)
        intercept += right.sum(axis=0)

    def _tiles(self, flat: Floats) -> Iterator[Tile]:
        narrow = flat.astype(self.features.scores.dtype)
        return (self.tile(narrow, rows) for rows in row_tiles(self.features.scores, TILE))

    def tile(self, flat: NDArray[Any], rows: slice | NDArray[np.intp]) -> Tile:
        """Inputs, shares, NLL, and probabilities minus the one-hot label; of some rows."""
        change, intercept = self.split(flat)
        inputs, labels = self.inputs[rows], self.features.labels[rows]
        scores = inputs @ change if self.full else inputs * change
        scores += self.features.scores[rows]
        scores += intercept
        if self.finite is not None:
            scores[~self.finite[rows]] = -np.inf
        scores -= scores.max(axis=1, keepdims=True)
        own = np.arange(len(scores)), labels
        true = scores[own]
        np.maximum(scores, SMALLEST_LOG[scores.dtype.name], out=scores)
        np.exp(scores, out=scores)
        total = scores.sum(axis=1, keepdims=True)
        scores /= total
        scores[own] -= 1.0
        losses = np.log(total[:, 0], dtype=np.float64) - true
        return inputs, self.share[rows], losses, scores


def working_precision(elements: int) -> type[np.float32] | type[np.float64]:
    """In which a fit on so many features computes."""
    return np.float32 if elements >= NARROW_SIZE else np.float64


def fit_affine(
    features: Rows,
    finite: NDArray[np.bool_] | None,
    penalty: Penalty,
    *,
    full: bool,
    max_iter: int,
    report: Report,
    first: Floats | None = None,
) -> AffineFit:
    """D and b by L-BFGS from 0, or from the flat ``first``; the scores of the rows are features.

    With a ``common`` penalty D reads the mean of a row's features apart. A row's mean says nothing
    about its classes, but as a common part of all inputs it gives every column of D another
    intercept, C times over. Kept apart it has a penalty of its own.
    """
    scores = features.scores.astype(working_precision(features.scores.size), copy=False)
    inputs = scores if penalty.common is None else _mean_apart(scores)
    share = shares(features.weight)
    copy_share = share / copies(features.weight)
    loss = AffineLoss(features.with_scores(scores), inputs, finite, share, copy_share, full)
    with one_blas_thread(not (full and features.n_classes >= LARGE_CLASSES)):
        fisher = loss.fisher(np.zeros(loss.size))
        if full and penalty.off_diagonal is None:
            penalty = replace(penalty, off_diagonal=evidence_penalty(loss, fisher))
        pull = _pull(loss, penalty)
        minimum = _minimise(loss, pull, fisher, max_iter, report, first)
        nll = loss.value(minimum.x)
    change, intercept = loss.split(minimum.x)
    if penalty.common is not None:
        change = _mean_joined(change)
    return AffineFit(change, intercept, minimum, nll, penalty, loss, pull)


def row_means(features: NDArray[Any]) -> NDArray[Any]:
    """Each row's mean feature; 0 where the means of all rows are nothing but rounding error.

    Features made from probabilities are centred: what is left of their means is noise, to which a
    slope of any size could be fitted.
    """
    mean = features.mean(axis=1, keepdims=True)
    noise = MEAN_NOISE * float(np.abs(features).max(initial=0.0))
    return np.zeros_like(mean) if float(np.abs(mean).max()) <= noise else mean


def _mean_apart(features: NDArray[Any]) -> NDArray[Any]:
    mean = row_means(features)
    return np.concatenate([features - mean, mean], axis=1)


def _mean_joined(change: Floats) -> Floats:
    """The matrix that does to features what ``change`` does to their deviations and mean."""
    deviations, mean = change[:-1], change[-1]
    return np.asarray(deviations - deviations.mean(axis=0) + mean / len(deviations))


def _pull(loss: AffineLoss, penalty: Penalty) -> Floats:
    """What multiplies the square of each parameter."""
    pull = np.full(loss.size, penalty.off_diagonal if loss.full else penalty.slope)
    change, intercept = loss.split(pull)
    intercept[:] = penalty.intercept
    if loss.full:
        classes = len(intercept)
        np.fill_diagonal(change[:classes], penalty.slope)
        if penalty.common is not None:
            change[classes:] = penalty.common
    return pull


def _minimise(
    loss: AffineLoss,
    pull: Floats,
    fisher: Floats,
    max_iter: int,
    report: Report,
    first: Floats | None,
) -> Minimum:
    """L-BFGS in units of each parameter's own curvature, in which all are about alike."""
    floor = 1e-6 * fisher.max() + 1e-300  # for classes without rows
    unit = 1.0 / np.sqrt(np.maximum(fisher + 2.0 * pull, floor))

    def objective(scaled: Floats) -> tuple[float, Floats]:
        flat = unit * scaled
        value, gradient = loss.gradient(flat)
        pulled = pull * flat
        value += float(pulled @ flat)
        gradient += 2.0 * pulled
        gradient *= unit
        return value, gradient

    minimum = lbfgs(
        objective,
        np.zeros(loss.size) if first is None else first / unit,
        max_iter=max_iter,
        tolerance=TOLERANCE[loss.features.scores.dtype.name],
        progress=report,
    )
    return replace(minimum, x=unit * minimum.x)


def evidence_penalty(loss: AffineLoss, fisher: Floats) -> float:
    """The off-diagonal penalty, estimated from the data by the method of moments.

    Let the entries have the prior N(0, s^2). At the start their gradient g is about F times the
    entries, F being their Fisher information, plus noise of covariance F / n. So
    |g|^2 = s^2 |F|^2 + tr F / n, give or take sqrt(2) |F| / n, tells s^2, and the penalty of such
    a prior is 1 / (2 n s^2). Where g is no larger than noise there is nothing to be found.
    """
    classes = loss.features.n_classes
    off_diagonal = ~np.eye(classes, dtype=bool)
    slope = loss.gradient(np.zeros(loss.size))[1]
    gradient, trace = (loss.split(part)[0][:classes][off_diagonal] for part in (slope, fisher))
    rows = 1.0 / float(loss.share @ loss.copy_share)  # of equal weight
    squares = _fisher_squares(loss)
    noise = (float(trace.sum()) + math.sqrt(2.0 * squares)) / rows
    signal = float(gradient @ gradient) - noise
    if signal <= 0.0:
        return NO_EVIDENCE
    return min(EVIDENCE_SHARE * squares / (2.0 * rows * signal), NO_EVIDENCE)


def _fisher_squares(loss: AffineLoss) -> float:
    """|F|^2 of the off-diagonal entries: the mean square of the products of two rows' gradients.

    The gradients of rows i and j are outer products x r', whose product over all entries is
    (x_i . x_j) (r_i . r_j); the diagonal's part goes off. Pairs of some rows suffice: those of
    evenly spaced copies, as they were if whole weights were written out as rows.
    """
    present = np.flatnonzero(loss.share)
    ends = np.cumsum(np.rint(loss.share[present] / loss.copy_share[present]))
    step = max(1.0, ends[-1] // EVIDENCE_ROWS)
    chosen = present[np.searchsorted(ends, np.arange(0.0, ends[-1], step), side="right")]
    if len(chosen) < 2:
        return 0.0
    start = np.zeros(loss.size, loss.features.scores.dtype)
    inputs, _, _, residual = loss.tile(start, chosen)
    inputs, share = inputs[:, : loss.features.n_classes], loss.copy_share[chosen]
    both = inputs * residual
    products = (inputs @ inputs.T) * (residual @ residual.T) - both @ both.T
    squares = np.square(products, dtype=np.float64)
    np.fill_diagonal(squares, 0.0)  # no copy pairs with itself
    pairs = float(share.sum() ** 2 - share @ share)
    return float(share @ squares @ share) / pairs if pairs > 0.0 else 0.0
