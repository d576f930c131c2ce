"""Results as tables: of text, for print, notebooks and the terminal, and as data frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from itertools import zip_longest
from typing import Any, Literal, get_args

from calibrant.common.errors import printable

Backend = Literal["pandas", "polars", "pyarrow"]  # of data frames
BEST, TIED = "* ", "~ "  # before a cell
_LEFT, _RIGHT = 'style="text-align: left"', 'style="text-align: right"'


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column says what a row is, the others are numbers.

    A head may have two lines, the second for the unit. The title stands above all, on one line, and
    the notes stand below.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = ()

    def filled(self) -> Table:
        """The same table without columns in which no row has anything."""
        kept = [i for i in range(len(self.header)) if i == 0 or any(row[i] for row in self.rows)]
        header = [self.header[i] for i in kept]
        return replace(self, header=header, rows=[[row[i] for i in kept] for row in self.rows])

    def text(self) -> str:
        """Aligned text: the first column to the left, numbers to the right."""
        heads = list(zip_longest(*(cell.split("\n") for cell in self.header), fillvalue=""))
        lines = [[printable(cell) for cell in line] for line in (*heads, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        body = [
            "  ".join(
                cell.ljust(width) if index == 0 else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        above = [printable(self.title), ""] if self.title else []
        below = ["", *map(printable, self.notes)] if self.notes else []
        return "\n".join([*above, *body, *below])

    def html(self) -> str:
        """A table for notebooks, without any style sheet; the best cells are bold."""
        title = f"<caption {_LEFT}>{_escaped(self.title)}</caption>" if self.title else ""
        head = "".join(_html_cell("th", cell, index) for index, cell in enumerate(self.header))
        body = "".join(
            f'<tr><th scope="row" {_LEFT}>{_escaped(first)}</th>'
            f"{''.join(_html_cell('td', cell, 1) for cell in numbers)}</tr>"
            for first, *numbers in self.rows
        )
        lines = "<br>".join(_escaped(note) for note in self.notes if note)
        notes = f"<p>{lines}</p>" if lines else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"

    def rich(self) -> Any:
        """The same for a terminal; nothing in it is taken for markup."""
        from rich import box
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
        for index, (head, *cells) in enumerate(zip(self.header, *self.rows, strict=True)):
            table.add_column(
                Text("\n".join(map(printable, head.split("\n")))),
                justify="left" if index == 0 else "right",
                min_width=max(map(len, [*head.split("\n"), *map(printable, cells)])),
                no_wrap=True,
            )
        for row in self.rows:
            styles = ["bold green" if cell.startswith(BEST) else "" for cell in row]
            table.add_row(*map(Text, map(printable, row), styles))
        title = [Text(printable(self.title), style="bold")] if self.title else []
        return Group(*title, table, *(Text(printable(note)) for note in self.notes))


def _escaped(text: str) -> str:
    """Text of others in HTML: neither markup, nor marks that change the direction of writing."""
    return escape(printable(text))


def _html_cell(tag: str, cell: str, index: int) -> str:
    text = "<br>".join(map(_escaped, cell.split("\n")))
    if cell.startswith(BEST):
        text = f"<b>{text}</b>"
    return f"<{tag} {_RIGHT if index else _LEFT}>{text}</{tag}>"


class Shown(ABC):
    """Something that a few tables tell: ``print``, notebooks and rich all show them."""

    @abstractmethod
    def _tables(self) -> Sequence[Table]:
        """The tables, from top to bottom."""

    def __str__(self) -> str:
        return "\n\n".join(table.text() for table in self._tables())

    def _repr_html_(self) -> str:
        return f"<div>{''.join(table.html() for table in self._tables())}</div>"

    def __rich__(self) -> Any:
        from rich.console import Group

        return Group(*(table.rich() for table in self._tables()))


@dataclass(frozen=True)
class Tables(Shown):
    """Some tables, to be shown as they are."""

    tables: Sequence[Table]

    def _tables(self) -> Sequence[Table]:
        return self.tables


def counted(number: int, word: str) -> str:
    """A number and its noun: "1 row", "2,000 rows", "10 classes"."""
    plural = f"{word}es" if word.endswith("s") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"


def frame_of(columns: Mapping[str, Sequence[Any]], backend: Backend) -> Any:
    """A data frame with these columns; None is a missing value.

    A column is one of words, truth values, whole numbers, or else of float64.
    """
    if backend not in get_args(Backend):
        known = ", ".join(map(repr, get_args(Backend)))
        raise ValueError(f"backend must be one of {known}, got {backend!r}")
    try:
        import_module(backend)
    except ImportError as error:
        raise ImportError(
            f"to_frame(backend={backend!r}) needs {backend}: pip install {backend}"
        ) from error
    import narwhals

    kinds: dict[type | None, Any] = {
        bool: narwhals.Boolean(),
        int: narwhals.Int64(),
        str: narwhals.String(),
    }
    schema = {}
    for name, values in columns.items():
        types = set(map(type, values))
        if types == {str, type(None)}:  # words alone may be missing
            types = {str}
        schema[name] = kinds.get(types.pop() if len(types) == 1 else None, narwhals.Float64())
    data = {name: list(values) for name, values in columns.items()}
    return narwhals.from_dict(data, schema, backend=backend).to_native()
