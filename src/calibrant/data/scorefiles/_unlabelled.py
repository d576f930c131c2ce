"""Rows without a label: NaN in an array, null in a Parquet table, an empty cell in a text table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>"})


def is_missing(cell: str) -> bool:
    """Whether a cell of a text table stands for a missing value."""
    return cell.strip().lower() in _MISSING


def has_label(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows have a label; of one-hot rows those that are not all NaN."""
    if labels.dtype.kind != "f":
        return np.ones(len(labels), np.bool_)
    known = ~np.isnan(labels)
    return known if labels.ndim == 1 else known.reshape(len(labels), -1).any(axis=1)


def no_labels(n_rows: int) -> str:
    """The message for rows none of which has a label."""
    return f"none of the {n_rows:,} rows has a label: they are absent, null, NaN or empty cells"
