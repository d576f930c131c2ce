"""Progress of long work on the terminal: silent for its first second, gone when it is done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from calibrant.common.types import Progress
from calibrant.common.types import Report as Report

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
    bar = _Bar(title)
    try:
        yield bar.report
    finally:
        if bar.shown is not None:
            bar.shown.stop()


class _Bar:
    def __init__(self, title: str) -> None:
        self.title, self.started, self.last = title, time.monotonic(), 0.0
        self.shown: Any = None  # a bar of rich

    def report(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.started < PATIENCE or now - self.last < 0.1:
            return
        self.last = now
        if self.shown is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

            columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            console = Console(stderr=True)
            shown = Progress("{task.description}", *columns, console=console, transient=True)
            self.task = shown.add_task(self.title, total=total)
            shown.start()
            self.shown = shown
        self.shown.update(self.task, completed=done, total=total)
