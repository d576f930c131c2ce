"""Writing probabilities to a file of any format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibrant._arrays import as_labels, to_numpy
from calibrant._files import replacing
from calibrant.scorefiles._formats import FilePath, format_of
from calibrant.scorefiles._numpy_files import write_npy


def write_probs(path: FilePath, probs: Any, labels: Any = None, *, temperature: Any = None) -> None:
    """Write probabilities as ``probs``, with ``labels`` and ``temperature`` where given.

    The suffix chooses the format. The file appears whole or not at all.
    """
    path = Path(path)
    check_can_write(path)
    arrays = {"probs": np.ascontiguousarray(to_numpy(probs))}
    if labels is not None:
        arrays["labels"] = as_labels(labels, *arrays["probs"].shape)
    if temperature is not None:
        arrays["temperature"] = np.ascontiguousarray(to_numpy(temperature))
    write = format_of(path).write
    if write is write_npy and len(arrays) > 1:
        raise ValueError(f"a .npy file holds one array, got {' and '.join(arrays)} for {path}")
    with replacing(path) as file:
        write(file, arrays)


def check_can_write(path: FilePath) -> None:
    """Refuse a name that ``write_probs`` could not write to, before the work is done."""
    format_of(Path(path))
    check_folder(path)


def check_folder(path: FilePath) -> None:
    """Refuse a file whose folder is not there."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} to write {Path(path).name} to")
