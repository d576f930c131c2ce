"""The state of a monitor as a text that may come from anywhere: every part of it is checked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from reprlib import repr as shown
from types import NoneType
from typing import Any

import numpy as np

from calibrant.common import json as _json
from calibrant.metrics._meter_state import MeterState
from calibrant.scale._window_times import LONGEST


@dataclass(frozen=True)
class Progress:
    """Where a monitor stands; never changed, only replaced, so that it is always whole."""

    open: MeterState | None = None  # the rows of the open window
    place: int = 0  # of the open window: its first row, or its number since 1970
    begun: bool = False  # whether a row had a time
    ended: int = 0
    late_rows: int = 0
    evidence: float = -np.inf


_KINDS: dict[str, tuple[type, ...]] = {
    "a whole number": (int,),
    "a number": (int, float),
    "a whole number or null": (int, NoneType),
    "a number or null": (int, float, NoneType),
    "true or false": (bool,),
    "text": (str,),
}
_STATE = {
    "window": "a whole number or null",
    "window_seconds": "a number or null",
    "expected_run": "a number or null",
    "min_error": "a number",
    "max_jump_seconds": "a number or null",
    "meter": "text",
    "place": "a whole number",
    "begun": "true or false",
    "ended": "a whole number",
    "late_rows": "a whole number",
    "evidence": "a number or null",
}


def read_state(text: str) -> Mapping[str, Any]:
    """The state of a monitor, every part of the kind that it must be."""
    try:
        document = _json.loads(text)
    except ValueError as error:
        raise ValueError(f"the state of a monitor must be JSON: {error}") from None
    if not isinstance(document, dict) or set(document) != set(_STATE):
        names = list(document) if isinstance(document, dict) else document
        raise ValueError(
            f"the state of a monitor must have {', '.join(_STATE)} and nothing else, "
            f"got {shown(names)}"
        )
    for name, kind in _STATE.items():
        _check_kind(name, document[name], kind)
    if (document["window"] is None) == (document["window_seconds"] is None):
        raise ValueError("the state of a monitor must have either window or window_seconds")
    for name in ("ended", "late_rows"):
        if document[name] < 0:
            raise ValueError(f"{name} of a monitor must be at least 0, got {document[name]}")
    return document


def _check_kind(name: str, value: Any, kind: str) -> None:
    """A number must be one that a float can be: JSON has longer ones, and 1e999 is infinite."""
    is_number = type(value) in (int, float)
    if type(value) not in _KINDS[kind] or (is_number and abs(value) > sys.float_info.max):
        raise ValueError(f"{name} of a monitor must be {kind}, got {shown(value)}")


def check_open(state: MeterState | None, window: int | timedelta, place: int) -> None:
    """Refuse an open window that no monitor has: it could not be filled, or not be ended."""
    if state is not None and state.weighted:
        raise ValueError("the open window of a monitor must have rows without weights")
    if isinstance(window, timedelta):
        if abs(place) * window.total_seconds() > 2 * LONGEST.total_seconds():
            raise ValueError(f"place of a monitor must be a time near 1970, got {shown(place)}")
        return
    if place < 0:
        raise ValueError(f"place of a monitor must be at least 0, got {place}")
    if state is not None and state.n_rows >= window:
        raise ValueError(
            f"the open window of a monitor must have fewer than {window} rows, got {state.n_rows}"
        )
