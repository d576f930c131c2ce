"""Checks of parameters: each refuses what makes no sense, with the rule and the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def is_number(value: object) -> bool:
    """Whether a parameter is a real number, and not a flag."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    """Whether a parameter is a whole number of at least 1."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_counts(owner: Any, *names: str) -> None:
    """Refuse parameters that are no whole numbers of at least 1."""
    for name in names:
        if not is_count(getattr(owner, name)):
            rule = "must be a whole number of at least 1"
            raise ValueError(f"{name} {rule}, got {getattr(owner, name)!r}")


def check_positive(name: str, value: Any) -> None:
    """Refuse what is no positive finite number."""
    if not (is_number(value) and 0.0 < value < np.inf):
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def check_strength(name: str, value: Any, automatic: bool = True) -> None:
    """Refuse what is no finite number of at least 0 nor, where there is one, "auto"."""
    if automatic and isinstance(value, str) and value == "auto":
        return
    if not (is_number(value) and 0.0 <= value < np.inf):
        rule = "must be 'auto' or at least 0" if automatic else "must be at least 0"
        raise ValueError(f"{name} {rule}, got {value!r}")


def check_widths(name: str, value: Any, fewest: int = 0) -> None:
    """Refuse what are no widths of hidden layers."""
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str)
        or len(value) < fewest
        or not all(is_count(width) for width in value)
    ):
        some = "one or more widths" if fewest else "the widths"
        example = f", such as ({value},)" if is_count(value) else ""
        raise ValueError(
            f"{name} must be {some} of layers, each at least 1{example}, got {value!r}"
        )


def check_bounds(name: str, value: Any) -> tuple[float, float]:
    """Two numbers 0 < low < high; refuses anything else."""
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be two numbers (low, high), got {value!r}") from None
    if not 0.0 < low < high < np.inf:
        raise ValueError(f"{name} must be 0 < low < high < inf, got {value}")
    return low, high
