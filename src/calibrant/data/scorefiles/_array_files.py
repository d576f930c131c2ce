"""Files of arrays by name: NumPy's, safetensors, and torch's without the pickled objects."""

from __future__ import annotations

import json
import math
import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant.common.arrays import to_numpy
from calibrant.common.errors import FileError
from calibrant.common.extras import need
from calibrant.common.files import Expansion
from calibrant.data.npz import map_array, open_archive
from calibrant.data.scorefiles._copied_columns import is_row_array, text_array
from calibrant.data.scorefiles._names import NAMELESS, Arrays, OpenFile
from calibrant.formulas._safetensors import KEY

# Before, a file could run code in spite of ``weights_only``: CVE-2025-32434, CVE-2026-24747.
OLDEST_SAFE_TORCH = (2, 10)


@contextmanager
def open_npz(path: Path, allowed: Expansion) -> Iterator[OpenFile]:
    """An archive; an array is read when it is fetched."""
    with open_archive(path) as archive:

        def fetch(wanted: list[list[str]], labels: str | None) -> list[NDArray[Any]]:
            return archive.read([name for (name,) in wanted], allowed)

        def copied(names: list[str], n_rows: int) -> dict[str, NDArray[Any]]:
            heads = {name: archive.head(name) for name in names}
            fitting = [name for name, head in heads.items() if head and is_row_array(*head, n_rows)]
            return dict(zip(fitting, archive.read(fitting, allowed), strict=True))

        yield OpenFile(path, archive.names, fetch, copied=copied)


@contextmanager
def open_npy(path: Path, allowed: Expansion) -> Iterator[OpenFile]:
    """A single array, which stays on the disk, so that any size is allowed."""
    array = map_array(path)
    yield OpenFile(path, [NAMELESS], lambda wanted, labels: [array])


def write_npz(file: IO[bytes], arrays: Arrays) -> None:
    """All arrays by their names, of which ``file`` may be one: ``np.savez`` would refuse that."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def write_npy(file: IO[bytes], arrays: Arrays) -> None:
    """The probabilities: there is no room for more."""
    np.save(file, arrays["probs"])


@contextmanager
def open_safetensors(path: Path, allowed: Expansion) -> Iterator[OpenFile]:
    """Tensors of any dtype that NumPy knows, and bfloat16 as float32."""
    from safetensors import safe_open

    with safe_open(os.fspath(path), framework="numpy") as file:
        if KEY in (file.metadata() or {}):
            raise FileError(f"{path} is no file of scores: calibrant wrote it for a calibrator")

        def fetch(wanted: list[list[str]], labels: str | None) -> list[NDArray[Any]]:
            entries = [(name, file.get_slice(name)) for (name,) in wanted]
            size = 0
            for _, entry in entries:  # in memory, where bfloat16 is float32
                bits = re.findall(r"\d+", entry.get_dtype().replace("BF16", "F32"))  # BOOL has none
                size += math.prod(entry.get_shape()) * (int(bits[0]) // 8 if bits else 1)
            allowed.check(size)
            return [
                _bfloat16_tensor(path, name)
                if entry.get_dtype() == "BF16"
                else np.asarray(file.get_tensor(name))
                for name, entry in entries
            ]

        def copied(names: list[str], n_rows: int) -> dict[str, NDArray[Any]]:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
            fitting = [one for one, shape in shapes.items() if _has_rows(shape, n_rows)]
            return dict(zip(fitting, fetch([[name] for name in fitting], None), strict=True))

        yield OpenFile(path, list(file.keys()), fetch, copied=copied)


def _has_rows(shape: tuple[int, ...], n_rows: int) -> bool:
    return is_row_array(shape, np.dtype(np.float32), n_rows)  # all tensors hold numbers


def _bfloat16_tensor(path: Path, name: str) -> NDArray[np.float32]:
    # NumPy has no bfloat16: read its bits, which are the upper half of a float32's
    with path.open("rb") as raw:
        header_size = int.from_bytes(raw.read(8), "little")
        entry = json.loads(raw.read(header_size))[name]
        first, last = entry["data_offsets"]
        raw.seek(8 + header_size + first)
        bits = np.frombuffer(raw.read(last - first), "<u2").astype(np.uint32)
    return (bits << 16).view(np.float32).reshape(entry["shape"])


@contextmanager
def open_torch(path: Path, allowed: Expansion) -> Iterator[OpenFile]:
    """A tensor, or the tensors in a dictionary."""
    torch = need("torch", "torch", f"{path.suffix} files need", OLDEST_SAFE_TORCH)
    if zipfile.is_zipfile(path):  # all of it is read, and torch would expand what is compressed
        with zipfile.ZipFile(path) as archive:
            allowed.check(sum(info.file_size for info in archive.infolist()))
    with warnings.catch_warnings():  # torch's, about what it will refuse
        warnings.simplefilter("ignore")
        content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, torch.Tensor):
        content = {NAMELESS: content}
    if not isinstance(content, Mapping):
        kind = type(content).__name__
        raise FileError(f"{path} must hold a tensor or a dictionary of tensors, got a {kind}")
    tensors = {str(name): value for name, value in content.items() if torch.is_tensor(value)}
    texts = {
        str(name): value
        for name, value in content.items()
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value)
    }

    def fetch(wanted: list[list[str]], labels: str | None) -> list[NDArray[Any]]:
        for (name,) in wanted:
            if name in texts:
                raise FileError(f"{path}: {name!r} must hold numbers, got a list of texts")
        chosen = [tensors[name] for (name,) in wanted]
        # a few stored numbers can be a tensor of any size, by strides of 0
        allowed.check(sum(tensor.nbytes for tensor in chosen))
        return [to_numpy(tensor) for tensor in chosen]

    def copied(names: list[str], n_rows: int) -> dict[str, NDArray[Any]]:
        fitting = [n for n in names if n in tensors and _has_rows(tuple(tensors[n].shape), n_rows)]
        arrays = dict(zip(fitting, fetch([[name] for name in fitting], None), strict=True))
        some = {name: texts[name] for name in names if len(texts.get(name, ())) == n_rows}
        return {**arrays, **{name: text_array(one) for name, one in some.items()}}

    names = [name for name in map(str, content) if name in {*tensors, *texts}]
    yield OpenFile(path, names, fetch, copied=copied)


def write_safetensors(file: IO[bytes], arrays: Arrays) -> None:
    """All arrays by their names."""
    from safetensors.numpy import save

    file.write(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def write_torch(file: IO[bytes], arrays: Arrays) -> None:
    """A dictionary of tensors, and of lists where an array holds texts."""
    torch = need("torch", "torch", ".pt files need")
    content = {
        name: array.tolist()
        if array.dtype.kind in "UO"
        else torch.from_numpy(np.require(array, requirements=["C", "W"]))
        for name, array in arrays.items()
    }
    torch.save(content, file)
