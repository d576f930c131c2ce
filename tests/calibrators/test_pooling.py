"""Weights of an average: the formula, what is dropped, and how honest the reported loss is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrant.calibrators._pooling import NEGLIGIBLE, TOLERANCE, Judged
from calibrant.data.weights import shares

LOSSES = st.integers(1, 6).flatmap(
    lambda methods: arrays(np.float64, (methods, 25), elements=st.floats(0.0, 50.0))
)


def judged(losses: np.ndarray, weight: np.ndarray | None = None) -> Judged:
    names = ["base", *(f"m{index}" for index in range(1, len(losses)))]
    return Judged(names, losses, np.ones(losses.shape[1]) if weight is None else weight)


def test_weights_follow_the_formula():
    losses = np.array([[1.0, 1.2], [0.9, 1.1], [1.0, 0.9]])
    one = judged(losses)
    expected = np.array([2.0, 1.0, 1.0]) * np.exp(-0.5 * 2.0 * losses.mean(axis=1))
    np.testing.assert_allclose(
        one.weights(one.means, one.rows), expected / expected.sum(), rtol=1e-12
    )


def test_more_rows_leave_the_best_method_alone():
    rng = np.random.default_rng(0)
    base = rng.exponential(size=8000)
    losses = np.stack([base + 0.1, base + 0.01 * rng.normal(size=8000), base + 0.02])
    few, many = judged(losses[:, :20]), judged(losses)
    assert (few.chosen() > 0.0).all()
    np.testing.assert_array_equal(many.chosen(), [0.0, 1.0, 0.0])


@given(LOSSES)
def test_the_weights_are_a_distribution_without_crumbs(losses):
    weights = judged(losses).chosen()
    assert weights.sum() == pytest.approx(1.0)
    assert ((weights == 0.0) | (weights >= NEGLIGIBLE)).all()


@given(LOSSES)
def test_no_row_loses_more_than_the_logarithm_of_a_weight(losses):
    one = judged(losses)
    weights = one.chosen()
    kept = weights > 0.0
    most = (losses[kept] - np.log(weights[kept])[:, None]).min(axis=0)
    assert (one.pooled(weights) <= most + 1e-9).all()
    brute = -np.log(np.exp(-losses.T) @ weights)
    np.testing.assert_allclose(one.pooled(weights), brute, rtol=1e-9, atol=1e-9)


@given(LOSSES)
def test_what_is_dropped_does_not_matter(losses):
    one = judged(losses)
    weights = one.weights(one.means, one.rows)
    large = np.where(weights < NEGLIGIBLE, 0.0, weights)
    before, after = one.pooled(large / large.sum()).mean(), one.pooled(one.chosen()).mean()
    assert abs(after - before) <= TOLERANCE + 1e-12


def test_whole_weights_are_repeated_rows():
    losses = np.random.default_rng(0).exponential(size=(4, 30))
    number = 1.0 + np.arange(30) % 3
    weighted = judged(losses, number)
    repeated = judged(np.repeat(losses, number.astype(int), axis=1))
    assert weighted.rows == repeated.rows
    np.testing.assert_allclose(weighted.chosen(), repeated.chosen(), rtol=1e-9)


def test_the_corrected_loss_is_nearer_to_the_truth():
    """Ten methods that differ by chance alone: the lowest held-out loss is too low."""
    rng = np.random.default_rng(1)
    naive, corrected = [], []
    for _ in range(150):
        common = rng.exponential(size=60)
        one = judged(common + 0.4 * rng.normal(size=(10, 60)))
        weights = one.weights(one.means, one.rows)
        fresh = rng.exponential(size=20_000) + 0.4 * rng.normal(size=(10, 20_000))
        truth = judged(fresh).pooled(weights).mean()
        told = float(shares(one.weight) @ one.pooled(weights)) - common.mean() + 1.0
        naive.append(told - truth)
        corrected.append(told + one.optimism() - truth)
    error = np.std(corrected) / np.sqrt(len(corrected))
    assert np.mean(naive) < -0.02
    assert abs(np.mean(corrected)) < 0.5 * abs(np.mean(naive)) + 2.0 * error


def test_halves_agree_where_one_method_is_clearly_best():
    rng = np.random.default_rng(0)
    base = rng.exponential(size=200)
    clear = judged(np.stack([base + 1.0, base, base + 0.5]))
    alike = judged(np.stack([base + 2.0, *(base + 0.3 * rng.normal(size=(3, 200)))]))
    assert clear.agreement() == 1.0
    assert alike.agreement() < 0.75
    assert clear.optimism() == pytest.approx(0.0, abs=1e-6)
