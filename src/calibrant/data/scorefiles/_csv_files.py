"""Tables of text: a header row, then numbers, with commas between them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.arrays import row_tiles
from calibrant.common.errors import FileError
from calibrant.common.files import Expansion
from calibrant.data.scorefiles._copied_columns import text_array
from calibrant.data.scorefiles._names import Arrays, OpenFile, check_numbers, flat_columns

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>"})


@contextmanager
def open_csv(path: Path, allowed: Expansion) -> Iterator[OpenFile]:
    """The names in the header; the rows are read when columns are fetched."""
    with _text(path) as file:
        header = [name.strip() for name in next(csv.reader(file), [])]
    _check_header(path, header)
    place = {name: index for index, name in enumerate(header)}

    def fetch(wanted: list[list[str]], labels: str | None) -> list[NDArray[Any]]:
        """The wanted columns in one pass over the text."""
        check_numbers(path, wanted)
        with path.open("rb") as raw:
            parts = iter(lambda: raw.read(1 << 20), b"")
            lines = 1 + sum(part.count(b"\n") for part in parts)
        allowed.check(8 * sum(map(len, wanted)) * lines)
        columns = [place[name] for names in wanted for name in names]
        values = _parse(path, header, columns, None if labels is None else place[labels])
        ends = np.cumsum([len(names) for names in wanted])
        arrays = np.split(values, ends[:-1], axis=1)
        return [array if array.shape[1] > 1 else array[:, 0] for array in arrays]

    def copied(names: list[str], n_rows: int) -> dict[str, NDArray[Any]]:
        """Columns of numbers or of texts, whichever all cells of a column are."""
        allowed.check(path.stat().st_size)
        with _text(path) as file:
            rows = [next(csv.reader([line])) for line in _lines(path, file, len(header))]
        return {name: _typed([cells[place[name]] for cells in rows]) for name in names}

    yield OpenFile(path, header, fetch, flat_columns(path, header), copied, is_table=True)


def _check_header(path: Path, header: list[str]) -> None:
    """Refuse a first line that names no columns."""
    rule = f"{path} must have a header row, such as logits_0,logits_1,label"
    if not header:
        raise FileError(f"{rule}: its first line is empty")
    if all(_is_number(name) for name in header):
        raise FileError(f"{rule}: its first line is all numbers")
    for separator, what in {";": "semicolons", "\t": "tabs", "|": "bars"}.items():
        if separator in header[0]:
            raise FileError(
                f"{path} must have commas between its columns, and points in its numbers: its "
                f"header has {what}"
            )


def _parse(path: Path, header: list[str], columns: list[int], labels: int | None) -> NDArray[Any]:
    """Numbers; a missing label is NaN."""
    try:
        with _text(path) as file:
            lines = _lines(path, file, len(header))
            return np.loadtxt(
                (line.replace("\n", " ") for line in lines),
                delimiter=",",
                quotechar='"',
                comments=None,
                usecols=columns,
                ndmin=2,
                encoding=None,
                converters=None if labels is None else {labels: _label},
            )
    except FileError:
        raise
    except ValueError:
        _tell_bad_cell(path, header, columns, labels)
        raise


def _label(cell: str) -> float:
    if _is_missing(cell):
        return np.nan
    if "_" in cell:
        raise ValueError(cell)  # 1_000 is a number to Python alone
    return float(cell)


_WHOLE = re.compile(r"-?(0|[1-9]\d*)")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_EXACT = 2**53  # whole numbers up to here are exact as floats
_MOST_DIGITS = 17  # of a float


def _typed(cells: list[str]) -> NDArray[Any]:
    """Numbers where nothing of the text is lost by that: ``007`` stays a text.

    Missing cells of a column of numbers are NaN.
    """
    known = [cell for cell in cells if not _is_missing(cell)]
    missing = len(known) < len(cells)
    if known and all(map(_WHOLE.fullmatch, known)):
        largest = max(abs(int(cell)) for cell in known)
        if not missing and largest < 2**63:
            return np.array([int(cell) for cell in cells], np.int64)
        if largest <= _EXACT:
            return np.array([_label(cell) for cell in cells])
    elif known and all(_NUMBER.fullmatch(one) and len(one) <= _MOST_DIGITS for one in known):
        return np.array([_label(cell) for cell in cells])
    return text_array(cells)


def _text(path: Path) -> IO[str]:
    return path.open(encoding="utf-8-sig")  # spreadsheets like to put a mark in front


def _lines(path: Path, file: IO[str], width: int) -> Iterator[str]:
    """The rows below the header, each of them as wide as that; empty lines are left out.

    A text in quotes may have several lines.
    """
    reader = csv.reader(file)
    next(reader)
    empty = True
    numbered = enumerate(file, start=reader.line_num + 1)
    for number, first in numbered:
        line = first
        while line.count('"') % 2:
            try:
                line += next(numbered)[1]
            except StopIteration:
                raise FileError(f"{path}, line {number}: a quote is not closed") from None
        if line.isspace():
            continue
        empty = False
        cells = len(next(csv.reader([line]))) if '"' in line else line.count(",") + 1
        if cells != width:
            raise FileError(f"{path}, line {number}: {cells} cells under a header of {width}")
        yield line
    if empty:
        raise FileError(f"{path} has no rows below its header")


def _tell_bad_cell(path: Path, header: list[str], columns: list[int], labels: int | None) -> None:
    """Raise for the first cell that is no number: a second, slow pass, once it is known bad."""
    with _text(path) as file:
        reader = csv.reader(file)
        next(reader)
        for cells in reader:
            for column in columns if cells else []:
                cell = cells[column]
                if _is_number(cell) or (column == labels and _is_missing(cell)):
                    continue
                hint = ""
                if not cell.strip():
                    hint = ". Leave the row out where a value is missing"
                elif cell.strip().endswith("%"):
                    hint = ". Give fractions of 1 in place of percentages"
                elif "," in cell:
                    hint = ". Numbers have a decimal point"
                elif column == labels:
                    hint = ". Number the classes 0, 1, .. in the order of the columns of the scores"
                raise FileError(
                    f"{path}, line {reader.line_num}, column {header[column]!r}: "
                    f"must be a number, got {cell!r}{hint}"
                )


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # which Python alone takes as a part of numbers


def write_csv(file: IO[bytes], arrays: Arrays) -> None:
    """A column ``probs_0``, ``probs_1``, .. for each class, and one for each other array.

    A list of numbers per row becomes numbered columns, too.
    """
    names = []
    for name, array in arrays.items():
        many = array.ndim > 1
        names += [f"{name}_{index}" for index in range(array.shape[1])] if many else [name]
    file.write(f"{','.join(map(_quoted, names))}\n".encode())
    for rows in row_tiles(arrays["probs"]):
        columns = [_cells(array[rows]) for array in arrays.values()]
        lines = (",".join(cells) for cells in zip(*columns, strict=True))
        file.writelines(f"{line}\n".encode() for line in lines)


def _cells(array: NDArray[Any]) -> list[str]:
    """The text of each row: numbers with enough digits to read the same ones again.

    A missing value is an empty cell.
    """
    digits = "%.9g" if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else "%r"
    if array.ndim > 1 and array.dtype.kind in "biuf":  # most of a file: a row at a time is fast
        row_format = ",".join([digits] * array.shape[1])
        return [row_format % tuple(row) for row in array.tolist()]
    if array.ndim > 1:
        return [",".join(_cells(row)) for row in array]
    if array.dtype.kind == "f":
        return ["" if x != x else (digits % x).removesuffix(".0") for x in array.tolist()]
    if array.dtype.kind in "Mm":
        return ["" if np.isnat(value) else str(value) for value in array]
    return [_quoted(str(value)) for value in array.tolist()]


def _quoted(text: str) -> str:
    """A cell: in quotes where a reader would not see its end otherwise."""
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",\r\n]', text) else text
