"""What a command prints: lines, JSON, tables, and progress where standard error is a terminal.

What comes from files and command lines cannot steer the terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from calibrant.common.errors import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from calibrant.calibrators import Calibrator
    from calibrant.common.tables import Shown
    from calibrant.common.types import Report


def say(*lines: str, err: bool = False) -> None:
    """Print each line on one line, control characters as escapes."""
    for line in lines:
        typer.echo(printable(line), err=err)


def print_json(document: Any) -> None:
    """Print a document of plain values; an infinite number becomes null."""
    from calibrant.common.json import dumps

    typer.echo(dumps(document, indent=2))


# --- tables: by rich in a terminal, as plain text elsewhere ------------------------------------


def show(result: Shown, about: str = "") -> None:
    """Print a result, with what it is about before the title of its first table."""
    from calibrant.common.tables import Tables

    first, *others = result._tables()
    if about:
        first = replace(first, title=f"{about}: {first.title}")
    result = Tables([first, *others])
    if sys.stdout.isatty():
        print_table(result.__rich__())
    else:
        typer.echo(str(result))


def print_table(table: RenderableType) -> None:
    """Print by rich, fitted to the width of the terminal as far as its columns allow."""
    from rich.console import Console

    console = Console()
    unlimited = console.options.update(max_width=10_000)
    console.width = max(console.width, console.measure(table, options=unlimited).minimum)
    console.print(table)


def metric_table(title: str, judged: Mapping[str, Mapping[str, float]]) -> Shown:
    """One row per set of probabilities; there is no best one, since nothing here tells noise."""
    from calibrant.common.tables import Table, Tables
    from calibrant.metrics import METRICS

    names = list(next(iter(judged.values())))
    rows = [
        [subject, *(METRICS[name].format(values[name]) for name in names)]
        for subject, values in judged.items()
    ]
    return Tables([Table(["", *(METRICS[name].column_head for name in names)], rows, title)])


# --- progress ---------------------------------------------------------------------------------


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner beside what is being done."""
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(what))):
        yield


@contextmanager
def fitting(calibrator: Calibrator) -> Iterator[None]:
    """The method's own bar where it has one, else a spinner."""
    if "progress" not in calibrator.get_params(deep=False):
        with working(f"fitting {type(calibrator).__name__}"):
            yield
        return
    calibrator.set_params(progress=sys.stderr.isatty())
    try:
        yield
    finally:
        calibrator.set_params(progress=False)


@contextmanager
def method_bar() -> Iterator[Report]:
    """A bar of methods."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

    with _bar(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        if bar is None:
            yield lambda done, total: None
            return
        task = bar.add_task("fitting")
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def row_bar(what: str) -> Iterator[Report]:
    """A bar of rows, with their number in a second."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    rows = TextColumn("{task.completed:,} rows")
    speed = TextColumn("{task.fields[rate]:,.0f} rows/s")
    with _bar(BarColumn(), rows, speed, TimeRemainingColumn()) as bar:
        if bar is None:
            yield lambda done, total: None
            return
        task = bar.add_task(printable(what), total=None, rate=0.0)

        def report(done: int, total: int) -> None:
            rate = bar.tasks[0].speed or 0.0
            bar.update(task, completed=done, total=total or None, rate=rate)

        yield report


@contextmanager
def _bar(*columns: Any) -> Iterator[Any]:
    """A bar of rich; None where there is no terminal, since a disabled one ends an empty line."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Progress("{task.description}", *columns, console=console, transient=True) as bar:
        yield bar
