"""NumPy's own files: archives of named arrays, and single arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant.common.untrusted_files import Expansion
from calibrant.data.npz import Archive, map_array, open_archive
from calibrant.data.scorefiles._contents import NAMELESS, Arrays, Source
from calibrant.data.scorefiles._passing import is_row_array


@contextmanager
def open_npz(path: Path, allowed: Expansion) -> Iterator[Source]:
    """An archive; an array is read when it is fetched."""
    with open_archive(path) as archive:
        yield Source(
            path,
            archive.names,
            lambda wanted, labels: archive.read([name for (name,) in wanted], allowed),
            copied=lambda names, n_rows: _copied(archive, allowed, names, n_rows),
        )


def _copied(
    archive: Archive, allowed: Expansion, names: list[str], n_rows: int
) -> dict[str, NDArray[Any]]:
    heads = {name: archive.head(name) for name in names}
    fitting = [name for name, head in heads.items() if head and is_row_array(*head, n_rows)]
    return dict(zip(fitting, archive.read(fitting, allowed), strict=True))


@contextmanager
def open_npy(path: Path, allowed: Expansion) -> Iterator[Source]:
    """A single array, which stays on the disk, so that any size is allowed."""
    array = map_array(path)
    yield Source(path, [NAMELESS], lambda wanted, labels: [array])


def write_npz(file: IO[bytes], arrays: Arrays) -> None:
    """All arrays by their names, of which ``file`` may be one: ``np.savez`` would refuse that."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def write_npy(file: IO[bytes], arrays: Arrays) -> None:
    """The probabilities: there is no room for more."""
    np.save(file, arrays["probs"])
