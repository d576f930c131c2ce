"""The recommended test: what its parts are, that its level is exact, and that it finds faults."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import kstest

from calibrant import metrics


def example(seed, rows=150, classes=3, temperature=1.0, shift=0.0):
    """Probabilities too sure by a temperature, and too much for class 1 by a shift."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(rows, classes))
    labels = (logits / temperature + rng.gumbel(size=logits.shape)).argmax(axis=1)
    logits[:, 1] += shift
    return softmax(logits, axis=1), labels


def rare_events(seed, rows=200):
    rng = np.random.default_rng(seed)
    chance = rng.beta(0.5, 50.0, rows)
    return chance, (rng.random(rows) < chance).astype(int)


def test_a_draw_of_one_is_ranked_by_hand():
    # With one draw every p-value is 1/2 or 1.
    probs, labels = example(0, temperature=3.0)
    got = metrics.omnibus_test(probs, labels, n_resamples=1)
    assert set(got.parts.values()) <= {0.5, 1.0}
    assert got.p_value in (0.5, 1.0)
    assert (got.n_rows, got.n_resamples) == (150, 1)


def test_the_parts_are_the_tests_by_themselves():
    probs, labels = example(1, rows=400, temperature=1.2)
    got = metrics.omnibus_test(probs, labels, n_resamples=999)
    assert list(got.parts) == ["kuiper", "spiegelhalter", "skce"]
    kuiper = metrics.kuiper_test(probs, labels).p_value
    brier = metrics.spiegelhalter_test(probs, labels).p_value
    kernel = metrics.skce_test(probs, labels, n_resamples=999, random_state=1).p_value
    for part, alone in zip(got.parts.values(), (kuiper, brier, kernel), strict=True):
        assert part == pytest.approx(alone, abs=0.06)
    top = metrics.omnibus_test(probs, labels, notion="confidence", n_resamples=999)
    assert top.notion == "confidence"
    cox = metrics.cox_test(probs, labels).p_value
    for part, alone in zip(top.parts.values(), (kuiper, cox), strict=True):
        assert part == pytest.approx(alone, abs=0.06)


@pytest.mark.parametrize("draw", [example, rare_events])
@pytest.mark.parametrize("notion", ["canonical", "confidence"])
def test_p_values_are_uniform_under_the_null(draw, notion):
    options = {"n_resamples": 99, "notion": notion}
    p = [
        metrics.omnibus_test(*draw(seed), random_state=seed, **options).p_value
        for seed in range(200)
    ]
    assert kstest(p, "uniform").pvalue > 0.01
    assert np.mean(np.array(p) <= 0.01) <= 0.01 + 3.0 * np.sqrt(0.01 * 0.99 / 200)


@pytest.mark.parametrize("fault", [{"temperature": 1.7}, {"temperature": 0.6}, {"shift": 1.0}])
def test_faults_are_found(fault):
    p = [metrics.omnibus_test(*example(s, **fault), n_resamples=99).p_value for s in range(40)]
    assert np.mean(np.array(p) <= 0.05) > 0.8


def test_weights_zero_many_rows_and_the_seed():
    probs, labels = example(0, rows=300)
    weight = (np.arange(300) < 200).astype(float)
    part = metrics.omnibus_test(probs[:200], labels[:200], n_resamples=19)
    assert metrics.omnibus_test(probs, labels, n_resamples=19, sample_weight=weight) == part
    some = metrics.omnibus_test(probs, labels, n_resamples=19, max_rows=50)
    assert some.n_rows == 50
    assert some == metrics.omnibus_test(probs, labels, n_resamples=19, max_rows=50)


def test_one_row_and_certain_predictions():
    assert metrics.omnibus_test([0.3], [0], n_resamples=19).p_value <= 1.0
    assert metrics.omnibus_test([0.0, 1.0], [0, 1], n_resamples=19).p_value == 1.0
    assert metrics.omnibus_test([0.0, 1.0], [1, 1], n_resamples=19).p_value == 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"notion": "classwise"}, "notion must be .* got 'classwise'"),
        ({"n_resamples": 0}, "n_resamples must be at least 1, got 0"),
        ({"max_rows": 1}, "max_rows must be at least 2, got 1"),
    ],
)
def test_omnibus_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        metrics.omnibus_test(*example(0), **options)
