"""The attack with weights and logits at the limits of floats in short."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import attack_extremes
from attack_extremes import attack


def test_nothing_gets_through() -> None:
    outcomes = attack(cases=120)
    assert {kind: of.misbehaved for kind, of in outcomes.items() if of.misbehaved} == {}
    assert outcomes["weights, methods"].refused > 0
    assert all(of.served > 0 for of in outcomes.values())


@pytest.mark.slow
def test_nothing_gets_through_at_length() -> None:
    outcomes = attack(cases=2000, seed=10_000)
    assert {kind: of.misbehaved for kind, of in outcomes.items() if of.misbehaved} == {}


def test_what_misbehaves_is_seen() -> None:
    def broken(rng: object, make: object) -> str:
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
        return "served"

    rng = np.random.default_rng(0)
    make = attack_extremes.extreme_weights
    assert attack_extremes._case(rng, broken, make) == "RuntimeWarning: overflow"
    with pytest.raises(attack_extremes.MisbehaviourError, match="refused by"):
        attack_extremes.refused(ValueError("a message of nobody"))
