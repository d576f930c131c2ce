"""The operations of formulas by arrays: NumPy, in its fast ways, and every other namespace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from typing import Any, Literal, Self
from weakref import ref

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array
from numpy.typing import NDArray

from calibrant.common.arrays import (
    FEW_CLASSES,
    FEW_ROWS,
    laid_out,
    place_of,
    row_max,
    row_sums,
    to_numpy,
)
from calibrant.common.arrays import like as as_kind
from calibrant.common.types import Array
from calibrant.formulas._curves import Curves
from calibrant.formulas._sorting_networks import largest_columns

MOST_PRODUCTS = 2**18  # of a matrix product up to which BLAS starts no threads of its own
SHORTEST_STEP = 256  # rows: for larger matrices ``Formula.large_product`` sees to it
SORTED_CLASSES = 200  # up to here sorting a row is faster than parting it

# Products with a thin matrix may raise the "invalid" flag for lanes that BLAS loads and does not
# use, now and then, even where all is 0: no sign of a NaN.
blas_flags_ignored = np.errstate(invalid="ignore")
# -inf is the logarithm of 0, and what a gap too large for its float means.
numpy_flags_ignored = np.errstate(over="ignore", divide="ignore", invalid="ignore")


class ArrayOps:
    """The operations by a namespace of the array API standard."""

    def __init__(self, namespace: Any) -> None:
        self.xp = xp = namespace
        self.exp, self.log, self.log1p = xp.exp, xp.log, xp.log1p
        self.tanh, self.abs, self.full_like = xp.tanh, xp.abs, xp.full_like

    def maximum(self, x: Array, y: Array) -> Array:
        return self.xp.clip(x, min=y) if isinstance(y, float) else self.xp.maximum(x, y)

    def minimum(self, x: Array, y: Array) -> Array:
        return self.xp.clip(x, max=y) if isinstance(y, float) else self.xp.minimum(x, y)

    def clip(self, x: Array, low: Array, high: Array) -> Array:
        if isinstance(low, float) and isinstance(high, float):
            return self.xp.clip(x, low, high)
        return self.minimum(self.maximum(x, low), high)

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

    def gaps(self, x: Array, temperature: Array = 1.0) -> Array:
        gaps = x - self.max(x)
        if isinstance(temperature, float) and temperature == 1.0:
            return gaps
        return gaps / temperature

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

    def columns(self, x: Array, index: Any) -> Array:
        return self.xp.take(x, self.xp.asarray(index.copy(), **place_of(x)), axis=-1)

    def for_classes(self, count: int) -> Self:
        return self

    def concat(self, parts: Sequence[Array]) -> Array:
        return self.xp.concat(list(parts), axis=-1)

    def expand(self, x: Array) -> Array:
        return x[..., None]

    def drop(self, x: Array) -> Array:
        return x[..., 0]

    def matmul(self, x: Array, kernel: Array) -> Array:
        return x @ kernel

    def affine(self, x: Array, kernel: Array, bias: Array) -> Array:
        return x @ kernel + bias

    def constant(self, values: Any, like: Array) -> Array:
        if isinstance(values, int | float):
            return float(values)
        # copies: what a formula holds cannot be written to, which not every kind of array can say
        if values.dtype == bool:
            return as_kind(values.copy(), like)
        return self.xp.asarray(values.copy(), dtype=like.dtype, device=like.device)

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


# arrays of formulas in other floats, kept
_casts: dict[tuple[int, str], tuple[ref[NDArray[Any]], NDArray[Any]]] = {}


class NumpyOps(ArrayOps):
    """The operations in NumPy, by the ways that are fast there, inside ``numpy_flags_ignored``."""

    def __init__(self) -> None:
        super().__init__(array_namespace(np.zeros(1)))

    def maximum(self, x: Array, y: Array) -> Array:
        return np.maximum(x, y)

    def minimum(self, x: Array, y: Array) -> Array:
        return np.minimum(x, y)

    def clip(self, x: Array, low: Array, high: Array) -> Array:
        if isinstance(low, float) and isinstance(high, float):
            return np.clip(x, low, high)
        return np.minimum(np.maximum(x, low), high)  # faster than clip where bounds are arrays

    def where(self, condition: Array, yes: Array, no: Array) -> Array:
        return np.where(condition, yes, no)

    def max(self, x: Array) -> Array:
        if x.ndim != 2 or len(x) <= FEW_ROWS:
            return np.maximum.reduce(x, axis=-1, keepdims=True)
        return row_max(x)[:, None]

    def any(self, condition: Array) -> bool:
        return bool(np.count_nonzero(condition))

    def sum(self, x: Array) -> Array:
        """In float64 a row's sum does not depend on the rows around it: a step may follow."""
        wide, few = x.dtype == np.float64, len(x) <= FEW_ROWS
        if x.ndim == 2 and x.shape[1] <= FEW_CLASSES and (wide or not few):
            if few:  # one column after the other, too
                return np.add.accumulate(x, axis=1)[:, -1:]
            return reduce(np.add, list(x.T))[:, None]
        if wide or few:
            return np.add.reduce(x, axis=-1, keepdims=True)
        return row_sums(x)[..., None]

    def mean(self, x: Array) -> Array:
        if x.shape[-1] == 1:
            return x
        return self.sum(x) / x.shape[-1]

    def softmax(self, gaps: Array) -> Array:
        weight = np.exp(gaps)
        weight /= self.sum(weight)
        return weight

    def top(self, x: Array, k: int) -> Array:
        classes = x.shape[-1]
        if x.flags.fnc and classes <= FEW_CLASSES:
            return largest_columns(x, k)
        if classes > SORTED_CLASSES:
            x = _largest_of_blocks(x, k)
        largest = np.sort(x, axis=-1)[..., : -k - 1 : -1]
        return laid_out(largest) if x.ndim == 2 and len(x) > FEW_ROWS else largest

    def matmul(self, x: Array, kernel: Array) -> Array:
        if x.ndim > 2:
            return x @ kernel
        if len(x) <= FEW_ROWS:
            return x.dot(kernel)
        step = MOST_PRODUCTS // kernel.size
        if len(x) <= step or step < SHORTEST_STEP:
            return kernel.T.dot(x.T).T if x.flags.fnc else x.dot(kernel)
        result = np.empty((kernel.shape[1], len(x)), x.dtype)
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            np.matmul(kernel.T, x.T[:, part], out=result[:, part])
        return result.T

    def affine(self, x: Array, kernel: Array, bias: Array) -> Array:
        values = self.matmul(x, kernel)
        values += bias
        return values

    def constant(self, values: Any, like: Array) -> Array:
        if isinstance(values, float):
            return values
        if isinstance(values, int):
            return float(values)
        dtype = like.dtype
        kept = _casts.get((id(values), dtype.char))
        if kept is not None and kept[0]() is values:
            return kept[1]
        if values.dtype in (dtype, bool):
            return values
        result = values.astype(dtype)
        if not values.flags.writeable:  # the array of a formula, which is never written to
            key = id(values), dtype.char
            result.flags.writeable = False
            _casts[key] = ref(values, lambda _: _casts.pop(key, None)), result
        return result

    def cast(self, x: NDArray[Any], kind: Literal["float64"] | Array) -> NDArray[Any]:
        if x.dtype == (np.float64 if isinstance(kind, str) else kind.dtype):
            return x
        return x.astype(np.float64 if isinstance(kind, str) else kind.dtype)

    def look_up(self, x: Array, curves: Curves) -> Array:
        return curves.values(x)


def _largest_of_blocks(x: NDArray[Any], k: int) -> NDArray[Any]:
    """Few values of each row, the k largest among them: short blocks are sorted fastest."""
    rows, classes = x.shape
    if 4 * k > SORTED_CLASSES:
        return np.partition(x, classes - k, axis=-1)[:, classes - k :]
    blocks = classes // SORTED_CLASSES
    whole = x[:, : blocks * SORTED_CLASSES].reshape(rows * blocks, SORTED_CLASSES)
    largest = np.sort(whole, axis=-1)[:, -k:].reshape(rows, blocks * k)
    found = np.concatenate([largest, x[:, blocks * SORTED_CLASSES :]], axis=1)
    return _largest_of_blocks(found, k) if found.shape[1] > SORTED_CLASSES else found


class GuardedNumpyOps(NumpyOps):
    """The same, for anywhere: whatever raises flags without need has its own guard."""

    def __init__(self) -> None:
        super().__init__()
        self.log, self.log1p = numpy_flags_ignored(np.log), numpy_flags_ignored(np.log1p)

    gaps = numpy_flags_ignored(NumpyOps.gaps)
    matmul = numpy_flags_ignored(NumpyOps.matmul)


FAST_NUMPY = NumpyOps()
NUMPY = GuardedNumpyOps()


_by_namespace = cache(ArrayOps)


def ops_of(array: Array) -> ArrayOps:
    """The operations that compute with such an array."""
    return NUMPY if is_numpy_array(array) else _by_namespace(array_namespace(array))
