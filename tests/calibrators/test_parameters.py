"""Constraints of parameters: what they allow, and how they refuse the rest."""

import re

import numpy as np
import pytest

from calibrant.calibrators import REGISTRY
from calibrant.calibrators._parameters import (
    AtLeast,
    Bounds,
    Choice,
    Count,
    Flag,
    NonNegative,
    Positive,
    Widths,
)


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        (Choice("a", "b"), ["a", "b"]),
        (Flag(), [True, np.False_]),
        (Count(), [1, np.int64(3)]),
        (Count(range=(2, 5)), [2, 5]),
        (AtLeast(2), [2, 7.5]),
        (Positive(), [0.1, np.float32(2.0)]),
        (NonNegative(), [0, 1.5]),
        (NonNegative(or_auto=True), [0, "auto"]),
        (Widths(), [(), [5, 5]]),
        (Bounds(), [(0.1, 2.0), np.array([1.0, 3.0])]),
    ],
)
def test_allowed(constraint, values):
    for value in values:
        constraint.check("x", value)


@pytest.mark.parametrize(
    ("constraint", "value", "message"),
    [
        (Choice("a", "b"), "c", "x must be one of 'a', 'b', got 'c'"),
        (Flag(), 1, "x must be True or False, got 1"),
        (Count(), True, "x must be a whole number of at least 1, got True"),
        (Count(range=(2, 5)), 0, "x must be a whole number of at least 1, got 0"),
        (Count(range=(2, 5)), 6, "x must be between 2 and 5, got 6"),
        (AtLeast(2), 1, "x must be at least 2, got 1"),
        (AtLeast(0, "must be a number from 0 on"), -1, "x must be a number from 0 on, got -1"),
        (Positive(), 0.0, "x must be a positive number, got 0.0"),
        (NonNegative(), "auto", "x must be at least 0, got 'auto'"),
        (NonNegative(or_auto=True), -1.0, "x must be 'auto' or at least 0, got -1.0"),
        (Widths(), 5, "x must be the widths of layers, each at least 1, such as (5,), got 5"),
        (Widths(fewest=1), (), "x must be one or more widths of layers, each at least 1, got ()"),
        (Bounds(), 1.0, "x must be two numbers (low, high), got 1.0"),
        (Bounds(), (2.0, 1.0), "x must be 0 < low < high < inf, got (2.0, 1.0)"),
    ],
)
def test_refused(constraint, value, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        constraint.check("x", value)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_constraints_are_of_parameters_and_allow_the_defaults(name):
    calibrator = REGISTRY[name]()
    assert set(calibrator._constraints) <= set(calibrator.get_params())
    calibrator._check_parameters()
