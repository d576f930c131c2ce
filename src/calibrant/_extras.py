"""Packages that only some parts need: imported when they are, with the way to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

PACKAGES = {"PIL": "pillow"}  # where a package is not called as its module is


def need(module: str, extra: str, who_needs: str) -> Any:
    """A module of another package, or an error that says how to install it.

    ``who_needs`` begins the message: "calibrant.onnx needs", ".parquet files need".
    """
    try:
        return import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        package = PACKAGES.get(top, top)
        raise ImportError(f'{who_needs} {package}: pip install "calibrant[{extra}]"') from error
