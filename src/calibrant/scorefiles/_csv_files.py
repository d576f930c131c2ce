"""Tables of text: a header row, then numbers, with commas between them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import row_tiles
from calibrant._errors import FileError
from calibrant._foreign_files import Expansion
from calibrant.scorefiles._columns import check_numbers, flat_columns
from calibrant.scorefiles._contents import Arrays, Source


@contextmanager
def open_csv(path: Path, allowed: Expansion) -> Iterator[Source]:
    """The names in the header; the rows are read when columns are fetched."""
    with _text(path) as file:
        header = [name.strip() for name in next(csv.reader(file), [])]
    _check_header(path, header)
    flat = flat_columns(path, header)
    yield Source(
        path, header, lambda wanted: _fetch(path, allowed, header, wanted), flat, is_table=True
    )


_EXAMPLE = "such as logits_0,logits_1,label"
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def _check_header(path: Path, header: list[str]) -> None:
    """Refuse a first line that names no columns."""
    if not header:
        raise FileError(f"{path} must have a header row, {_EXAMPLE}: its first line is empty")
    if all(_is_number(name) for name in header):
        raise FileError(f"{path} must have a header row, {_EXAMPLE}: its first line is all numbers")
    for separator, what in _SEPARATORS.items():
        if separator in header[0]:
            raise FileError(
                f"{path} must have commas between its columns, and points in its numbers: its "
                f"header has {what}"
            )


def _fetch(
    path: Path, allowed: Expansion, header: list[str], wanted: list[list[str]]
) -> list[NDArray[Any]]:
    """The wanted columns in one pass over the text."""
    check_numbers(path, wanted)
    allowed.check(8 * sum(map(len, wanted)) * _count_lines(path))
    place = {name: index for index, name in enumerate(header)}
    values = _parse(path, header, [place[name] for names in wanted for name in names])
    result, start = [], 0
    for names in wanted:
        stop = start + len(names)
        result.append(values[:, start:stop] if len(names) > 1 else values[:, start])
        start = stop
    return result


def _parse(path: Path, header: list[str], columns: list[int]) -> NDArray[Any]:
    try:
        with _text(path) as file:
            lines = _lines(path, file, len(header))
            return np.loadtxt(
                lines, delimiter=",", quotechar='"', comments=None, usecols=columns, ndmin=2
            )
    except FileError:
        raise
    except ValueError:
        _tell_bad_cell(path, header, columns)
        raise


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return 1 + sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))


def _text(path: Path) -> IO[str]:
    return path.open(encoding="utf-8-sig")  # spreadsheets like to put a mark in front


def _lines(path: Path, file: IO[str], width: int) -> Iterator[str]:
    """The lines below the header, each of them as wide as that; empty ones are left out."""
    reader = csv.reader(file)
    next(reader)
    empty = True
    for number, line in enumerate(file, start=reader.line_num + 1):
        if line.isspace():
            continue
        empty = False
        cells = len(next(csv.reader([line]))) if '"' in line else line.count(",") + 1
        if cells != width:
            raise FileError(f"{path}, line {number}: {cells} cells under a header of {width}")
        yield line
    if empty:
        raise FileError(f"{path} has no rows below its header")


def _tell_bad_cell(path: Path, header: list[str], columns: list[int]) -> None:
    """Raise for the first cell that is no number: a second, slow pass, once it is known bad."""
    scores = {name for names in flat_columns(path, header).values() for name in names}
    with _text(path) as file:
        reader = csv.reader(file)
        next(reader)
        for cells in reader:
            for column in columns if cells else []:
                if not _is_number(cells[column]):
                    raise FileError(
                        f"{path}, line {reader.line_num}, column {header[column]!r}: "
                        f"must be a number, got {cells[column]!r}"
                        f"{_cell_hint(cells[column], header[column] in scores)}"
                    )


def _cell_hint(cell: str, is_score: bool) -> str:
    """What to do about a cell that is no number."""
    if not cell.strip():
        return ". Leave the row out where a value is missing"
    if cell.strip().endswith("%"):
        return ". Give fractions of 1 in place of percentages"
    if "," in cell:
        return ". Numbers have a decimal point"
    if is_score:
        return ""
    return ". Number the classes 0, 1, .. in the order of the columns of the scores"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # 1_000 is a number to Python alone


def write_csv(file: IO[bytes], arrays: Arrays) -> None:
    """A column ``probs_0``, ``probs_1``, .. for each class, and one for each other array."""
    probs = arrays["probs"]
    extra = [name for name in arrays if name != "probs"]
    digits = "%.9g" if probs.dtype.itemsize <= 4 else "%.17g"  # enough to read the same number
    formats = [digits] * probs.shape[1] + ["%d" if name == "labels" else digits for name in extra]
    names = [f"probs_{index}" for index in range(probs.shape[1])] + extra
    file.write((",".join(names) + "\n").encode())
    for rows in row_tiles(probs):
        block = np.column_stack([probs[rows], *(arrays[name][rows] for name in extra)])
        np.savetxt(file, block, fmt=formats, delimiter=",")
