"""MAPIE's tests of calibration and ours, on many random samples.

``adapter_mapie`` runs its own tests, which look at two samples.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from calibrant import metrics

mapie = pytest.importorskip("mapie.metrics.calibration")


TRUTHS = {
    "calibrated": lambda p: p,
    "over-confident": lambda p: 0.5 + (p - 0.5) / 2.0,
    "shifted": lambda p: p**1.5,
}
NOISE = 1e-6  # they break ties by noise: factors of 1 + 1e-8 times a normal number


@pytest.fixture(params=[10, 100, 1000])
def chance(request):
    return np.random.default_rng(request.param).random(request.param)


@pytest.fixture(params=TRUTHS)
def event(request, chance):
    drawn = np.random.default_rng(1).random(len(chance))
    return (drawn < TRUTHS[request.param](chance)).astype(int)


def test_kolmogorov_smirnov(chance, event):
    test = metrics.ks_test(chance, event)
    statistic = mapie.kolmogorov_smirnov_statistic(event, chance)
    assert test.statistic == pytest.approx(statistic, abs=NOISE)
    p_value = mapie.kolmogorov_smirnov_p_value(event, chance)
    assert test.p_value == pytest.approx(p_value, abs=NOISE)


def test_kuiper_with_the_zero_before_the_first_row(chance, event):
    path = np.append(mapie.cumulative_differences(event, chance), 0.0)
    statistic = np.ptp(path) / mapie.length_scale(chance)
    test = metrics.kuiper_test(chance, event)
    assert test.statistic == pytest.approx(statistic, abs=NOISE)
    assert test.p_value == pytest.approx(1.0 - mapie.kuiper_cdf(statistic), abs=NOISE)


def test_spiegelhalter(chance, event):
    test = metrics.spiegelhalter_test(chance, event)
    assert test.z == pytest.approx(mapie.spiegelhalter_statistic(event, chance))
    # theirs is that of a Brier score worse than promised, ours is two-sided
    assert mapie.spiegelhalter_p_value(event, chance) == pytest.approx(ndtr(-test.z), abs=1e-12)
    assert test.p_value == pytest.approx(2.0 * ndtr(-abs(test.z)))
