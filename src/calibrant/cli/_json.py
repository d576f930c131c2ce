"""A JSON document on standard output."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import typer


def print_json(document: Any) -> None:
    """Print a document of plain values."""
    typer.echo(json.dumps(_finite(document), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    """JSON has no infinity: null stands for it."""
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
