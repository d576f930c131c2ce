"""Packages that only the reproduction needs."""

from __future__ import annotations

from typing import Any

from calibrant import _extras


def need(module: str) -> Any:
    """An optional module, or an error that says how to install it."""
    extra = "plot" if module.partition(".")[0] == "matplotlib" else "papers"
    return _extras.need(module, extra, "this needs")
