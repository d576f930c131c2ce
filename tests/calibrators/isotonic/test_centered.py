"""Centered isotonic regression: its definition, and the package cir-model."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.calibrators import CenteredIsotonic, IsotonicOneVsAll


@pytest.mark.parametrize("name", ["ties", "many"])
def test_two_classes_are_those_of_cir_model(peers, name):
    data = peers[name]
    model = CenteredIsotonic(input="probs").fit(data["probs"], data["labels"])
    # 1e-9 of the plain probability is added, to break ties
    probs = model.predict_proba(data["test"])[:, 1]
    np.testing.assert_allclose(probs, data["expected"]["cir"], atol=2e-9)


def test_three_classes_are_those_of_cir_model(peers):
    data = peers["three"]
    probs = CenteredIsotonic(input="probs").fit(data["probs"], data["labels"])
    np.testing.assert_allclose(
        probs.predict_proba(data["test"]), data["expected"]["cir"], atol=1e-8
    )


def test_a_pooled_block_is_one_point_at_its_mean():
    probs = np.array([0.1, 0.3, 0.4, 0.5, 0.9])
    labels, weight = [0, 1, 1, 0, 1], [1.0, 1.0, 2.0, 1.0, 1.0]
    model = CenteredIsotonic(normalize=False, input="probs").fit(probs, labels, weight)
    x, y = model.formula_.curves.line(1)
    assert x == pytest.approx([0.1, (0.3 + 2 * 0.4 + 0.5) / 4, 0.9])  # flat ends of one point each
    assert y == pytest.approx([0.0, 0.75, 1.0])


def test_it_rises_where_isotonic_regression_is_flat():
    rng = np.random.default_rng(0)
    score = 2.0 * rng.normal(size=500)
    labels = (rng.random(500) < 1.0 / (1.0 + np.exp(-score / 2))).astype(int)
    grid = np.linspace(-1.5, 1.5, 200)
    flat, rising = (
        (np.diff(method().fit(score, labels).predict_proba(grid)[:, 1]) <= 1e-8).mean()
        for method in (IsotonicOneVsAll, CenteredIsotonic)
    )
    assert flat > 0.5
    assert rising == 0.0


def test_weight_two_is_a_row_twice():
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    weight = rng.integers(0, 4, 60).astype(float)
    again = np.repeat(np.arange(60), weight.astype(int))
    weighted = CenteredIsotonic().fit(logits, labels, sample_weight=weight).predict_proba(logits)
    repeated = CenteredIsotonic().fit(logits[again], labels[again]).predict_proba(logits)
    np.testing.assert_allclose(weighted, repeated, atol=1e-12)
