"""Kolmogorov-Smirnov and Kuiper: direct sums, the law of Brownian motion, level and power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import kstest

from calibrant import metrics
from calibrant.metrics.cumulative import ks_p_value, kuiper_p_value

TESTS = [metrics.ks_test, metrics.kuiper_test]


def example(rows, seed, shift=0.0, chances=(1.0, 3.0)):
    """Probabilities of class 1 whose log-odds are too high by a shift."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(*chances, rows)
    return expit(logit(chance) + shift), (rng.random(rows) < chance).astype(int)


def direct(scores, events, weight):
    """The sums over all rows with a score up to each score, as the definition says."""
    paths = [
        sum(w * (k - p) for p, k, w in zip(scores, events, weight, strict=True) if p <= level)
        for level in np.unique(scores)
    ]
    deviation = np.sqrt(sum(w * w * p * (1.0 - p) for p, w in zip(scores, weight, strict=True)))
    ks = max(abs(value) for value in paths)
    return ks, max([0.0, *paths]) - min([0.0, *paths]), deviation


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [1, 8])  # with ties, and without
def test_the_statistics_are_the_direct_sums(digits):
    rng = np.random.default_rng(0)
    scores, events, weight = rng.random(80).round(digits), rng.integers(0, 2, 80), rng.random(80)
    ks, kuiper, deviation = direct(scores, events, weight)
    for test, value in zip(TESTS, (ks, kuiper), strict=True):
        got = test(scores, events, sample_weight=weight)
        assert got.error == pytest.approx(value / weight.sum(), rel=1e-12)
        assert got.statistic == pytest.approx(value / deviation, rel=1e-12)
        assert got.notion == "class-1"


@pytest.mark.parametrize("test", TESTS)
def test_the_order_of_rows_and_the_unit_of_weights_do_not_matter(test):
    scores, events = example(200, 0)
    scores = scores.round(1)
    order = np.random.default_rng(1).permutation(200)
    weight = np.linspace(0.5, 2.0, 200)
    one = test(scores, events, sample_weight=weight)
    two = test(scores[order], events[order], sample_weight=3.0 * weight[order])
    assert one.p_value == pytest.approx(two.p_value, rel=1e-9)
    assert one.error == pytest.approx(two.error, rel=1e-9)


@pytest.mark.parametrize("test", TESTS)
def test_notions(test):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 100)
    labels = rng.integers(0, 3, 100)
    confidence = test(probs, labels)
    assert confidence.notion == "confidence"
    top = probs.max(axis=1), (probs.argmax(axis=1) == labels).astype(int)
    assert confidence.p_value == test(*top).p_value
    classes = [test(probs[:, c], (labels == c).astype(int)).p_value for c in range(3)]
    assert test(probs, labels, notion="classwise").p_value == min(1.0, 3.0 * min(classes))
    with pytest.raises(ValueError, match="class 1 of two is asked for, but there are 3 classes"):
        test(probs, labels, notion="class-1")
    with pytest.raises(ValueError, match=r"notion must be .* got 'canonical'"):
        test(probs, labels, notion="canonical")


@pytest.mark.parametrize("test", TESTS)
def test_certain_predictions(test):
    assert test([0.0, 1.0], [0, 1]).p_value == 1.0
    refuted = test([0.0, 1.0], [1, 1])
    assert (refuted.statistic, refuted.p_value) == (np.inf, 0.0)


# --- p-values ---------------------------------------------------------------------------------


def test_both_series_are_the_same_law(monkeypatch):
    for law in (ks_p_value, kuiper_p_value):
        for x in (1.2, 1.5, 2.0):
            values = []
            for switch in (1.0, 3.0):
                monkeypatch.setattr("calibrant.metrics.cumulative._SWITCH", switch)
                values.append(law(x))
            assert values[0] == pytest.approx(values[1], abs=1e-12)
        assert law(0.0) == 1.0
        assert law(np.inf) == 0.0
        assert 0.0 < law(30.0) < 1e-190  # no difference of large numbers


def test_the_laws_are_those_of_brownian_motion():
    # A walk reaches less far than the motion between its steps, by 0.58 / sqrt(steps) at each end.
    rng = np.random.default_rng(0)
    path = np.cumsum(rng.normal(size=(2000, 2000)), axis=0) / np.sqrt(2000)
    missed = 0.5826 / np.sqrt(2000)
    largest = np.abs(path).max(axis=0) + missed
    spread = np.maximum(path.max(axis=0), 0) - np.minimum(path.min(axis=0), 0) + 2 * missed
    assert kstest([ks_p_value(x) for x in largest], "uniform").pvalue > 0.01
    assert kstest([kuiper_p_value(x) for x in spread], "uniform").pvalue > 0.01


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("chances", [(1.0, 3.0), (0.5, 50.0)], ids=["usual", "rare"])
def test_the_level_holds(test, chances):
    p = [test(*example(1000, seed, chances=chances)).p_value for seed in range(600)]
    for level in (0.01, 0.05, 0.2):
        bound = 3.0 * np.sqrt(level * (1.0 - level) / 600)
        assert np.mean(np.array(p) <= level) <= level + bound
    assert np.mean(np.array(p) <= 0.5) > 0.35  # and is not far too safe


@pytest.mark.parametrize("test", TESTS)
def test_a_shift_is_found(test):
    p = [test(*example(1000, seed, shift=0.4)).p_value for seed in range(100)]
    assert np.mean(np.array(p) <= 0.05) > 0.9
