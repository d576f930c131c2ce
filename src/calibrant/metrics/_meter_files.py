"""A meter's settings and state as JSON text and as an Arrow table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "calibrant-meter-1"


def to_json(settings: dict[str, Any], counts: NDArray[np.int64], sums: NDArray[np.float64]) -> str:
    """Text that keeps every bit: Python writes floats so that they read back the same."""
    document = {"format": FORMAT, **settings, "counts": counts.tolist(), "sums": sums.tolist()}
    return json.dumps(document, allow_nan=False)


def from_json(text: str) -> dict[str, Any]:
    """The document of ``to_json``."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"a meter must be JSON text, got {text[:40]!r}: {error}") from None
    return _known(document)


def to_arrow(settings: dict[str, Any], counts: NDArray[np.int64], sums: NDArray[np.float64]) -> Any:
    """A table of one row; tables of several meters concatenate."""
    arrow = _pyarrow()
    columns = {
        "settings": arrow.array([json.dumps({"format": FORMAT, **settings})]),
        "counts": arrow.array([counts], arrow.list_(arrow.int64())),
        "sums": arrow.array([sums], arrow.list_(arrow.float64())),
    }
    return arrow.table(columns)


def from_arrow(table: Any) -> list[dict[str, Any]]:
    """The documents of a table, one a row."""
    documents = []
    for row in range(table.num_rows):
        document = _known(json.loads(table["settings"][row].as_py()))
        for name in ("counts", "sums"):
            document[name] = table[name][row].values.to_numpy()
        documents.append(document)
    if not documents:
        raise ValueError("a table of meters must have at least one row, got none")
    return documents


def _known(document: Any) -> dict[str, Any]:
    found = document.get("format") if isinstance(document, dict) else None
    if found != FORMAT:
        raise ValueError(f"a meter must have the format {FORMAT!r}, got {found!r}")
    return dict(document)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError('Arrow tables need pyarrow: pip install "calibrant[parquet]"') from error
    return pyarrow
