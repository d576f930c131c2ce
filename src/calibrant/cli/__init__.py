"""The command line: parse, call, print.

Every command has a file; ``_app`` puts them together. Only light modules are imported at the top
of these files; a command imports what it needs, so that ``--help`` is quick.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any, NoReturn

__all__ = ["app", "main"]

INTERRUPTED = 130  # the exit code of Ctrl-C: 128 and the number of the signal


def main() -> None:
    """Entry point; all imports are inside, so that Ctrl-C ends quietly during them, too."""
    try:
        from calibrant.cli._app import app

        unwind_when_asked_to_end()
        app()
    except (KeyboardInterrupt, Exception) as error:
        if was_interrupted(error):
            sys.exit(INTERRUPTED)
        raise


def unwind_when_asked_to_end() -> None:
    """Let TERM and HUP end this program with the exit codes 143 and 129, after it tidied up.

    By default they end it where it is, and what it was writing stays behind under a temporary name.
    A signal that is ignored (``nohup``) or has a handler is left alone.
    """

    def unwind(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):  # the second one is not on every system
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, unwind)


def was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: inside an import it often comes out as another one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def __getattr__(name: str) -> Any:
    if name == "app":
        from calibrant.cli._app import app

        return app
    raise AttributeError(f"module 'calibrant.cli' has no attribute {name!r}")
