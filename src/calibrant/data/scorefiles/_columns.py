"""Columns of a table that make up one array: ``logits_0``, ``logits_1``, .. ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from calibrant.common.errors import FileError


def flat_columns(path: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Columns ``prefix_0``, ``prefix_1``, .. by their prefix, in the order of their numbers."""
    numbered: dict[str, dict[int, str]] = {}
    for name, count in Counter(names).items():
        if count > 1:
            raise FileError(f"{path} has {count} columns by the name of {name!r}")
        match = re.fullmatch(r"(.+)_(0|[1-9]\d*)", name)
        if match:
            numbered.setdefault(match[1], {})[int(match[2])] = name
    return {
        prefix: [columns[number] for number in sorted(columns)]
        for prefix, columns in numbered.items()
        if len(columns) > 1
    }


def check_numbers(path: Path, wanted: list[list[str]]) -> None:
    """Refuse ``logits_0, logits_2``: a class is missing."""
    for columns in wanted:
        prefix = columns[0].rpartition("_")[0]
        for number, column in enumerate(columns if len(columns) > 1 else []):
            if column != f"{prefix}_{number}":
                raise FileError(
                    f"{path} has a column {columns[-1]}, but no {prefix}_{number}: the columns of "
                    "the classes are numbered from 0, without a gap"
                )
