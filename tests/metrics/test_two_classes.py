"""Class 1 of two: its ECE, the smooth indices and Hosmer-Lemeshow against direct versions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import chi2

from calibrant import metrics


def example(rows, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    chance = rng.beta(1.2, 2.0, rows)
    return expit(logit(chance) + shift), (rng.random(rows) < chance).astype(int)


@pytest.mark.parametrize("function", [metrics.class1_ece, metrics.calibration_indices])
def test_one_column_is_the_second_of_two(function):
    score, events = example(100)
    assert function(score, events) == function(np.stack([1.0 - score, score], axis=1), events)


@pytest.mark.parametrize(
    "function", [metrics.class1_ece, metrics.calibration_indices, metrics.hosmer_lemeshow_test]
)
def test_more_classes_are_refused(function):
    with pytest.raises(ValueError, match="class 1 of two is asked for, but there are 3 classes"):
        function(np.full((4, 3), 1.0 / 3.0), [0, 1, 2, 0])


# --- ECE --------------------------------------------------------------------------------------


def test_the_error_is_the_direct_sum():
    score, events = example(200)
    weight = np.random.default_rng(1).random(200)
    total = 0.0
    for low in np.arange(10) / 10:
        rows = (score > low) & (score <= low + 0.1)
        total += abs((weight * (events - score))[rows].sum())
    got = metrics.class1_ece(score, events, 10, sample_weight=weight)
    assert got == pytest.approx(total / weight.sum(), rel=1e-9)


def test_a_shift_that_the_confidence_hides():
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.1, 0.8, 100_000)
    events = (rng.random(100_000) < chance).astype(int)
    assert metrics.class1_ece(chance + 0.1, events) == pytest.approx(0.1, abs=0.005)
    assert metrics.ece(chance + 0.1, events) == metrics.class1_ece(chance + 0.1, events)
    assert metrics.ece(chance + 0.1, events, notion="confidence") < 0.07


# --- ICI, E50, E90 ----------------------------------------------------------------------------


def direct_curve(score, events, weight):
    """A weighted line through the nearest three quarters of the weight, row by row."""
    values = []
    for place in score:
        distance = np.abs(score - place)
        order = np.argsort(distance)
        inside = np.cumsum(weight[order]) >= 0.75 * weight.sum()
        reach = distance[order][inside][0]
        near = weight * np.clip(1.0 - (distance / reach) ** 3, 0.0, None) ** 3
        line = np.polynomial.polynomial.polyfit(score - place, events, 1, w=np.sqrt(near))
        values.append(np.clip(line[0], 0.0, 1.0))
    return np.array(values)


def test_the_indices_are_those_of_the_direct_curve():
    score, events = example(150)
    weight = np.random.default_rng(1).random(150) + 0.5
    gap = np.abs(direct_curve(score, events, weight) - score)
    got = metrics.calibration_indices(score, events, sample_weight=weight)
    assert got.ici == pytest.approx(weight @ gap / weight.sum(), rel=1e-5)
    assert got.emax == pytest.approx(gap.max(), rel=1e-5)
    order = np.argsort(gap)
    share = np.cumsum(weight[order]) / weight.sum()
    assert got.e50 == pytest.approx(gap[order][np.searchsorted(share, 0.5)], rel=1e-5)
    assert got.e90 == pytest.approx(gap[order][np.searchsorted(share, 0.9)], rel=1e-5)


def test_places_between_which_the_curve_is_linear_are_enough(monkeypatch):
    score, events = example(2000, shift=0.5)
    few = metrics.calibration_indices(score, events)
    monkeypatch.setattr("calibrant.metrics.two_classes._MOST_PLACES", 2000)
    assert few.ici == pytest.approx(metrics.calibration_indices(score, events).ici, abs=1e-4)


def test_the_indices_of_a_known_shift():
    score, events = example(20_000, shift=0.6)
    truth = np.abs(expit(logit(score) - 0.6) - score)
    got = metrics.calibration_indices(score, events)
    assert got.ici == pytest.approx(truth.mean(), abs=0.01)
    assert got.e50 == pytest.approx(np.median(truth), abs=0.015)
    assert got.e50 <= got.e90 <= got.emax
    assert metrics.calibration_indices(*example(20_000)).ici < 0.015


def test_equal_scores_have_their_frequency():
    assert metrics.calibration_indices([0.3] * 10, [0, 1] * 5).ici == pytest.approx(0.2)
    assert metrics.calibration_indices([0.3], [1]).emax == pytest.approx(0.7)


# --- Hosmer-Lemeshow --------------------------------------------------------------------------


def test_the_statistic_is_the_textbook_one():
    score, events = example(200)
    order = np.argsort(score)
    statistic = 0.0
    for rows in np.array_split(order, 10):
        mean, number = score[rows].mean(), len(rows)
        statistic += (events[rows].sum() - number * mean) ** 2 / (number * mean * (1.0 - mean))
    got = metrics.hosmer_lemeshow_test(score, events)
    assert got.statistic == pytest.approx(statistic, rel=1e-9)
    assert got.p_value == pytest.approx(chi2.sf(statistic, 10), rel=1e-9)
    fitted = metrics.hosmer_lemeshow_test(score, events, fitted=True)
    assert (fitted.degrees, fitted.p_value) == (8, pytest.approx(chi2.sf(statistic, 8)))


def test_certain_groups_and_too_few():
    sure = metrics.hosmer_lemeshow_test([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1], 2)
    assert (sure.statistic, sure.p_value) == (0.0, 1.0)
    assert metrics.hosmer_lemeshow_test([0.0, 0.0, 1.0, 1.0], [0, 1, 1, 1], 2).p_value == 0.0
    assert metrics.hosmer_lemeshow_test([0.3] * 5, [0, 1, 0, 1, 0]).degrees == 1  # one group
    with pytest.raises(ValueError, match="needs more groups of different scores, got 1"):
        metrics.hosmer_lemeshow_test([0.3] * 5, [0, 1, 0, 1, 0], fitted=True)


def test_the_level_holds_and_a_shift_is_found():
    p = [metrics.hosmer_lemeshow_test(*example(500, seed)).p_value for seed in range(300)]
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 3.0 * np.sqrt(0.05 * 0.95 / 300)
    found = [metrics.hosmer_lemeshow_test(*example(500, s, 0.6)).p_value for s in range(50)]
    assert np.mean(np.array(found) <= 0.05) > 0.8
