"""How the program ends: errors and warnings in one line on standard error, and the exit code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from calibrant._errors import CalibrationWarning

BAD_INPUT, INTERRUPTED = 2, 130  # exit codes

# typer brings its own copy of click, older releases the package: this finds either one's class.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class OneLineGroup(TyperGroup):
    """Tells bad input, and warnings of the library, in one line on standard error."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command line and exit with its code."""
        kwargs["standalone_mode"] = False
        with warnings.catch_warnings():
            warnings.simplefilter("always", CalibrationWarning)
            warnings.showwarning = _show_warning
            code = _exit_code(lambda: super(OneLineGroup, self).main(*args, **kwargs))
        sys.exit(code)


def _exit_code(run: Callable[[], Any]) -> int:
    try:
        code = run()  # typer and rich end quietly by themselves where the output's pipe is closed
    except _UsageError as error:
        return _complain(_usage_message(error))
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (ValueError, TypeError, OSError, ImportError) as error:
        if not (isinstance(error, OSError) or _is_ours(error)):
            raise
        return _complain(_message(error))
    return code if isinstance(code, int) else 0


def _is_ours(error: BaseException) -> bool:
    """Whether our code raised it; from another package it is unexpected and keeps its trace."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    return str(module).split(".")[0] == "calibrant"


def _usage_message(error: Any) -> str:
    command = error.ctx.command_path if error.ctx else "calibrant"
    return f"{error.format_message().rstrip('.')} (see {command} --help)"


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _complain(message: str) -> int:
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    return BAD_INPUT


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, CalibrationWarning):
        typer.echo(f"warning: {' '.join(str(message).split())}", err=True)
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        typer.echo(text, file=file, err=True, nl=False)
