"""Affine maps of functions of the logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calibrant.common.types import Array, Floats
from calibrant.formulas._base import FormulaRows, LogitMap
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import log_softmax, softmax, uniform
from calibrant.formulas._serialization import (
    LARGEST,
    SMALLEST,
    Part,
    checked_array,
    checked_number,
    checked_part,
    require,
)

LARGE_CLASSES = 256  # from here on matrix products are large enough for threads


class Features(Part, ABC):
    """What an ``AffineMap`` reads: as many numbers per row as there are classes."""

    @abstractmethod
    def read(self, logits: Array, masked: Array, ops: Ops) -> Array:
        """Compute the features of bounded logits; those of masked classes do not matter."""


@dataclass(frozen=True, eq=False)
class PlainLogits(Features):
    """The logits themselves.

    Parameters
    ----------
    origin : float, default 0
        What is subtracted from them: about where the logits lie, if that is far from 0. A float32
        number is subtracted without rounding, so that float32 logits lose no digits.

    Examples
    --------
    >>> import numpy as np
    >>> formula = AffineMap(PlainLogits(), [0.5, 0.5], [0.0, 0.0], 1e15)
    >>> formula(np.array([[2.0, 0.0]])).round(3)
    array([[0.731, 0.269]])
    """

    kind: ClassVar[str] = "plain-logits"
    version: ClassVar[int] = 2
    added: ClassVar[dict[str, Any]] = {"origin": 0.0}

    origin: float = 0.0

    def __post_init__(self) -> None:
        checked_number(self, "origin")

    def read(self, logits: Array, masked: Array, ops: Ops) -> Array:
        origin = ops.constant(self.origin, logits)
        at_zero = isinstance(origin, float) and origin == 0.0
        return logits if at_zero else logits - origin


@dataclass(frozen=True, eq=False)
class LogProbabilities(Features):
    """The log-probabilities, log softmax(z).

    Examples
    --------
    >>> import numpy as np
    >>> formula = AffineMap(LogProbabilities(), [[1.0, 0.0], [0.0, 2.0]], [0.0, 0.0], 1e15)
    >>> formula(np.log([[0.5, 0.5]])).round(3)  # 0.5 and 0.5^2, divided by their sum
    array([[0.667, 0.333]])
    """

    kind: ClassVar[str] = "log-probabilities"

    def read(self, logits: Array, masked: Array, ops: Ops) -> Array:
        return log_softmax(logits, 1.0, ops)


@dataclass(frozen=True, eq=False)
class SmoothedLogProbabilities(Features):
    """Smoothed log-probabilities of temperature scaling.

    Parameters
    ----------
    temperature : float
        T, above 0.
    smoothing : float
        e, above 0 and at most 1: the share of the uniform distribution.

    Notes
    -----
    log((1 - e) softmax(z / T) + e / C), C being the number of classes that are not masked.

    Examples
    --------
    >>> import numpy as np
    >>> features = SmoothedLogProbabilities(temperature=1.0, smoothing=0.5)
    >>> formula = AffineMap(features, [1.0, 1.0], [0.0, 0.0], 1e15)
    >>> formula(np.log([[0.9, 0.1]])).round(3)
    array([[0.7, 0.3]])
    """

    kind: ClassVar[str] = "smoothed-log-probabilities"

    temperature: float
    smoothing: float

    def __post_init__(self) -> None:
        checked_number(self, "temperature", SMALLEST)
        checked_number(self, "smoothing", SMALLEST, 1.0)

    def read(self, logits: Array, masked: Array, ops: Ops) -> Array:
        share = ops.constant(self.smoothing, logits)
        scaled = softmax(logits, ops.constant(self.temperature, logits), ops)
        even = uniform(ops.where(masked, -np.inf, logits), ops)
        smooth = (1.0 - share) * scaled + share * even
        return ops.log(ops.where(smooth > 0.0, smooth, 1.0))


def affine_inputs(
    features: Features, logits: Array, masked: Array, largest: float, ops: Ops
) -> Array:
    """The features of logits of at most ``largest``, those of masked classes filled in."""
    limit = ops.constant(largest, logits)
    bounded = ops.clip(logits, -limit, limit)
    read = features.read(bounded, masked, ops)
    if not ops.any(masked):
        return read
    smallest = ops.min(ops.where(masked, np.inf, read))
    return ops.where(masked, smallest, read)


@dataclass(frozen=True, eq=False)
class AffineMap(LogitMap):
    """An affine map of features of the logits: of vector, matrix and Dirichlet scaling.

    Parameters
    ----------
    features : Features
        What is read: the logits, or log-probabilities.
    slopes : array of shape (classes, classes) or (classes,)
        A matrix W, or one slope v_c per class.
    intercept : array of shape (classes,)
        The intercepts b.
    largest : float
        Larger scores count as this, so that sums of their products stay finite in float32.

    Notes
    -----
    softmax(u W + b) or softmax(v * u + b) of the features u. Masked classes keep probability 0. As
    inputs of the other classes they count as the smallest feature of their row, that of a class
    which the classifier has ruled out.

    Examples
    --------
    >>> formula = AffineMap(PlainLogits(), [1.0, 1.0], [0.5, -0.5], 1e15)
    >>> formula.full, formula.n_classes
    (False, 2)
    """

    kind: ClassVar[str] = "affine-map"
    keeps_arg_max: ClassVar[bool] = False

    features: Features
    slopes: Floats
    intercept: Floats
    largest: float

    def __post_init__(self) -> None:
        checked_part(self, "features", Features)
        largest = checked_number(self, "largest", SMALLEST)
        size = len(checked_array(self, "intercept", ndim=1))
        require(size >= 2, f"there must be at least two classes, got {size}")
        full = np.ndim(self.slopes) == 2
        slopes = np.abs(
            checked_array(
                self, "slopes", ndim=2 if full else 1, shape=(size, size) if full else (size,)
            )
        )
        # log-probabilities are up to twice as large as the logits
        reach = 2.0 * largest * float((slopes.sum(axis=0) if full else slopes).max())
        require(
            reach <= LARGEST,
            f"the slopes of scores up to {largest:g} must not reach beyond {LARGEST:g}, "
            f"got {reach:g}",
        )

    @property
    def full(self) -> bool:
        """Whether the slopes are a matrix, or one number per class."""
        return len(self.slopes.shape) == 2

    @property
    def n_classes(self) -> int:
        return int(self.intercept.shape[0])

    @property
    def large_product(self) -> bool:  # type: ignore[override]
        """Whether its matrix is large."""
        return self.full and self.n_classes >= LARGE_CLASSES

    def scores(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        masked = ops.is_masked(logits)
        inputs = affine_inputs(self.features, logits, masked, self.largest, ops)
        slopes = ops.constant(self.slopes, logits)
        moved = ops.matmul(inputs, slopes) if self.full else inputs * slopes
        scores = moved + ops.constant(self.intercept, logits)
        return ops.where(masked, -np.inf, scores)
