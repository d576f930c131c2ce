"""What parameters may be: each constraint refuses what makes no sense, with the rule and the value.

A calibrator names the constraints of its parameters in ``_constraints``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np


def is_number(value: object) -> bool:
    """Whether a parameter is a real number, and not a flag."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    """Whether a parameter is a whole number of at least 1."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


class Constraint(ABC):
    """What one parameter must be."""

    @abstractmethod
    def check(self, name: str, value: Any) -> None:
        """Raise ValueError for a value that breaks the rule."""


def constraints(**of: Constraint) -> Mapping[str, Constraint]:
    """The constraints of a class' parameters, by name, in the order in which they are checked."""
    return MappingProxyType(of)


class Choice(Constraint):
    """One of some values."""

    def __init__(self, *choices: object) -> None:
        self.choices = choices

    def check(self, name: str, value: Any) -> None:
        if value not in self.choices:
            choices = ", ".join(map(repr, self.choices))
            raise ValueError(f"{name} must be one of {choices}, got {value!r}")


class Flag(Constraint):
    """True or False."""

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {value!r}")


@dataclass(frozen=True)
class Count(Constraint):
    """A whole number of at least 1, or in a narrower range."""

    range: tuple[int, int] | None = None

    def check(self, name: str, value: Any) -> None:
        if not is_count(value):
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.range and not self.range[0] <= value <= self.range[1]:
            raise ValueError(
                f"{name} must be between {self.range[0]} and {self.range[1]}, got {value}"
            )


@dataclass(frozen=True)
class AtLeast(Constraint):
    """A finite number that is not below the lowest one."""

    low: float
    rule: str = "must be at least {low}"

    def check(self, name: str, value: Any) -> None:
        if not self.low <= value < np.inf:
            raise ValueError(f"{name} {self.rule.format(low=self.low)}, got {value}")


class Positive(Constraint):
    """A positive finite number."""

    def check(self, name: str, value: Any) -> None:
        if not (is_number(value) and 0.0 < value < np.inf):
            raise ValueError(f"{name} must be a positive number, got {value!r}")


@dataclass(frozen=True)
class NonNegative(Constraint):
    """A finite number of at least 0 or, where it is allowed, "auto"."""

    or_auto: bool = False

    def check(self, name: str, value: Any) -> None:
        if self.or_auto and isinstance(value, str) and value == "auto":
            return
        if not (is_number(value) and 0.0 <= value < np.inf):
            rule = "must be 'auto' or at least 0" if self.or_auto else "must be at least 0"
            raise ValueError(f"{name} {rule}, got {value!r}")


@dataclass(frozen=True)
class Widths(Constraint):
    """The widths of so many hidden layers or more."""

    fewest: int = 0

    def check(self, name: str, value: Any) -> None:
        if (
            not isinstance(value, Sequence)
            or isinstance(value, str)
            or len(value) < self.fewest
            or not all(is_count(width) for width in value)
        ):
            some = "one or more widths" if self.fewest else "the widths"
            example = f", such as ({value},)" if is_count(value) else ""
            raise ValueError(
                f"{name} must be {some} of layers, each at least 1{example}, got {value!r}"
            )


class Bounds(Constraint):
    """Two numbers 0 < low < high."""

    def check(self, name: str, value: Any) -> None:
        try:
            low, high = (float(bound) for bound in value)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be two numbers (low, high), got {value!r}") from None
        if not 0.0 < low < high < np.inf:
            raise ValueError(f"{name} must be 0 < low < high < inf, got {value}")


class MethodNames(Constraint):
    """None, or names of methods among which to choose."""

    def check(self, name: str, value: Any) -> None:
        from calibrant.calibrators import acronym  # which imports this module

        if value is None:
            return
        listed = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
        if not (listed and all(isinstance(one, str) for one in value)):
            raise ValueError(f"{name} must be a list of names such as ['ts', 'svs'], got {value!r}")
        names = [acronym(one) for one in value]
        if not names or "auto" in names:
            raise ValueError(
                f"{name} must name at least one method, and not 'auto' itself, got {value!r}"
            )
