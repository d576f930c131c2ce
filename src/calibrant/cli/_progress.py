"""Spinners and bars on standard error, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from calibrant.common.errors import printable

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.common.types import Report


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner beside what is being done."""
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(what))):
        yield


@contextmanager
def method_bar() -> Iterator[Report]:
    """A bar of methods."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:  # a bar that is only disabled would end with an empty line
        yield lambda done, total: None
        return
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("fitting")
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def row_bar(what: str) -> Iterator[Report]:
    """A bar of rows, with their number in a second."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    rows = TextColumn("{task.completed:,} rows")
    speed = TextColumn("{task.fields[rate]:,.0f} rows/s")
    columns = ("{task.description}", BarColumn(), rows, speed, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(what), total=None, rate=0.0)

        def report(done: int, total: int) -> None:
            rate = bar.tasks[0].speed or 0.0
            bar.update(task, completed=done, total=total or None, rate=rate)

        yield report


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
