"""Writing probabilities to a file of any format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.common.arrays import to_numpy
from calibrant.common.files import FilePath, replacing
from calibrant.data.checks import as_labels, as_numpy
from calibrant.data.scorefiles._array_files import write_npy, write_npz
from calibrant.data.scorefiles._copied_columns import NO_TYPE, TOO_LONG, LeftOut, as_array, as_plain
from calibrant.data.scorefiles._formats import Format, format_of


def write_probs(
    path: FilePath,
    probs: Any,
    labels: Any = None,
    *,
    temperature: Any = None,
    others: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """Write probabilities, and what belongs to them; the file appears whole or not at all.

    Parameters
    ----------
    path : path-like
        The file; the end of its name chooses the format. A file that is there is replaced and
        keeps its mode and owner; a link stays, and what it points to is written.
    probs : array of shape (n_rows, n_classes)
        The probabilities, written as ``probs``.
    labels : array of shape (n_rows,), optional
        The true classes as integers from 0, or one-hot rows; written as ``labels``.
    temperature : array of shape (n_rows,), optional
        The temperature of each row, written as ``temperature``.
    others : dict of str to array, optional
        Other columns with a value for each row, NumPy or Arrow arrays of any type, written under
        these names.

    Returns
    -------
    dict of str to str
        The other columns that the format cannot hold, and why; they are left out.

    Raises
    ------
    ValueError
        Where no format has that end of a name, the file would have to hold more than its format
        can, or the labels are refused.
    FileNotFoundError
        Where the folder is not there.
    OSError
        Where the file cannot be written, or a folder, a device, a FIFO or a socket is in its place;
        the error has the file's name.
    ImportError
        Where the format needs a package that is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "probs.csv")
    >>> left_out = write_probs(file, [[0.75, 0.25]], [0])
    >>> print(file.read_text())
    probs_0,probs_1,labels
    0.75,0.25,0
    """
    target = format_of(Path(path))
    arrays = {"probs": np.ascontiguousarray(to_numpy(probs))}
    if labels is not None:
        given = as_numpy(labels)
        rows, classes = arrays["probs"].shape
        if given.dtype.kind in "iu" and given.shape == (rows,):
            arrays["labels"] = given.astype(np.int64)  # -100 for rows to be left out is a label
        else:
            arrays["labels"] = as_labels(labels, rows, classes)
    if temperature is not None:
        arrays["temperature"] = np.ascontiguousarray(to_numpy(temperature))
    if target.write is write_npy and len(arrays) > 1:
        raise ValueError(f"a .npy file holds one array, got {' and '.join(arrays)} for {path}")
    columns, left_out = _storable(others or {}, target)
    with replacing(path) as file:
        target.write(file, {**arrays, **columns})
    return left_out


def _storable(others: Mapping[str, Any], target: Format) -> tuple[dict[str, Any], LeftOut]:
    """Columns as a format can hold them, and those that it cannot."""
    if target.write is write_npy:
        return {}, dict.fromkeys(others, "a .npy file holds one array")
    columns, left_out = {}, {}
    for name, column in others.items():
        array = column if target.any_type else as_array(column)
        if array is None or (not target.any_type and array.dtype.kind not in target.kinds):
            left_out[name] = NO_TYPE
            continue
        if target.write is write_npz:
            array = as_plain(array)
        if array is None:
            left_out[name] = TOO_LONG
        else:
            columns[name] = array
    return columns, left_out
