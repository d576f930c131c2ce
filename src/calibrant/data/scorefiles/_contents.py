"""What passes between the formats and those who use them: names to fetch, arrays to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

Arrays = Mapping[str, Any]  # NumPy arrays by name

NAMELESS = ""  # the name of the one array of a .npy file, or of a .pt file of a single tensor
NAMES_SHOWN = 12


@dataclass(frozen=True)
class Source:
    """An open file: the names in it, and ways to read them.

    ``fetch`` gives an array of numbers for each list of columns; its second argument names the
    column of labels, which may be missing for some rows. ``copied`` gives those of some columns
    that have as many rows as the scores, as they stand in the file, whatever their type.
    """

    path: Path
    names: list[str]
    fetch: Callable[[list[list[str]], str | None], list[NDArray[Any]]]
    flat: dict[str, list[str]] = field(default_factory=dict)  # prefix -> columns, in a table
    copied: Callable[[list[str], int], dict[str, Any]] = lambda names, n_rows: {}
    is_table: bool = False  # has columns of numbers, and no arrays of several columns

    @property
    def nameless(self) -> bool:
        """Is the file one array, without a name?"""
        return self.names == [NAMELESS]

    def columns(self, name: str) -> list[str]:
        """The columns that a name stands for: itself, but for a prefix in a table."""
        return self.flat.get(name, [name])

    def listing(self) -> str:
        """The names in the file; columns that belong together as ``logits_0..logits_9``."""
        grouped = {column for columns in self.flat.values() for column in columns}
        names = [f"{columns[0]}..{columns[-1]}" for columns in self.flat.values()]
        names += [name for name in self.names if name not in grouped]
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        return (", ".join(names[:NAMES_SHOWN]) or "nothing") + more
