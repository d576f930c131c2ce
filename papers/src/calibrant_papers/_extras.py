"""Packages that not every command needs: imported when they are, with the way to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(module: str) -> Any:
    """An optional module, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("PIL", "pillow")
        wanted = "./papers" if package == "matplotlib" else '"./papers[train]"'
        raise ImportError(
            f"this needs {package}: pip install {wanted} at the root of a clone"
        ) from error
