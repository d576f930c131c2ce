"""Ordinary data: every quick measurement of the program is as wanted."""

from __future__ import annotations

import pytest

from attack_ordinary_data import chosen, key
from ordinary_measures import Measure

MEASURES = chosen("", quick=True)


def test_there_are_measurements() -> None:
    assert len({key(one) for one in MEASURES}) == len(MEASURES) > 80


@pytest.mark.parametrize("one", MEASURES, ids=key)
def test_ordinary_data_are_served(one: Measure) -> None:
    value, _ = one.value()
    assert one.is_right(value), f"{value}, wanted: {one.wanted}"


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in chosen("", False) if one.slow], ids=key)
def test_ordinary_data_are_served_at_length(one: Measure) -> None:
    value, _ = one.value()
    assert one.is_right(value), f"{value}, wanted: {one.wanted}"
