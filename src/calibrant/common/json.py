"""JSON text that may come from anywhere, read strictly."""

from __future__ import annotations

import json
from typing import Any

MOST_NESTED = 128  # lists and objects within each other: more than any file of ours has


def loads(text: str) -> Any:
    """The value of a JSON text; ValueError for what standard JSON does not have.

    Python's own reader takes NaN, takes the last of two equal keys, and ends in a RecursionError
    where lists are nested too deep. Numbers such as 1e999 become infinite: who reads them checks.
    """
    try:
        value = json.loads(text, parse_constant=_no_number, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > MOST_NESTED:  # else it cannot be too deep
        _check_depth(value)
    return value


_TOO_DEEP = f"lists and objects must not be nested deeper than {MOST_NESTED}"


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("an object must not have the same key twice")
    return result


def _check_depth(value: Any) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_NESTED):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ValueError(_TOO_DEEP)
