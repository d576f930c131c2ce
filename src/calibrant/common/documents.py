"""Results as plain documents and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, cast

import numpy as np


def plain(value: Any) -> Any:
    """Tuples and arrays as lists, in nested dicts and lists."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _finite(value: Any) -> Any:
    """A plain document for JSON, which has no infinity: null stands for it."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


class PlainDocument:
    """A dataclass that can be turned into a plain document and into JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain numbers, lists and dicts.

        Returns
        -------
        dict
            The fields by their names.
        """
        fields: dict[str, Any] = plain(asdict(cast(Any, self)))
        return fields

    def to_json(self, indent: int | None = None) -> str:
        """Convert to JSON text; an infinite number (the NLL of an impossible label) becomes null.

        Parameters
        ----------
        indent : int, optional
            Spaces per level; all on one line by default.

        Returns
        -------
        str
            The text.
        """
        return json.dumps(_finite(self.to_dict()), indent=indent, allow_nan=False)
