"""What a formula may do with arrays: one interface, one implementation per way of computing.

A formula is written once, in these operations and Python's operators, and computed by all that
implement them: NumPy and every namespace of the array API standard (``_array_ops``), in
``calibrant.torch`` the modules, in ``calibrant.onnx`` a graph that is written instead of computed.
All operations work along the last axis, that of the classes; reductions keep it, with length 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from calibrant.common.types import Array
from calibrant.formulas._curves import Curves


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

    def clip(self, x: Array, low: Array, high: Array) -> Array:
        """Bring values within bounds.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.
        low : array or float
            The lower bound.
        high : array or float
            The upper bound.

        Returns
        -------
        array of shape (.., n)
            The nearest values within the bounds, elementwise.
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

    def columns(self, x: Array, index: Any) -> Array:
        """Pick the same columns of every row.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.
        index : array of int of shape (k,)
            Which ones: a field of a formula.

        Returns
        -------
        array of shape (.., k)
            The columns, in the order of ``index``.
        """

    def for_classes(self, count: int) -> Ops:
        """Give the same operations for rows of another length.

        Parameters
        ----------
        count : int
            The number of columns.

        Returns
        -------
        Ops
            The operations.
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

    def affine(self, x: Array, kernel: Array, bias: Array) -> Array:
        """Multiply rows by a matrix and add a vector.

        Parameters
        ----------
        x : array of shape (.., n)
            Any values.
        kernel : array of shape (n, m)
            The matrix.
        bias : array of shape (m,)
            The vector.

        Returns
        -------
        array of shape (.., m)
            The sums.
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
