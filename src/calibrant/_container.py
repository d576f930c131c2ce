"""A safe file: arrays and a JSON document in safetensors, with a checksum over both.

Nothing in such a file can run code. It is written under a temporary name and renamed, so a reader
never sees half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from calibrant._errors import FileError
from calibrant._files import replacing

_KEY = "calibrant"
FORMAT_VERSION = 2
READABLE = (2,)  # versions that are read; a new one is added, and old ones stay


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
    payload = to_bytes(tensors or {"empty": np.zeros(0, np.float32)}, metadata={_KEY: header})
    with replacing(path) as file:
        file.write(payload)


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a file cannot hold a {type(value).__name__}")


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The document, which names its ``kind``, and the arrays of a file, checked."""
    name = os.fspath(path)
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {name}")
    try:
        with safe_open(name, framework="numpy") as file:
            metadata = file.metadata() or {}
            # what others wrote may be huge, or of a dtype that NumPy does not know
            keys = file.keys() if _KEY in metadata else ()
            tensors = {key: file.get_tensor(key) for key in keys}
    except (SafetensorError, ValueError, OSError) as error:
        raise FileError(f"{name} is not a whole safetensors file: {error}") from None
    if _KEY not in metadata:
        raise FileError(f"{name} is a safetensors file, but calibrant did not write it")
    body, stored = _header(name, metadata[_KEY])
    if tensors.keys() == {"empty"}:
        tensors = {}
    if stored != _digest(body, tensors):
        raise FileError(f"{name} was changed after it was written: its SHA-256 does not match")
    document = json.loads(body)
    if document.get("version") not in READABLE:
        raise FileError(
            f"{name} has format version {document.get('version')}, this calibrant reads version "
            f"{FORMAT_VERSION}: it needs another release of calibrant"
        )
    if not isinstance(document.get("kind"), str):
        raise FileError(f"{name} does not say what it holds")
    return document, tensors


def _header(name: str, text: str) -> tuple[str, str]:
    try:
        header = json.loads(text)
        body, digest = header["body"], header["sha256"]
        if not isinstance(json.loads(body), dict):
            raise TypeError
        return str(body), str(digest)
    except (ValueError, KeyError, TypeError):
        raise FileError(f"{name} has a damaged header") from None


def _digest(body: str, tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(body.encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
