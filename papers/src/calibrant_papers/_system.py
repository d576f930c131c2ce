"""The machine: its cores, its Numba, and the signals that ask a program to end."""

from __future__ import annotations

import os
import signal
from functools import cache
from importlib import import_module
from types import FrameType
from typing import NoReturn


def available_cores() -> int:
    """The cores that this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on this system
        return max(1, os.cpu_count() or 1)


def numba_version() -> str | None:
    """The Numba that calibrant computes with; None where there is none, or it is told not to."""
    return None if os.environ.get("CALIBRANT_KERNELS") == "0" else _installed_numba()


@cache
def _installed_numba() -> str | None:
    try:
        return str(import_module("numba").__version__)
    except Exception:  # a Numba that does not know this NumPy may fail in any way
        return None


def unwind_when_asked_to_end() -> None:
    """Let TERM and HUP end this program as Ctrl-C does, so that it can tidy up; for ``main``."""
    for name in ("SIGTERM", "SIGHUP"):  # the second one is not on every system
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _unwind)


def _unwind(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
