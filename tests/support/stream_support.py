"""Folders of scores for streams: the same rows, however they are cut into files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cli_support import sample

Rows = tuple[np.ndarray, np.ndarray]


def rows(n_rows: int = 600, classes: int = 5, seed: int = 1) -> Rows:
    """Overconfident float32 logits and labels."""
    logits, labels = sample(n_rows, classes, seed)
    return logits.astype(np.float32), labels


def lists(array: np.ndarray, fixed: bool = True) -> Any:
    flat, width = pa.array(array.ravel()), array.shape[1]
    if fixed:
        return pa.FixedSizeListArray.from_arrays(flat, width)
    return pa.ListArray.from_arrays(pa.array(np.arange(0, array.size + 1, width), pa.int32()), flat)


def write_table(path: Path, scores: np.ndarray, labels: np.ndarray, **options: Any) -> None:
    name = options.pop("name", "logits")
    fixed = options.pop("fixed", True)
    extra = options.pop("extra", {})
    table = pa.table({name: lists(scores, fixed), "label": labels, **extra})
    pq.write_table(table, path, **options)


def write_folder(folder: Path, scores: np.ndarray, labels: np.ndarray, parts: int = 3) -> Path:
    """Parquet files with row groups of 70 rows, of lists of either kind."""
    folder.mkdir(exist_ok=True)
    for number, index in enumerate(np.array_split(np.arange(len(labels)), parts)):
        path = folder / f"part-{number}.parquet"
        write_table(path, scores[index], labels[index], fixed=bool(number % 2), row_group_size=70)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All that is in a folder, but for what a program left when it was killed."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
