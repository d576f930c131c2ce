"""JSON: read strictly, sealed with a checksum, and written from results.

Texts may come from anywhere. A sealed one begins with a SHA-256 of all the rest of it: no changed
bit goes unnoticed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any, cast

import numpy as np

MOST_NESTED = 128  # lists and objects within each other: more than any file of ours has
_TOO_DEEP = f"lists and objects must not be nested deeper than {MOST_NESTED}"
START = '{"sha256": "'  # of a sealed text


def loads(text: str) -> Any:
    """The value of a JSON text; ValueError for what standard JSON does not have.

    Python's own reader takes NaN, takes the last of two equal keys, and ends in a RecursionError
    where lists are nested too deep. Numbers such as 1e999 become infinite: who reads them checks.
    """
    try:
        value = json.loads(text, parse_constant=_no_number, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") <= MOST_NESTED:
        return value  # it cannot be too deep
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_NESTED):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("an object must not have the same key twice")
    return result


def sealed(body: str) -> str:
    """A JSON object as text, with its digest as a first entry."""
    return f'{START}{hashlib.sha256(body.encode()).hexdigest()}", {body[1:]}'


def unsealed(text: str) -> str | None:
    """The text without its digest; None where it is not as it was written.

    The digest is that of the text itself: one that merely reads the same was changed, too.
    """
    body = "{" + text[len(sealed("{")) :]
    return body if text == sealed(body) else None


def plain(value: Any, *, finite: bool = False) -> Any:
    """Tuples and arrays as lists, in nested dicts and lists; ``finite``: None for an infinity."""
    if isinstance(value, dict):
        return {name: plain(part, finite=finite) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
        if not finite:
            return value
    if isinstance(value, list | tuple):
        return [plain(part, finite=finite) for part in value]
    return None if finite and isinstance(value, float) and not np.isfinite(value) else value


def dumps(document: Any, indent: int | None = None) -> str:
    """JSON text of nested dicts, lists, tuples and arrays; null stands for an infinite number."""
    return json.dumps(plain(document, finite=True), indent=indent, allow_nan=False)


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
        return dumps(self.to_dict(), indent)
