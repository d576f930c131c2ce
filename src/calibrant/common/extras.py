"""Packages that only some parts need: imported when they are, with the way to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

PACKAGES = {"PIL": "pillow"}  # where a package is not called as its module is


def need(module: str, extra: str, who_needs: str, oldest: tuple[int, int] | None = None) -> Any:
    """A module of another package, or an error that says how to install it.

    ``who_needs`` begins the message: "calibrant.onnx needs", ".parquet files need". ``oldest`` is
    the first version that will do, where an older one would do harm.
    """
    top = module.partition(".")[0]
    package = PACKAGES.get(top, top)
    how = f'pip install "calibrant[{extra}]"'
    try:
        found = import_module(module)
    except ImportError as error:
        raise ImportError(f"{who_needs} {package}: {how}") from error
    if oldest is None:
        return found
    major, minor, *_ = found.__version__.split(".")
    if (int(major), int(minor)) < oldest:
        least = ".".join(map(str, oldest))
        raise ImportError(f"{who_needs} {package} {least} or later, not {found.__version__}: {how}")
    return found
