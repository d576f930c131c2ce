"""Measurements of what the library does with ordinary data, collected by item.

A measurement is a function without arguments that returns a number or a short text. It uses the
public interface alone, so that it also runs on older revisions of the library, where it may fail:
the error is then the result.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Value = float | str


@dataclass(frozen=True)
class Measure:
    """One number of one item.

    Parameters
    ----------
    item : str
        What it belongs to, such as "tied scores".
    what : str
        What is measured, on which data.
    wanted : str
        What the value must be, in words.
    holds : callable
        Whether a value is as wanted.
    run : callable
        The measurement.
    slow : bool
        Whether it takes more than a few seconds.
    """

    item: str
    what: str
    wanted: str
    holds: Callable[[Any], bool]
    run: Callable[[], Value]
    slow: bool = False

    def value(self) -> tuple[Value, float]:
        """The value, or the error that came instead, and the seconds it took."""
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found: Value = self.run()
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
        return found, time.perf_counter() - started

    def is_right(self, value: Value) -> bool:
        """Whether the value is as wanted; an error never is where a number is wanted."""
        try:
            return bool(self.holds(value))
        except TypeError:
            return False


MEASURES: list[Measure] = []


def measure(
    item: str, what: str, wanted: str, holds: Callable[[Any], bool], *, slow: bool = False
) -> Callable[[Callable[[], Value]], Callable[[], Value]]:
    """Register a function as a measurement."""

    def registered(run: Callable[[], Value]) -> Callable[[], Value]:
        MEASURES.append(Measure(item, what, wanted, holds, run, slow))
        return run

    return registered
