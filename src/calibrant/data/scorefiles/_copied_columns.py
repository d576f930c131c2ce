"""Columns that ``apply`` copies beside its outputs: identifiers, times, groups, labels of any type.

A column is a NumPy array or, from a Parquet table, an Arrow array. Texts are Python strings in an
array of objects: NumPy's own are all as long as the longest, so that one could take any amount.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.files import ALWAYS
from calibrant.data.checks import as_labels
from calibrant.data.scorefiles._names import LABEL_NAMES, SCORE_NAMES

Column = Any
LeftOut = dict[str, str]  # why a column was not copied, by its name

NOT_ROWS = "it does not have one value, or one list of values, per row"
NO_TYPE = "the output format has no such type"
TOO_LONG = "NumPy makes all texts as long as the longest one, and that is too much"
_ARROW_TIMES = ("D", "s", "ms", "us", "ns")


@dataclass(frozen=True)
class ColumnsToCopy:
    """Which columns of a file are copied, by the names they get, and why others are not."""

    renamed: Mapping[str, str]
    left_out: LeftOut


def columns_to_copy(
    names: Iterable[str],
    scores: Collection[str],
    labels: str | None,
    label_as: str,
    outputs: Collection[str],
) -> ColumnsToCopy:
    """All columns but the scores.

    Output names win. Other scores under a usual name are left out as well: whoever reads the
    outputs must find one column of scores, the calibrated one.
    """
    taken = {*outputs, *(LABEL_NAMES if labels is not None else ())}
    renamed, left_out = {}, {}
    for name in names:
        if name in scores:
            continue
        if name == labels:
            renamed[name] = label_as
        elif name in taken:
            left_out[name] = "an output has its name"
        elif re.sub(r"_(0|[1-9]\d*)$", "", name) in SCORE_NAMES:
            left_out[name] = "it holds other scores"
        else:
            renamed[name] = name
    return ColumnsToCopy(renamed, left_out)


def is_row_array(shape: tuple[int, ...], dtype: np.dtype[Any], n_rows: int) -> bool:
    """Whether an array has a number, a text or a time for each row, or a list of them."""
    plain = dtype.kind in "biuUSMm" or (dtype.kind == "f" and dtype.itemsize <= 8)
    return plain and len(shape) in (1, 2) and shape[0] == n_rows


def as_array(column: Column) -> NDArray[Any] | None:
    """A column as a NumPy array; None where no array can hold it.

    A null becomes NaN, NaT or an empty text.
    """
    if isinstance(column, np.ma.MaskedArray):
        floats: NDArray[Any] = np.where(column.mask, np.nan, column.data)
        return floats if np.any(column.mask) else column.data
    if isinstance(column, np.ndarray):
        return column
    types = import_module("pyarrow.types")
    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        return text_array(["" if one is None else one for one in column.to_pylist()])
    if types.is_boolean(kind) and column.null_count:
        column = column.cast("int8")
    if hasattr(kind, "value_type"):  # lists of numbers of one length are the rows of an array
        compute = import_module("pyarrow.compute")
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(lengths) != 1 or not lengths[0]:
            return None
        values = as_array(compute.list_flatten(column))
        if values is None or values.ndim > 1 or values.dtype.kind == "O":
            return None
        return values.reshape(-1, lengths[0])
    array = np.asarray(column.to_numpy(zero_copy_only=False))
    return array if is_row_array(array.shape, array.dtype, len(array)) else None


def text_array(texts: list[str]) -> NDArray[Any]:
    """Texts as they are, whatever their lengths."""
    return np.array(texts, dtype=object)


def as_plain(array: NDArray[Any]) -> NDArray[Any] | None:
    """An array for NumPy's own files: texts are made equally long; None where that is too much."""
    if array.dtype.kind != "O":
        return array
    longest = max(map(len, array), default=0)
    return array.astype(np.str_) if 4 * longest * len(array) <= ALWAYS else None


def as_arrow(column: Column, *, nan_is_null: bool = True) -> Any:
    """A column as an Arrow array: NaN and NaT become nulls, rows of a 2-D array lists."""
    if not isinstance(column, np.ndarray):
        return column
    arrow = import_module("pyarrow")
    if column.dtype.kind in "Mm" and np.datetime_data(column.dtype)[0] not in _ARROW_TIMES:
        column = column.astype(f"{column.dtype.kind}8[s]")
    if column.ndim == 1:
        return arrow.array(column, from_pandas=nan_is_null)
    flat = arrow.array(np.ascontiguousarray(column).ravel(), from_pandas=nan_is_null)
    return arrow.FixedSizeListArray.from_arrays(flat, column.shape[1])


def whole_labels(labels: Column) -> Column:
    """Whole numbers as int64, masked where one is missing; labels of any other type as they are."""
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iuf":
        return labels
    known = ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(labels.shape, np.bool_)
    with np.errstate(invalid="ignore"):
        whole = labels.astype(np.int64)
    if not np.array_equal(whole[known], labels[known]):
        return labels
    return whole if known.all() else np.ma.masked_array(whole, ~known)


def class_labels(labels: Column, n_classes: int) -> Column:
    """Labels as class indices where they are numbers, one-hot rows too; all others as they are."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iufb" and labels.ndim == 2:
        try:
            return as_labels(labels, len(labels), n_classes)
        except ValueError:
            return labels
    return whole_labels(labels)
