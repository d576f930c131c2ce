"""Progress of long work on the terminal: silent for its first second, gone when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
        bar.close()


class _Bar:
    def __init__(self, title: str) -> None:
        self.title, self.started, self.last = title, time.monotonic(), 0.0
        self.stop: Callable[[], None] | None = None
        self.draw: Report | None = None

    def report(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.started < PATIENCE or now - self.last < 0.1:
            return
        self.last = now
        if self.draw is None:
            self._open(total)
        assert self.draw is not None
        self.draw(done, total)

    def _open(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        progress = Progress(
            "{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        task = progress.add_task(self.title, total=total)
        progress.start()
        self.stop = progress.stop
        self.draw = lambda done, whole: progress.update(task, completed=done, total=whole)

    def close(self) -> None:
        if self.stop is not None:
            self.stop()
