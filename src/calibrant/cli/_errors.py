"""How the program ends: bad input and warnings in one line on standard error, and the exit code.

The library speaks of its arguments (``input="probs"``), the command line of its flags (``--input
probs``): this is the one place where the one becomes the other. Documents of ``--json`` are for
programs and keep the library's words.
"""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from calibrant import plugins
from calibrant.cli import INTERRUPTED, was_interrupted
from calibrant.cli._output import say
from calibrant.common.errors import CalibrationWarning

BAD_INPUT = 2  # exit code
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# typer brings its own copy of click, older releases the package: this finds either one's class.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

# What other programs call an option of ours, where it has other letters.
_SYNONYMS = {"--seed": "--random-state", "--folds": "--cv", "--bins": "--n-bins"}

# What may end a command, and which of it is told in one line wherever it was raised.
_ANYWHERE = (OSError, MemoryError, RecursionError)
_EXPECTED = (ValueError, TypeError, ImportError, *_ANYWHERE)


class OneLineGroup(TyperGroup):
    """Tells bad input, and warnings of the library, in one line on standard error."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command line and exit with its code."""
        kwargs["standalone_mode"] = False
        try:
            with _warnings_in_one_line(str):  # of plugins that the help cannot list
                # where the output's pipe is closed it ends quietly
                code = super().main(*args, **kwargs)
        except _UsageError as error:
            code = _complain(_usage_message(error))
        except OSError as error:  # the help, for one, is printed before any command runs
            code = _complain(_message(error))
        except (typer.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what the library says is told in the command's flags."""

        def translated(message: str) -> str:
            called = self.get_command(ctx, ctx.invoked_subcommand or "")
            return in_flags(message, called or self)

        with _warnings_in_one_line(translated):
            try:
                return super().invoke(ctx)
            except _EXPECTED as error:
                if was_interrupted(error):
                    raise
                module = _raised_in(error)
                if not isinstance(error, _ANYWHERE) and not _is_in(module, "calibrant"):
                    installed = plugins.installed()
                    if not any(_is_in(module, found.package) for found in installed):
                        raise  # from another package it is unexpected, and keeps its trace
                message = _message(error)
                is_own = _is_in(module, "calibrant.cli")
                raise typer.Exit(_complain(message if is_own else translated(message))) from None


@contextmanager
def _warnings_in_one_line(translated: Callable[[str], str]) -> Iterator[None]:
    """Tell warnings of the library in one line each, inside the block."""

    def show_warning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, CalibrationWarning):
            say(f"warning: {_one_line(translated(str(message)))}", err=True)
        else:
            text = warnings.formatwarning(message, category, filename, lineno, line)
            say(*text.splitlines(), err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", CalibrationWarning)
        warnings.showwarning = show_warning
        yield


def _raised_in(error: BaseException) -> str:
    """The module whose code raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))


def _is_in(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def _usage_message(error: Any) -> str:
    """What is wrong with a command line; an option that the command calls otherwise is named."""
    said = error.format_message().rstrip(".").replace("Value error, ", "")  # pydantic's words
    if not error.ctx:
        return f"{said} (see calibrant --help)"
    name = getattr(error, "option_name", "")
    flags = {flag for parameter in error.ctx.command.params for flag in parameter.opts}
    if _SYNONYMS.get(name) in flags:
        said = f"No such option: {name}. Did you mean {_SYNONYMS[name]}?"
    return f"{said} (see {error.ctx.command_path} --help)"


def _message(error: BaseException) -> str:
    reason = str(error)
    if isinstance(error, MemoryError) and not _is_in(_raised_in(error), "calibrant"):
        reason = f"there is not enough memory. {error}"
    elif isinstance(error, RecursionError):
        reason = "a file or an option is nested too deeply"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
        if error.filename:
            reason = f"{error.filename}: {reason}"
        elif error.filename is None and error.errno in _NO_ROOM:  # output files have names
            reason = f"standard output: {reason}"
    return ": ".join([*getattr(error, "__notes__", ()), reason])


def _complain(message: str) -> int:
    say(f"error: {_one_line(message)}", err=True)
    return BAD_INPUT


def _one_line(message: str) -> str:
    return re.sub(r"\s*\n\s*", " ", message.strip())


# --- from arguments to flags ------------------------------------------------------------------

_FLAGS = {
    "class_axis": "--class-axis",
    "class_names": "--class-names",
    "ignore_index": "--ignore-index",
    "input": "--input",
    "labels_key": "--labels-key",
    "labels_path": "--labels",
    "level": "--level",
    "logits_output": "--logits-output",
    "max_rows": "--max-rows",
    "max_size": "--max-size",
    "n_bins": "--n-bins",
    "n_classes": "--n-classes",
    "n_resamples": "--n-resamples",
    "random_state": "--random-state",
    "sample_weight": "weights",
    "scores_key": "--scores-key",
    "segments_key": "--segment-key",
    "weights_key": "--weights-key",
}
# A name that touches one of these is part of a path, or a quotation.
_ALONE, _ENDS = r"""(?<![\w./'"-])""", r"""(?![\w/'"-]|\.\w)"""
_VALUE = r"""(?P<quote>["']?)(?P<value>-?\w+(?:[.-]\w+)*)(?P=quote)"""


def in_flags(message: str, command: Any) -> str:
    """A message of the library with a command's flags in place of Python's arguments.

    A name that could be a word of English ("input", "loss") counts as an argument only where it has
    a value, or begins a rule: ``input="probs"``, "loss must be one of ..".
    """
    from calibrant.calibrators import REGISTRY

    parameters = {name for cls in REGISTRY.values() for name in cls().get_params(deep=False)}
    parameters -= {"input"}  # a flag of every command
    names = sorted({*_FLAGS, *parameters}, key=len, reverse=True)
    unmistakable = [name for name in names if "_" in name]
    pattern = (
        rf"{_ALONE}(?P<set>{'|'.join(names)})={_VALUE}"
        rf"|{_ALONE}(?P<named>{'|'.join(unmistakable)}){_ENDS}"
        rf"|^(?P<ruled>{'|'.join(names)})(?= must )"
    )
    flags = {flag for parameter in command.params for flag in parameter.opts}

    def flag(match: re.Match[str]) -> str:
        name = match["set"] or match["named"] or match["ruled"]
        if name == "labels_path" and "--test-labels" in flags:
            found = "--labels or --test-labels"
        elif name in parameters and _FLAGS.get(name) not in flags:
            found = f"--param {name}" if "--param" in flags else f"calibrant fit --param {name}"
        else:
            found = _FLAGS[name]
        if match["value"] is None:
            return found
        return f"{found}{'=' if '--param' in found else ' '}{match['value']}"

    return re.sub(pattern, flag, message)
