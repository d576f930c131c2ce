"""Proper scores, their parts, and the gain of a calibrator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from calibrant import metrics


def example(rows=300, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(classes, 0.7), rows), rng.integers(0, classes, rows)


@pytest.mark.parametrize("bins", [None, 1, 15])
@given(
    seed=st.integers(0, 30), rows=st.integers(1, 60), weighted=st.booleans(), debiased=st.booleans()
)
def test_the_parts_add_up_to_the_score(bins, seed, rows, weighted, debiased):
    probs, labels = example(rows, seed=seed)
    weight = np.random.default_rng(seed).random(rows) + 0.1 if weighted else None
    options = {"debiased": debiased, "sample_weight": weight}
    parts = metrics.brier_decomposition(probs, labels, bins, **options)
    assert parts.score == pytest.approx(metrics.brier(probs, labels, sample_weight=weight))
    assert parts.calibration + parts.refinement == pytest.approx(parts.score, abs=1e-12)
    assert parts.noise >= -1e-12
    assert parts.calibration >= -1e-12 - debiased * parts.noise
    assert parts.uncertainty - parts.resolution == pytest.approx(parts.refinement)


def test_the_calibration_part_is_what_isotonic_regression_saves():
    probs, labels = example()
    truth = np.eye(3)[labels]
    saved = 0.0
    for label in range(3):
        column = probs[:, label]
        fitted = IsotonicRegression().fit_transform(column, truth[:, label])
        errors = (column - truth[:, label]) ** 2 - (fitted - truth[:, label]) ** 2
        saved += errors.mean()
    parts = metrics.brier_decomposition(probs, labels, debiased=False)
    assert parts.calibration == pytest.approx(saved)
    less = metrics.brier_decomposition(probs, labels)
    assert less.calibration == pytest.approx(saved - parts.noise)


@pytest.mark.parametrize("bins", [None, 15])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_noise_is_taken_off_the_calibration_part(bins, temperature):
    """Over many label sets the mean is the true part, that of the chances themselves."""
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(400, 12))
    probs, chance = (
        np.exp(logits / t) / np.exp(logits / t).sum(axis=1, keepdims=True)
        for t in (1.0, temperature)
    )
    true = ((probs - chance) ** 2).sum(axis=1).mean()
    found, plain = [], []
    for _ in range(40):
        labels = np.argmax(np.log(chance) + rng.gumbel(size=chance.shape), axis=1)
        parts = metrics.brier_decomposition(probs, labels, bins)
        found.append(parts.calibration)
        plain.append(parts.calibration + parts.noise)
    error = np.std(found) / np.sqrt(40)
    if temperature == 1.0:
        assert abs(np.mean(found)) < 4.0 * error + 1e-3
        assert np.mean(plain) > 0.03
    else:  # what one class' probability says of it is less than what all of them say
        assert 0.5 * true < np.mean(found) < true + 4.0 * error


def test_whole_weights_have_the_noise_of_so_many_rows():
    probs, labels = example(60)
    times = np.random.default_rng(1).integers(0, 5, 60)
    repeated = np.repeat(probs, times, axis=0), np.repeat(labels, times)
    for bins, tolerance in ((None, 0.2), (15, 1e-9)):
        one = metrics.brier_decomposition(probs, labels, bins, sample_weight=times)
        other = metrics.brier_decomposition(*repeated, bins)
        assert one.noise == pytest.approx(other.noise, rel=tolerance)


def test_constant_forecasts_of_the_class_shares_have_uncertainty_only():
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    probs = np.tile([0.5, 0.3, 0.2], (100, 1))
    parts = metrics.brier_decomposition(probs, labels, debiased=False)
    assert parts.calibration == pytest.approx(0.0, abs=1e-12)
    assert parts.score == pytest.approx(parts.uncertainty)
    assert parts.resolution == pytest.approx(0.0, abs=1e-12)


def test_the_gain_is_a_plain_difference():
    base, labels = example()
    better = 0.5 * base + 0.5 * np.eye(3)[labels]
    gain = metrics.calibration_gain(base, better, labels)
    assert gain == pytest.approx(0.75 * metrics.brier(base, labels))
    assert metrics.calibration_gain(base, base, labels) == 0.0


@pytest.mark.parametrize("notion", ["classes", "top-label"])
def test_spiegelhalter_for_two_classes_is_the_textbook_formula(notion):
    probs, labels = example(classes=2)
    p = probs[:, 1]
    z = ((labels - p) * (1.0 - 2.0 * p)).sum()
    z /= np.sqrt(((1.0 - 2.0 * p) ** 2 * p * (1.0 - p)).sum())
    assert metrics.spiegelhalter_test(probs, labels, notion=notion).z == pytest.approx(z)


def test_spiegelhalter_refuses_other_subjects():
    with pytest.raises(ValueError, match='"classes" or "top-label", got \'all\''):
        metrics.spiegelhalter_test(*example(), notion="all")
