"""A safe file: arrays and a JSON document in safetensors, with a checksum over both.

Nothing in such a file can run code. It is written under a temporary name and renamed, so a reader
never sees half of one. Reading, nothing is believed: the header must be small and describe the
file's bytes to the last one before anything is allocated, and the checksum is that of the file as
it streams by, before its arrays are read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as to_bytes

from calibrant.common import json as _json
from calibrant.common.errors import FileError
from calibrant.common.files import replacing, similar_file

KEY = "calibrant"
FORMAT_VERSION = 2
READABLE = (2,)  # versions that are read; a new one is added, and old ones stay

MOST_HEADER = 2**22  # bytes: names, shapes and a document are small, and JSON is not when parsed
MOST_DIMENSIONS = 8
CHUNK = 2**20  # bytes that are hashed at once
DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}


# --- writing ----------------------------------------------------------------------------------


def write(
    path: str | os.PathLike[str],
    kind: str,
    document: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write ``document`` (JSON values) and ``arrays`` as a file of the given kind."""
    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = {"kind": kind, "version": FORMAT_VERSION, **document}
    body = json.dumps(content, allow_nan=False, default=_plain)
    header = json.dumps({"body": body, "sha256": _digest(body, tensors)})
    # safetensors refuses a file without tensors
    payload = to_bytes(tensors or {"empty": np.zeros(0, np.float32)}, metadata={KEY: header})
    size = int.from_bytes(payload[:8], "little")
    if size > MOST_HEADER:
        raise ValueError(f"all but arrays must fit into {MOST_HEADER} bytes of a file, got {size}")
    with replacing(path) as file:
        file.write(payload)


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a file cannot hold a {type(value).__name__}")


def _digest(body: str, tensors: Mapping[str, NDArray[Any] | _Tensor]) -> str:
    """The checksum over a document and its arrays, those of a file a few bytes at a time."""
    digest = hashlib.sha256(body.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\0{name}\0{tensor.dtype.str}\0{tensor.shape}\0".encode())
        if isinstance(tensor, np.ndarray):
            digest.update(np.ascontiguousarray(tensor).data)
            continue
        tensor.file.seek(tensor.begin)
        for start in range(tensor.begin, tensor.end, CHUNK):
            digest.update(tensor.file.read(min(CHUNK, tensor.end - start)))
    return digest.hexdigest()


# --- reading ----------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The document, which names its ``kind``, and the arrays of a file, checked."""
    name = os.fspath(path)
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {name}{similar_file(Path(path))}")
    with open(path, "rb") as file:
        try:
            metadata, tensors = _layout(file)
        except ValueError as error:
            if Path(name).suffix.lower() in ("", ".safetensors"):
                raise FileError(f"{name} is not a whole safetensors file: {error}") from None
            raise FileError(
                f"{name} is not a file that calibrant wrote: calibrators, profiles and meters are "
                ".safetensors files"
            ) from None
        if KEY not in metadata:
            raise FileError(f"{name} is a safetensors file, but calibrant did not write it")
        try:
            body, stored, document = _checked_header(metadata[KEY])
        except (ValueError, TypeError):
            raise FileError(f"{name} has a damaged header") from None
        if stored != _digest(body, tensors):
            raise FileError(f"{name} was changed after it was written: its SHA-256 does not match")
        version = document.get("version")
        if isinstance(version, bool) or version not in READABLE:
            raise FileError(
                f"{name} has format version {version!r:.40}, this calibrant reads version "
                f"{FORMAT_VERSION}: it needs another release of calibrant"
            )
        if not isinstance(document.get("kind"), str):
            raise FileError(f"{name} does not say what it holds")
        try:
            return document, {key: tensor.read() for key, tensor in tensors.items()}
        except ValueError:
            raise FileError(f"{name} was changed while it was read") from None


def _checked_header(text: str) -> tuple[str, str, dict[str, Any]]:
    """The document as text, its checksum, and the document."""
    header = _json.loads(text)
    if not isinstance(header, dict) or header.keys() != {"body", "sha256"}:
        raise ValueError("no document and checksum")
    body, digest = header["body"], header["sha256"]
    if not (isinstance(body, str) and isinstance(digest, str)):
        raise TypeError("no text")
    body.encode()  # refuses lone surrogates
    document = _json.loads(body)
    if not isinstance(document, dict):
        raise TypeError("no object")
    return body, digest, document


@dataclass(frozen=True)
class _Tensor:
    """Where an array lies in a file."""

    file: BinaryIO
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int

    def read(self) -> NDArray[Any]:
        self.file.seek(self.begin)
        array = np.fromfile(self.file, self.dtype, prod(self.shape))
        if self.dtype == bool:
            array = array.view(np.uint8) != 0  # a byte of 2 is no truth value to NumPy
        return array.reshape(self.shape)


# --- the layout of safetensors ----------------------------------------------------------------


def _layout(file: BinaryIO) -> tuple[dict[str, str], dict[str, _Tensor]]:
    """The metadata and where the arrays lie; ValueError where they are not the whole file.

    The arrays of a file that is not ours are not looked at: they may be of types that NumPy lacks.
    """
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise ValueError(f"it has {size} bytes, and a header of {length}")
    if length > MOST_HEADER:
        raise ValueError(f"its header has {length} bytes, more than any file of calibrant")
    header = _json.loads(file.read(length).decode())
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("its metadata are no texts")
    if KEY not in metadata:
        return metadata, {}
    at = 8 + length
    tensors = {name: _tensor(file, entry, at, size) for name, entry in header.items()}
    for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.begin, tensor.end)):
        if tensor.begin != at:
            raise ValueError("its arrays overlap, or leave room between them")
        at = tensor.end
    if at != size:
        raise ValueError(f"it has {size} bytes, and its arrays end at {at}")
    nothing = _Tensor(file, np.dtype(np.float32), (0,), at, at)
    return metadata, {} if tensors == {"empty": nothing} else tensors


def _tensor(file: BinaryIO, entry: Any, start: int, size: int) -> _Tensor:
    """One entry of the header, as far as it can be true of a file of so many bytes."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError("an array has no dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in DTYPES:
        raise ValueError(f"an array has the dtype {kind!r:.40}")
    if not _are_sizes(shape, size) or len(shape) > MOST_DIMENSIONS:
        raise ValueError("an array has no possible shape")
    if not _are_sizes(offsets, size) or len(offsets) != 2:
        raise ValueError("an array lies outside")
    dtype = np.dtype(DTYPES[kind])
    begin, end = offsets
    if end - begin != prod(shape) * dtype.itemsize:
        raise ValueError("an array is not as large as its shape says")
    return _Tensor(file, dtype, tuple(shape), start + begin, start + end)


def _are_sizes(values: Any, most: int) -> bool:
    """Whether these are whole numbers that a file of ``most`` bytes can have as sizes."""
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
        for value in values
    )
