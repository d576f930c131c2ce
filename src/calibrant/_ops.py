"""What a formula may do with arrays: one interface, one implementation per way of computing.

A formula is written once, in these operations and Python's operators, and computed by all that
implement them: here NumPy and every namespace of the array API standard, in ``calibrant.torch`` the
modules, in ``calibrant.onnx`` a graph that is written instead of computed. All operations work
along the last axis, that of the classes; reductions keep it, with length 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from typing import Any, Literal, Protocol

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array
from numpy.typing import NDArray

from calibrant._arrays import FEW_CLASSES, place_of, row_max, row_sums, to_numpy
from calibrant._arrays import like as as_kind
from calibrant._curves import Curves
from calibrant._types import Array

# Products with a thin matrix may raise the "invalid" flag for lanes that BLAS loads and does not
# use, now and then, even where all is 0: no sign of a NaN.
blas_flags_ignored = np.errstate(invalid="ignore")


class Ops(Protocol):
    """The operations that a formula may use: one interface for all ways of computing.

    Arrays have the shape (.., n), rows of n values each, mostly one per class; operations work
    along the last axis. NumPy, the array API, PyTorch and ONNX graphs implement them.
    """

    def exp(self, x: Array) -> Array:
        """Compute exp(x).

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., n)
            The result, elementwise.
        """

    def log(self, x: Array) -> Array:
        """Compute the natural logarithm; -inf at 0.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., n)
            The result, elementwise.
        """

    def log1p(self, x: Array) -> Array:
        """Compute log(1 + x), exactly for a small x.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., n)
            The result, elementwise.
        """

    def tanh(self, x: Array) -> Array:
        """Compute tanh(x).

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., n)
            The result, elementwise.
        """

    def abs(self, x: Array) -> Array:
        """Compute the absolute value.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., n)
            The result, elementwise.
        """

    def maximum(self, x: Array, y: Array) -> Array:
        """Compute the larger of two values.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.
        y : array or float
            The other values.

        Returns
        -------
        array of shape (.., n)
            The result, elementwise.
        """

    def minimum(self, x: Array, y: Array) -> Array:
        """Compute the smaller of two values.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.
        y : array or float
            The other values.

        Returns
        -------
        array of shape (.., n)
            The result, elementwise.
        """

    def where(self, condition: Array, yes: Array, no: Array) -> Array:
        """Choose between two values by a condition.

        Parameters
        ----------
        condition : array of bool
            The condition.
        yes : array or float
            The values where it holds; at least one of both is an array.
        no : array or float
            The values where it does not hold.

        Returns
        -------
        array of shape (.., n)
            The result, elementwise.
        """

    def any(self, condition: Array) -> bool:
        """Say whether a condition holds anywhere.

        Parameters
        ----------
        condition : array of bool
            The condition.

        Returns
        -------
        bool
            True also where that is not known before a graph runs.
        """

    def invert(self, condition: Array) -> Array:
        """Negate a condition.

        Parameters
        ----------
        condition : array of bool
            The condition.

        Returns
        -------
        array of shape (.., n)
            The result, elementwise.
        """

    def is_masked(self, x: Array) -> Array:
        """Find masked classes, whose value is -inf.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of bool of shape (.., n)
            True where a class is masked.
        """

    def max(self, x: Array) -> Array:
        """Compute the largest value of each row.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., 1)
            The largest values.
        """

    def min(self, x: Array) -> Array:
        """Compute the smallest value of each row.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., 1)
            The smallest values.
        """

    def sum(self, x: Array) -> Array:
        """Compute the sum of each row.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., 1)
            The sums.
        """

    def mean(self, x: Array) -> Array:
        """Compute the mean of each row.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., 1)
            The means.
        """

    def gaps(self, x: Array) -> Array:
        """Subtract the largest value of each row.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., n)
            The differences, at most 0.
        """

    def divide(self, x: Array, y: Array) -> Array:
        """Compute x / y, where a masked x stays masked.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.
        y : array or float
            The divisors, above 0.

        Returns
        -------
        array of shape (.., n)
            The result, elementwise.
        """

    def softmax(self, gaps: Array) -> Array:
        """Compute the softmax of each row.

        Parameters
        ----------
        gaps : array of shape (.., n)
            Rows whose largest value is 0, or near it.

        Returns
        -------
        array of shape (.., n)
            The probabilities.
        """

    def log_softmax(self, gaps: Array) -> Array:
        """Compute the logarithm of the softmax of each row.

        Parameters
        ----------
        gaps : array of shape (.., n)
            Rows whose largest value is 0, or near it.

        Returns
        -------
        array of shape (.., n)
            The logarithms, finite where the gap is.
        """

    def top(self, x: Array, k: int) -> Array:
        """Give the largest values of each row.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.
        k : int
            How many.

        Returns
        -------
        array of shape (.., k)
            The values in decreasing order.
        """

    def arg_max(self, x: Array) -> Array:
        """Find the first largest value of each row.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of shape (.., 1)
            Its index.
        """

    def take(self, x: Array, index: Array) -> Array:
        """Pick one value of each row.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.
        index : array of int of shape (.., 1)
            Which one.

        Returns
        -------
        array of shape (.., 1)
            The values.
        """

    def first_largest(self, x: Array) -> Array:
        """Mark the first largest value of each row.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.

        Returns
        -------
        array of bool of shape (.., n)
            True there, False elsewhere.
        """

    def concat(self, parts: Sequence[Array]) -> Array:
        """Lay columns side by side.

        Parameters
        ----------
        parts : sequence of arrays
            Arrays that differ at most in their last axis.

        Returns
        -------
        array
            All columns, along the last axis.
        """

    def expand(self, x: Array) -> Array:
        """Add a last axis of length 1.

        Parameters
        ----------
        x : array of shape (..)
            Any values.

        Returns
        -------
        array of shape (.., 1)
            The same values.
        """

    def drop(self, x: Array) -> Array:
        """Drop a last axis of length 1.

        Parameters
        ----------
        x : array of shape (.., 1)
            Any values.

        Returns
        -------
        array of shape (..)
            The same values.
        """

    def matmul(self, x: Array, kernel: Array) -> Array:
        """Multiply rows by a matrix.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.
        kernel : array of shape (n, m)
            The matrix.

        Returns
        -------
        array of shape (.., m)
            The products.
        """

    def constant(self, values: Any, like: Array) -> Array:
        """Turn a formula's own number or array into an array of another's kind.

        Parameters
        ----------
        values : float or array
            What the formula holds.
        like : array
            An array whose kind, precision and device it takes.

        Returns
        -------
        array or float
            The constant.
        """

    def full_like(self, x: Array, value: float) -> Array:
        """Make an array that holds one number everywhere.

        Parameters
        ----------
        x : array
            An array of the same shape, kind and precision.
        value : float
            The number.

        Returns
        -------
        array
            The array.
        """

    def cast(self, x: Array, kind: Literal["float64"] | Array) -> Array:
        """Convert to another precision; booleans become 0 and 1.

        Parameters
        ----------
        x : array
            Any values.
        kind : "float64" or array
            The precision, or an array that has it.

        Returns
        -------
        array
            The same values.
        """

    def eps(self, x: Array) -> float:
        """Give the distance from 1 to the next float.

        Parameters
        ----------
        x : array
            An array of the precision in question.

        Returns
        -------
        float
            The distance.
        """

    def look_up(self, x: Array, curves: Curves) -> Array:
        """Compute curves.

        Parameters
        ----------
        x : array of shape (.., n)
            Values in float64.
        curves : Curves
            One function per column, or one for all.

        Returns
        -------
        array of shape (.., n)
            Each column through its function.
        """

    def interpolate(self, table: Array, position: Array) -> Array:
        """Read a table between its entries, linearly.

        Parameters
        ----------
        table : array of shape (m,)
            The table.
        position : array
            Places between 0 and m - 1.

        Returns
        -------
        array
            The values there, of the shape of ``position``.
        """


class ArrayOps:
    """The operations by a namespace of the array API standard."""

    def __init__(self, namespace: Any) -> None:
        self.xp = namespace

    def exp(self, x: Array) -> Array:
        return self.xp.exp(x)

    def log(self, x: Array) -> Array:
        return self.xp.log(x)

    def log1p(self, x: Array) -> Array:
        return self.xp.log1p(x)

    def tanh(self, x: Array) -> Array:
        return self.xp.tanh(x)

    def abs(self, x: Array) -> Array:
        return self.xp.abs(x)

    def maximum(self, x: Array, y: Array) -> Array:
        return self.xp.clip(x, min=y) if isinstance(y, float) else self.xp.maximum(x, y)

    def minimum(self, x: Array, y: Array) -> Array:
        return self.xp.clip(x, max=y) if isinstance(y, float) else self.xp.minimum(x, y)

    def where(self, condition: Array, yes: Array, no: Array) -> Array:
        if isinstance(yes, float):
            yes = self.xp.full_like(no, yes)
        elif isinstance(no, float):
            no = self.xp.full_like(yes, no)
        return self.xp.where(condition, yes, no)

    def any(self, condition: Array) -> bool:
        return bool(self.xp.any(condition))

    def invert(self, condition: Array) -> Array:
        return ~condition

    def is_masked(self, x: Array) -> Array:
        return x == -np.inf

    def max(self, x: Array) -> Array:
        return self.xp.max(x, axis=-1, keepdims=True)

    def min(self, x: Array) -> Array:
        return self.xp.min(x, axis=-1, keepdims=True)

    def sum(self, x: Array) -> Array:
        return self.xp.sum(x, axis=-1, keepdims=True)

    def mean(self, x: Array) -> Array:
        return self.xp.mean(x, axis=-1, keepdims=True)

    def gaps(self, x: Array) -> Array:
        return x - self.max(x)

    def divide(self, x: Array, y: Array) -> Array:
        return x / y

    def softmax(self, gaps: Array) -> Array:
        weight = self.xp.exp(gaps)
        return weight / self.sum(weight)

    def log_softmax(self, gaps: Array) -> Array:
        return gaps - self.xp.log(self.sum(self.xp.exp(gaps)))

    def top(self, x: Array, k: int) -> Array:
        if is_torch_array(x):
            return x.topk(k, dim=-1).values
        return self.xp.sort(x, axis=-1, descending=True)[..., :k]

    def arg_max(self, x: Array) -> Array:
        return self.xp.argmax(x, axis=-1, keepdims=True)

    def take(self, x: Array, index: Array) -> Array:
        return self.xp.take_along_axis(x, index, axis=-1)

    def first_largest(self, x: Array) -> Array:
        columns = self.xp.arange(x.shape[-1], **place_of(x))
        return columns == self.arg_max(x)

    def concat(self, parts: Sequence[Array]) -> Array:
        return self.xp.concat(list(parts), axis=-1)

    def expand(self, x: Array) -> Array:
        return x[..., None]

    def drop(self, x: Array) -> Array:
        return x[..., 0]

    def matmul(self, x: Array, kernel: Array) -> Array:
        return x @ kernel

    def constant(self, values: Any, like: Array) -> Array:
        if isinstance(values, float):
            return values
        # copies: what a formula holds cannot be written to, which not every kind of array can say
        if values.dtype == bool:
            return as_kind(values.copy(), like)
        return self.xp.asarray(values.copy(), dtype=like.dtype, device=like.device)

    def full_like(self, x: Array, value: float) -> Array:
        return self.xp.full_like(x, value)

    def cast(self, x: Array, kind: Literal["float64"] | Array) -> Array:
        dtype = self.xp.float64 if isinstance(kind, str) else kind.dtype
        return self.xp.astype(x, dtype, copy=False)

    def eps(self, x: Array) -> float:
        return float(self.xp.finfo(x.dtype).eps)

    def look_up(self, x: Array, curves: Curves) -> Array:
        return as_kind(curves.values(to_numpy(x)), x)

    def interpolate(self, table: Array, position: Array) -> Array:
        last = table.shape[0] - 2
        cell = self.xp.clip(self.xp.astype(position, self.xp.int64), 0, last)
        flat = self.xp.reshape(cell, (-1,))
        left = self.xp.reshape(self.xp.take(table, flat, axis=0), position.shape)
        right = self.xp.reshape(self.xp.take(table, flat + 1, axis=0), position.shape)
        fraction = position - self.xp.astype(cell, position.dtype)
        return self.xp.minimum(left + fraction * (right - left), right)


class NumpyOps(ArrayOps):
    """The operations in NumPy, by the ways that are fast there."""

    def __init__(self) -> None:
        super().__init__(array_namespace(np.zeros(1)))

    def log(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(x)

    def log1p(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log1p(x)

    def maximum(self, x: Array, y: Array) -> Array:
        return np.maximum(x, y)

    def minimum(self, x: Array, y: Array) -> Array:
        return np.minimum(x, y)

    def where(self, condition: Array, yes: Array, no: Array) -> Array:
        return np.where(condition, yes, no)

    def max(self, x: Array) -> Array:
        return row_max(x)[:, None] if x.ndim == 2 else x.max(axis=-1, keepdims=True)

    @blas_flags_ignored
    def sum(self, x: Array) -> Array:
        """In float64 a row's sum does not depend on the rows around it: a step may follow."""
        if x.dtype != np.float64:
            return row_sums(x)[..., None]
        if x.ndim == 2 and x.shape[1] <= FEW_CLASSES:
            return reduce(np.add, list(x.T))[:, None]
        return x.sum(axis=-1, keepdims=True)

    def softmax(self, gaps: Array) -> Array:
        weight = np.exp(gaps)
        weight /= self.sum(weight)
        return weight

    def top(self, x: Array, k: int) -> Array:
        classes = x.shape[-1]
        if k < classes:
            x = np.partition(x, classes - k, axis=-1)[..., classes - k :]
        return np.sort(x, axis=-1)[..., ::-1]

    @blas_flags_ignored
    def matmul(self, x: Array, kernel: Array) -> Array:
        return x @ kernel

    def constant(self, values: Any, like: Array) -> Array:
        if isinstance(values, float) or values.dtype == bool:
            return values
        return values.astype(like.dtype, copy=False)

    def cast(self, x: NDArray[Any], kind: Literal["float64"] | Array) -> NDArray[Any]:
        return x.astype(np.float64 if isinstance(kind, str) else kind.dtype, copy=False)

    def look_up(self, x: Array, curves: Curves) -> Array:
        return curves.values(x)


NUMPY = NumpyOps()


def ops_of(array: Array) -> ArrayOps:
    """The operations that compute with such an array."""
    return NUMPY if is_numpy_array(array) else _by_namespace(array_namespace(array))


@cache
def _by_namespace(namespace: Any) -> ArrayOps:
    return ArrayOps(namespace)
