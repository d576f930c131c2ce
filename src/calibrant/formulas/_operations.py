"""What a formula may do with arrays: one interface, one implementation per way of computing.

A formula is written once, in these operations and Python's operators, and computed by all that
implement them: NumPy and every namespace of the array API standard (``_array_operations``), in
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
        """Compute exp(x)."""

    def log(self, x: Array) -> Array:
        """Compute the natural logarithm; -inf at 0."""

    def log1p(self, x: Array) -> Array:
        """Compute log(1 + x), exactly for a small x."""

    def tanh(self, x: Array) -> Array:
        """Compute tanh(x)."""

    def abs(self, x: Array) -> Array:
        """Compute the absolute value."""

    def maximum(self, x: Array, y: Array) -> Array:
        """Compute the larger of two values."""

    def minimum(self, x: Array, y: Array) -> Array:
        """Compute the smaller of two values."""

    def clip(self, x: Array, low: Array, high: Array) -> Array:
        """Bring values within bounds."""

    def where(self, condition: Array, yes: Array, no: Array) -> Array:
        """Choose between two values by a condition."""

    def any(self, condition: Array) -> bool:
        """Say whether a condition holds anywhere."""

    def invert(self, condition: Array) -> Array:
        """Negate a condition."""

    def is_masked(self, x: Array) -> Array:
        """Find masked classes, whose value is -inf."""

    def max(self, x: Array) -> Array:
        """Compute the largest value of each row."""

    def min(self, x: Array) -> Array:
        """Compute the smallest value of each row."""

    def sum(self, x: Array) -> Array:
        """Compute the sum of each row."""

    def mean(self, x: Array) -> Array:
        """Compute the mean of each row."""

    def gaps(self, x: Array, temperature: Array = 1.0) -> Array:
        """Subtract the largest value of each row, then divide by T, so that nothing overflows."""

    def divide(self, x: Array, y: Array) -> Array:
        """Compute x / y, where a masked x stays masked."""

    def softmax(self, gaps: Array) -> Array:
        """Compute the softmax of each row, whose largest value is 0 or near it."""

    def log_softmax(self, gaps: Array) -> Array:
        """Compute the logarithm of that softmax, finite where the gap is."""

    def top(self, x: Array, k: int) -> Array:
        """Give the k largest values of each row in decreasing order."""

    def arg_max(self, x: Array) -> Array:
        """Find the index of the first largest value of each row, (.., 1)."""

    def take(self, x: Array, index: Array) -> Array:
        """Pick one value of each row by its index (.., 1)."""

    def first_largest(self, x: Array) -> Array:
        """Mark the first largest value of each row."""

    def columns(self, x: Array, index: Any) -> Array:
        """Pick the same columns of every row; the index is a field of a formula."""

    def for_classes(self, count: int) -> Ops:
        """Give the same operations for rows of another length."""

    def concat(self, parts: Sequence[Array]) -> Array:
        """Lay columns side by side, along the last axis."""

    def expand(self, x: Array) -> Array:
        """Add a last axis of length 1."""

    def drop(self, x: Array) -> Array:
        """Drop a last axis of length 1."""

    def matmul(self, x: Array, kernel: Array) -> Array:
        """Multiply rows (.., n) by a matrix (n, m)."""

    def affine(self, x: Array, kernel: Array, bias: Array) -> Array:
        """Multiply rows (.., n) by a matrix (n, m) and add a vector (m,)."""

    def constant(self, values: Any, like: Array) -> Array:
        """Turn a formula's own number or array into an array like another, or a float."""

    def full_like(self, x: Array, value: float) -> Array:
        """Make an array of the same shape and precision that holds one number everywhere."""

    def cast(self, x: Array, kind: Literal["float64"] | Array) -> Array:
        """Convert to float64, or to another array's precision; booleans become 0 and 1."""

    def eps(self, x: Array) -> float:
        """Give the distance from 1 to the next float of the array's precision."""

    def look_up(self, x: Array, curves: Curves) -> Array:
        """Put each column of float64 values through its curve, or all through one."""

    def interpolate(self, table: Array, position: Array) -> Array:
        """Read a table (m,) at places between 0 and m - 1, linearly between its entries."""
