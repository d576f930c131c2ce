"""Progress of long work on the terminal: silent for its first second, gone when it is done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from calibrant.common.types import Progress, Report

PATIENCE = 1.0  # seconds before anything is shown


@contextmanager
def reporter(title: str, progress: Progress = True) -> Iterator[Report]:
    """A ``report(done, total)``: the user's own, or a bar with the time left, or nothing."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda done, total: None
        return
    started, last = time.monotonic(), 0.0
    bar: Any = None  # one of rich
    task: Any = None

    def report(done: int, total: int) -> None:
        nonlocal last, bar, task
        now = time.monotonic()
        if now - started < PATIENCE or now - last < 0.1:
            return
        last = now
        if bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

            columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            console = Console(stderr=True)
            shown = Progress("{task.description}", *columns, console=console, transient=True)
            task = shown.add_task(title, total=total)
            shown.start()
            bar = shown
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        if bar is not None:
            bar.stop()
