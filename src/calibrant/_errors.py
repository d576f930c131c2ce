"""The package's own exceptions and warnings."""

from __future__ import annotations


class FileError(ValueError):
    """A file that cannot be read as what it should be: truncated, tampered with, or foreign."""


class CalibrationWarning(UserWarning):
    """Something about the data or the fit that the user should know but that stops nothing."""
