"""NumPy's files, read with care: what a header claims is compared with what is there first."""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant.common.errors import FileError
from calibrant.common.files import Expansion

ARCHIVE = b"PK"
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # all that NumPy writes
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class PickledError(ValueError):
    """An array of Python objects, which are never loaded: loading them could run any code."""

    def __init__(self) -> None:
        super().__init__("holds pickled objects, which are never loaded: save an array of numbers")


class Archive:
    """An open archive: its names, and a way to read arrays that asks for their memory first."""

    def __init__(self, path: Path, opened: zipfile.ZipFile) -> None:
        self.path, self._zip = path, opened
        members = opened.infolist()
        counts = Counter(info.filename.removesuffix(".npy") for info in members)
        for name, count in counts.items():
            if count > 1:
                raise FileError(f"{path} has {count} arrays by the name of {name!r}")
        self._members = dict(zip(counts, members, strict=True))

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return list(self._members)

    def read(self, names: list[str], allowed: Expansion) -> list[NDArray[Any]]:
        """The arrays of these names, if they are as large as their headers claim, and may be."""
        total = 0
        for name in names:
            info = self._members[name]
            if info.compress_type not in _COMPRESSIONS:
                raise FileError(
                    f"{self.path}: {name!r} is compressed in a way that NumPy never uses"
                )
            with self._zip.open(info) as member:
                try:
                    claimed = claimed_size(member)
                except PickledError as error:
                    raise FileError(f"{self.path}: {name!r} {error}") from None
                there = info.file_size - member.tell()
            if claimed != there:
                raise _lie(f"the header of {name!r}", claimed, there)
            total += claimed
        allowed.check(total)
        arrays = []
        for name in names:
            with self._zip.open(self._members[name]) as member:
                arrays.append(np.asarray(npy.read_array(member, allow_pickle=False)))
        return arrays

    def head(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """The shape and type of an array; None where it is not a plain array."""
        try:
            with self._zip.open(self._members[name]) as member:
                shape, dtype = _header(member)
        except ValueError:
            return None
        return None if dtype.hasobject else (shape, dtype)


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """An archive of named arrays; they are read when they are asked for."""
    with path.open("rb") as file:
        if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            raise FileError(f"{path} is a single array, not an archive: call it .npy")
        with zipfile.ZipFile(file) as opened:
            yield Archive(path, opened)


def map_array(path: Path) -> NDArray[Any]:
    """A single array, which stays on the disk."""
    with path.open("rb") as file:
        if file.read(len(ARCHIVE)) == ARCHIVE:
            raise FileError(f"{path} is an archive of arrays: call it .npz")
        file.seek(0)
        claimed = claimed_size(file)
        there = path.stat().st_size - file.tell()
    if claimed > there:
        raise _lie("its header", claimed, there)
    mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def claimed_size(file: IO[bytes]) -> int:
    """The bytes of data that the header of an array claims; the file then stands behind it."""
    shape, dtype = _header(file)
    if dtype.hasobject:
        raise PickledError
    return math.prod(shape) * int(dtype.itemsize)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of NumPy's format is not for plain arrays")
    shape, _, dtype = _HEADERS[version](file)
    return shape, dtype


def _lie(header: str, claimed: int, there: int) -> ValueError:
    return ValueError(f"{header} claims {claimed:,} bytes of data, but there are {there:,}")
