"""NumPy's own files: archives of named arrays, and single arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from calibrant._errors import FileError
from calibrant.scorefiles._contents import NAMELESS, Arrays, Source


@contextmanager
def open_npz(path: Path) -> Iterator[Source]:
    """An archive; an array is read when it is fetched."""
    with path.open("rb") as file:  # ours to close: np.load leaves a damaged file open
        arrays = np.load(file, allow_pickle=False)
        if isinstance(arrays, np.ndarray):
            raise FileError(f"{path} is a single array, not an archive: call it .npy")
        yield Source(path, arrays.files, lambda wanted: [arrays[name] for (name,) in wanted])


@contextmanager
def open_npy(path: Path) -> Iterator[Source]:
    """A single array, which stays on the disk."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        array.close()
        raise FileError(f"{path} is an archive of arrays: call it .npz")
    yield Source(path, [NAMELESS], lambda wanted: [array])


def write_npz(file: IO[bytes], arrays: Arrays) -> None:
    """All arrays by their names."""
    np.savez(file, **arrays)


def write_npy(file: IO[bytes], arrays: Arrays) -> None:
    """The probabilities: there is no room for more."""
    np.save(file, arrays["probs"])
