"""Spinners and bars on standard error, where that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant._types import Report
    from calibrant.calibrators import Calibrator


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner beside what is being done."""
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(what)):
        yield


@contextmanager
def method_bar() -> Iterator[Report]:
    """A bar of methods."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("fitting")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def timed_fit(calibrator: Calibrator, scores: Any, labels: Any) -> float:
    """Fit, with progress on a terminal; returns the seconds it took."""
    with _fit_progress(calibrator):
        start = time.perf_counter()
        calibrator.fit(scores, labels)
        return time.perf_counter() - start


@contextmanager
def _fit_progress(calibrator: Calibrator) -> Iterator[None]:
    """The method's own bar where it has one, else a spinner."""
    parameters = calibrator.get_params(deep=False)
    if "verbose" not in parameters:
        with working(f"fitting {type(calibrator).__name__}"):
            yield
        return
    calibrator.set_params(verbose=sys.stderr.isatty())
    try:
        yield
    finally:
        calibrator.set_params(verbose=parameters["verbose"])
