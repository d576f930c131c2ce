"""NumPy's own files: archives of named arrays, and single arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from calibrant._foreign_files import Expansion
from calibrant._npz import map_array, open_archive
from calibrant.scorefiles._contents import NAMELESS, Arrays, Source


@contextmanager
def open_npz(path: Path, allowed: Expansion) -> Iterator[Source]:
    """An archive; an array is read when it is fetched."""
    with open_archive(path) as archive:
        yield Source(
            path,
            archive.names,
            lambda wanted: archive.read([name for (name,) in wanted], allowed),
        )


@contextmanager
def open_npy(path: Path, allowed: Expansion) -> Iterator[Source]:
    """A single array, which stays on the disk, so that any size is allowed."""
    array = map_array(path)
    yield Source(path, [NAMELESS], lambda wanted: [array])


def write_npz(file: IO[bytes], arrays: Arrays) -> None:
    """All arrays by their names."""
    np.savez(file, **arrays)


def write_npy(file: IO[bytes], arrays: Arrays) -> None:
    """The probabilities: there is no room for more."""
    np.save(file, arrays["probs"])
