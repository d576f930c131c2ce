"""Arrays of any library: where they lie, how they are cut into tiles, and quick row reductions."""

from __future__ import annotations

import os
from functools import reduce
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_cupy_array, is_numpy_array, is_torch_array
from numpy.typing import NDArray

from calibrant.common.types import Array

TILE_ELEMENTS = 131_072  # large enough that threads do not wait for the interpreter
DEVICE_TILE_ELEMENTS = 16 * 1024 * 1024  # an accelerator wants large tiles
_WORKING = {np.dtype(np.float32), np.dtype(np.float64)}
FEW_CLASSES = 32  # up to here columns are worked through one by one
FEW_ROWS = 16  # .. but for so few rows the calls cost more than they save


def as_working_float(array: Array) -> Array:
    """float64 stays, integers become float64, all other floats become float32."""
    if type(array) is np.ndarray and array.dtype in _WORKING:
        return array
    xp = array_namespace(array)
    if array.dtype == xp.float64 or array.dtype == xp.float32:
        return array
    narrow = "float16" in str(array.dtype)  # float16 and bfloat16
    if is_numpy_array(array) and not array.dtype.isnative:
        narrow = array.dtype.kind == "f" and array.dtype.itemsize < 8
    return xp.astype(array, xp.float32 if narrow else xp.float64)


def to_numpy(array: Array) -> NDArray[Any]:
    """The array in main memory as NumPy; without a copy where it lies there already."""
    if is_numpy_array(array):
        return np.asarray(array)
    if is_torch_array(array):
        array = array.detach().cpu()
        if "bfloat16" in str(array.dtype):
            array = array.float()
        return np.asarray(array.numpy())
    if is_cupy_array(array):
        return np.asarray(array.get())
    return np.asarray(array)


def like(values: NDArray[Any], reference: Array) -> Array:
    """NumPy values as an array of the reference's kind, on its device."""
    if type(reference) is np.ndarray or is_numpy_array(reference):
        return values
    return array_namespace(reference).asarray(values, device=reference.device)


def place_of(reference: Array) -> dict[str, Any]:
    """The keywords that make a new array lie where the reference does."""
    return {} if is_numpy_array(reference) else {"device": reference.device}


def on_host(array: Array) -> bool:
    """Whether the array lies in main memory, so that NumPy on threads is the fast way."""
    if type(array) is np.ndarray:
        return True
    return is_numpy_array(array) or (is_torch_array(array) and array.device.type == "cpu")


def has_kernels(array: Array) -> bool:
    """Whether it is a tensor on a GPU of NVIDIA's, for which ``_kernels`` may be used.

    The variable ``CALIBRANT_KERNELS=0`` of the environment turns them off.
    """
    if not is_torch_array(array) or array.device.type != "cuda":
        return False
    import torch

    return torch.version.cuda is not None and os.environ.get("CALIBRANT_KERNELS") != "0"


def row_tiles(array: Array, elements: int = TILE_ELEMENTS) -> list[slice]:
    """Slices of rows that hold about so many elements each; an empty one where there are none."""
    rows, classes = array.shape
    step = max(1, elements // classes)
    return [slice(start, min(start + step, rows)) for start in range(0, max(rows, 1), step)]


def even_tiles(rows: int, most: int) -> list[slice]:
    """Slices of at most so many rows, about as many each, an even number if there are several."""
    count = -(-max(rows, 1) // most)
    count += count % 2 if count > 1 else 0
    step = max(1, -(-rows // count))
    return [slice(start, min(start + step, rows)) for start in range(0, max(rows, 1), step)]


def laid_out(tile: NDArray[Any]) -> NDArray[Any]:
    """Rows in the layout in which NumPy is fast: short ones lie by columns.

    It depends on the shape alone: sums of rows follow the layout.
    """
    if tile.shape[1] <= FEW_CLASSES and len(tile) > FEW_ROWS:
        return np.asfortranarray(tile)
    return np.ascontiguousarray(tile)


def row_sums(tile: Array) -> Array:
    """The sum of each row of floats."""
    if is_numpy_array(tile):  # several times faster than NumPy's own sum
        return np.einsum("...i->...", tile)
    return array_namespace(tile).sum(tile, axis=1)


def row_max(tile: Array) -> Array:
    """The largest value of each row of floats; NaN where there is one."""
    if not isinstance(tile, np.ndarray):
        return array_namespace(tile).max(tile, axis=1)
    if len(tile) <= FEW_ROWS:
        return np.maximum.reduce(tile, axis=1)
    if tile.shape[1] <= FEW_CLASSES:  # NumPy is slow along short rows: down the columns instead
        return reduce(np.maximum, list(tile.T))
    return tile[np.arange(len(tile)), tile.argmax(axis=1)]  # twice as fast as its own max
