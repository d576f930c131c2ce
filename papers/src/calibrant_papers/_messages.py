"""Texts for people: names of files are other people's, and must not steer a terminal."""

from __future__ import annotations

import warnings

from calibrant import CalibrationWarning


def printable(text: str) -> str:
    """Text for one line of a terminal: characters that could steer it are written as escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def warn(message: str) -> None:
    """Warn of something that the user should know but that stops nothing."""
    warnings.warn(message, CalibrationWarning, stacklevel=3)
