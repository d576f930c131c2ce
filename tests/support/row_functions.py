"""The row functions of the library for arrays of any kind, as tests like to call them."""

from __future__ import annotations

from typing import Any

from calibrant.formulas import _row_functions as _rows
from calibrant.formulas._array_operations import ops_of


def _column(temperature: Any) -> Any:
    return temperature if isinstance(temperature, float) else temperature[..., None]


def softmax(logits: Any, temperature: Any = 1.0) -> Any:
    return _rows.softmax(logits, _column(temperature), ops_of(logits))


def log_softmax(logits: Any, temperature: Any = 1.0) -> Any:
    return _rows.log_softmax(logits, _column(temperature), ops_of(logits))


def top_k(logits: Any, k: int) -> Any:
    return _rows.top_k(logits, k, ops_of(logits))
