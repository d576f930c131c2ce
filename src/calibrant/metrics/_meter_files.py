"""A meter's document and arrays as JSON text and as an Arrow table, each with its checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from reprlib import repr as shown
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common import json as _json
from calibrant.common.extras import need
from calibrant.common.json import START, sealed, unsealed

FORMAT = "calibrant-meter-2"

Arrays = Mapping[str, NDArray[Any]]
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]

_DTYPES = {"counts": np.int64, "sums": np.float64}


# --- JSON -------------------------------------------------------------------------------------


def to_json(document: Mapping[str, Any], arrays: Arrays) -> str:
    """Text that keeps every bit: Python writes floats so that they read back the same."""
    body = json.dumps(
        {"format": FORMAT, **document, **{name: arrays[name].tolist() for name in _DTYPES}},
        allow_nan=False,
    )
    return sealed(body)


def from_json(text: str) -> State:
    """The document and arrays of ``to_json``; any other text is refused."""
    text = text.strip()
    body = unsealed(text)
    if body is None:
        raise ValueError(_what_is_wrong(text))
    document = _known(_json.loads(body))
    # The numbers as they were written: whole ones stay whole, and are checked as such.
    lists = {name: document.pop(name, ()) for name in _DTYPES}
    arrays = {
        name: np.asarray(values) if values else np.zeros(0, _DTYPES[name])
        for name, values in lists.items()
    }
    return document, arrays


def _what_is_wrong(text: str) -> str:
    """Why a text is not that of a meter."""
    if not text.startswith(START):
        try:
            document = _json.loads(text)
        except ValueError as error:
            return f"a meter must be JSON text, got {text[:40]!r}: {error}"
        try:
            _known(document)
        except ValueError as error:
            return str(error)
    return _CHANGED


# --- Arrow ------------------------------------------------------------------------------------


def to_arrow(document: Mapping[str, Any], arrays: Arrays) -> Any:
    """A table of one row; tables of several meters concatenate."""
    arrow = need("pyarrow", "parquet", "Arrow tables need")
    body = json.dumps({"format": FORMAT, **document})
    kinds = {"counts": arrow.int64(), "sums": arrow.float64()}
    columns = {"settings": arrow.array([body]), "sha256": arrow.array([_digest(body, arrays)])}
    for name, kind in kinds.items():
        columns[name] = arrow.array([arrays[name]], arrow.list_(kind))
    return arrow.table(columns)


def from_arrow(table: Any) -> list[State]:
    """The documents and arrays of a table, one per row."""
    names = ("settings", "sha256", *_DTYPES)
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise ValueError(f"a table of meters must have the column {missing[0]!r}")
    if table.num_rows == 0:
        raise ValueError("a table of meters must have at least one row, got none")
    found = []
    for row in range(table.num_rows):
        body, written = (table[name][row].as_py() for name in ("settings", "sha256"))
        arrays = {name: _as_array(table[name][row], name) for name in _DTYPES}
        if not isinstance(body, str) or written != _digest(body, arrays):
            raise ValueError(_CHANGED)
        found.append((_known(_json.loads(body)), arrays))
    return found


def _as_array(cell: Any, name: str) -> NDArray[Any]:
    """A list of numbers of an Arrow table; nulls and other kinds are refused."""
    values = cell.as_py() if cell.values is None else cell.values.to_numpy(zero_copy_only=False)
    if values is None or np.asarray(values).dtype != _DTYPES[name]:
        raise ValueError(f"{name} of a table of meters must be lists of {_DTYPES[name].__name__}")
    return np.asarray(values)


# --- both -------------------------------------------------------------------------------------

_CHANGED = "this meter was changed after it was written: its SHA-256 does not match"


def _known(document: Any) -> dict[str, Any]:
    found = document.get("format") if isinstance(document, dict) else None
    if found != FORMAT:
        raise ValueError(f"a meter must have the format {FORMAT!r}, got {shown(found)}")
    return {name: value for name, value in document.items() if name != "format"}


def _digest(body: str, arrays: Arrays | None = None) -> str:
    digest = hashlib.sha256(body.encode())
    for name, array in sorted((arrays or {}).items()):
        digest.update(f"\0{name}\0{array.shape}\0".encode() + array.tobytes())
    return digest.hexdigest()
