"""Signals that ask a program to end: they unwind it, as Ctrl-C does, so that it can tidy up."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

_NAMES = ("SIGTERM", "SIGHUP")  # the second one is not on every system


def unwind_when_asked_to_end() -> None:
    """Let TERM and HUP end this program with the exit codes 143 and 129; for ``main`` functions.

    By default they end it where it is, and what it was writing stays behind under a temporary name.
    A signal that is ignored (``nohup``) or has a handler is left alone.
    """
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _unwind)


def _unwind(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
