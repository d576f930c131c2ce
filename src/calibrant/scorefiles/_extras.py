"""Packages that only some formats need: imported when such a file is met."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(module: str, extra: str, suffix: str) -> Any:
    """A module of another package, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise ImportError(
            f'{suffix} files need {package}: pip install "calibrant[{extra}]"'
        ) from None
