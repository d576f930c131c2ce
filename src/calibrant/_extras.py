"""Optional packages: imported where they are needed, or an error says how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(module: str, extra: str, purpose: str) -> Any:
    """A module of another package, or an error that says how to install it.

    ``purpose`` is who needs it: "calibrant.onnx", ".parquet files".
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        verb = "need" if purpose.endswith("s") and "." not in purpose[1:] else "needs"
        raise ImportError(
            f'{purpose} {verb} {package}: pip install "calibrant[{extra}]"'
        ) from error
