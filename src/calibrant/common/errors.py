"""The package's own exceptions and warnings, and what their texts may hold."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


def printable(text: str) -> str:
    r"""Text for one line of a terminal: whatever could steer it is written as an escape.

    Names in files, and of files, are other people's text. Control characters, marks that change the
    direction of writing, separators of lines and halves of surrogate pairs become what Python's
    ``repr`` would show.

    >>> printable("plain"), printable("a\x1b[31mb"), printable("gpj\u202e.exe")
    ('plain', 'a\\x1b[31mb', 'gpj\\u202e.exe')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known one that was probably meant, if any.

    >>> did_you_mean("tps", ["ts", "pts", "vector"]), did_you_mean("ECE", ["ece", "mce"])
    (". Did you mean 'pts'?", ". Did you mean 'ece'?")
    >>> did_you_mean("nonsense", ["ts", "pts"])
    ''
    """
    found = closest(name, known)
    return "" if found is None else f". Did you mean {found!r}?"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that an unknown one was probably meant to be, if any.

    Transposed letters are the most common slip, and difflib would rather drop a letter.
    """
    names, wanted = list(dict.fromkeys(known)), name.lower()
    same_letters = [one for one in names if sorted(one) == sorted(wanted)]
    return next(iter(same_letters or difflib.get_close_matches(wanted, names, n=1)), None)


class FileError(ValueError):
    """A file that cannot be read as what it should be: truncated, tampered with, or foreign."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class CalibrationWarning(UserWarning):
    """Something about the data or the fit that the user should know but that stops nothing."""


_notes: ContextVar[list[str] | None] = ContextVar("calibrant_notes", default=None)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect what ``warn`` is told in this block, and on this thread, in place of warning.

    ``warnings.catch_warnings`` would change the filters of the whole process, and on several
    threads leave them changed.
    """
    notes: list[str] = []
    before = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(before)


def warn(message: str) -> None:
    """Warn, pointing at the line outside this package that led here.

    Python shows a warning once for every line it points at: were that a line of ours, or one of
    PyTorch's by which it calls our modules, the second fit of a program would be silent.
    """
    notes = _notes.get()
    if notes is not None:
        notes.append(message)
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("calibrant", "torch"):
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(message, CalibrationWarning, stacklevel=level)
