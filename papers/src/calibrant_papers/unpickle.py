"""Read the pickled CIFAR batches without running anything that a pickle may ask for.

A pickle names functions and calls them. Here only NumPy's array builders can be named, so a
tampered file ends in an error and never in foreign code.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import FileError


def _dtype(code: str, align: object = False, copy: object = False) -> np.dtype[Any]:
    # Python 2 wrote the flags as 0 and 1, which NumPy no longer takes for booleans.
    return np.dtype(code, bool(align), bool(copy))


def _latin1(text: str, encoding: str) -> bytes:
    # How Python 3 writes bytes into a pickle of protocol 2.
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes must be written as latin1, got {encoding!r}")
    return text.encode("latin1")


_reconstruct = np.empty(0).__reduce__()[0]  # NumPy's own, wherever this release keeps it
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("_codecs", "encode"): _latin1,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, and only plain arrays are allowed"
            ) from None


def read_arrays(path: Path) -> dict[str, Any]:
    """The dictionary of arrays, lists and texts in a pickle, with its keys as text."""
    raw = path.read_bytes()
    try:
        # Python 2 strings hold the pixels: latin1 maps every byte to one character and back.
        content = _ArraysOnly(io.BytesIO(raw), encoding="latin1").load()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise FileError(f"{path} is not a CIFAR batch: {error}") from error
    if not isinstance(content, dict):
        raise FileError(f"{path} is not a CIFAR batch: it holds a {type(content).__name__}")
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): value
        for key, value in content.items()
    }
