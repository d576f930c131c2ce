"""The command line: parse, call, print.

Every command has a file; ``_app`` puts them together. Only light modules are imported at the top
of these files; a command imports what it needs, so that ``--help`` is quick.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["app", "main"]

INTERRUPTED = 130  # the exit code of Ctrl-C: 128 and the number of the signal


def main() -> None:
    """Entry point; all imports are inside, so that Ctrl-C ends quietly during them, too."""
    try:
        from calibrant.cli._app import app
        from calibrant.common.signals import unwind_when_asked_to_end

        unwind_when_asked_to_end()
        app()
    except (KeyboardInterrupt, Exception) as error:
        if was_interrupted(error):
            sys.exit(INTERRUPTED)
        raise


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
