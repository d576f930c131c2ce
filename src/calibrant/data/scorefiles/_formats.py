"""All formats by the end of a file's name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from calibrant.common.files import Expansion, check_suffix
from calibrant.data.scorefiles import _array_files as arrays
from calibrant.data.scorefiles._csv_files import open_csv, write_csv
from calibrant.data.scorefiles._names import Arrays, OpenFile
from calibrant.data.scorefiles._parquet_files import open_parquet, write_parquet


@dataclass(frozen=True)
class Format:
    """A way to read and a way to write a file, and what messages call such a file.

    ``kinds`` are NumPy's letters for the types of arrays that it can hold; ``any_type`` says that
    it can hold whatever Arrow can.
    """

    what: str
    open: Callable[[Path, Expansion], AbstractContextManager[OpenFile]]
    write: Callable[[IO[bytes], Arrays], None]
    kinds: str = "biufUOSMm"
    any_type: bool = False


_TORCH = Format("a file of torch tensors", arrays.open_torch, arrays.write_torch, "biufUO")
_FORMATS = {
    ".npz": Format("a NumPy archive", arrays.open_npz, arrays.write_npz),
    ".npy": Format("a NumPy array", arrays.open_npy, arrays.write_npy),
    ".csv": Format("a table of text", open_csv, write_csv, "biufUOMm"),
    ".parquet": Format("a parquet table", open_parquet, write_parquet, any_type=True),
    ".pt": _TORCH,
    ".pth": _TORCH,
    ".safetensors": Format(
        "a safetensors file", arrays.open_safetensors, arrays.write_safetensors, kinds="biuf"
    ),
}


SUFFIXES = tuple(_FORMATS)


def format_of(path: Path) -> Format:
    """The format that a file's name asks for."""
    check_suffix(path, SUFFIXES)
    return _FORMATS[path.suffix.lower()]
