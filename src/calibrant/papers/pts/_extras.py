"""Packages that only the reproduction needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(module: str) -> Any:
    """An optional module, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = {"PIL": "pillow"}.get(top := module.split(".")[0], top)
        extra = "plot" if top == "matplotlib" else "papers"
        raise ImportError(f'this needs {package}: pip install "calibrant[{extra}]"') from error
