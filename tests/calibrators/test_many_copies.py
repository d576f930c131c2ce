"""Whole weights that are too large to look at copies one by one, and zeros beyond a sample."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import REGISTRY, _choosing
from calibrant.data import copies
from calibrant.data.copies import binomials, uniforms


def rows(count: int, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=count)
    logits = rng.normal(size=(count, classes))
    logits[np.arange(count), labels] += 1.0
    return logits, labels


def test_draws_by_keys_have_their_distribution():
    keys = np.random.default_rng(0).integers(2**63, size=20_000, dtype=np.uint64)
    drawn = uniforms(keys, 3)
    assert 0.0 < drawn.min() < drawn.max() < 1.0
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
    assert abs(np.corrcoef(drawn, uniforms(keys, 4))[0, 1]) < 0.03
    for total, share in ((30.0, 0.2), (1e6, 0.3), (1e15, 1e-9)):
        counts = binomials(keys, 0, np.full(len(keys), total), share)
        assert counts.mean() == pytest.approx(total * share, rel=0.02)
        assert counts.std() == pytest.approx(np.sqrt(total * share * (1.0 - share)), rel=0.03)
        assert (counts == np.floor(counts)).all()
    assert (binomials(keys, 0, np.full(len(keys), 9.0), 1.0) == 9.0).all()


@pytest.mark.parametrize("method", ["vector", "pts", "auto"])
def test_every_row_may_have_many_copies(monkeypatch, method):
    monkeypatch.setattr(_choosing, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(copies, "MOST_COPIES", 1000)
    logits, labels = rows(900)
    heavy = calibrant.calibrator(method).fit(logits, labels, np.full(900, 200))
    plain = calibrant.calibrator(method).fit(logits, labels)
    difference = np.abs(heavy.predict_proba(logits) - plain.predict_proba(logits))
    # another 300 copies are drawn, on which auto may choose other methods
    assert difference.max() < (0.15 if method == "auto" else 0.05)
    assert difference.mean() < 0.02


def test_a_true_class_of_probability_0_need_not_be_in_the_sample(monkeypatch):
    monkeypatch.setattr(_choosing, "SAMPLE_ROWS", 200)
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(5, 0.3), 2000)
    labels = np.array([rng.choice(5, p=row) for row in probs])
    probs[:50, 0] = np.where(labels[:50] == 0, probs[:50, 0], 0.0)
    probs /= probs.sum(axis=1, keepdims=True)
    for first in (0.3, 0.4, 0.5):
        probs[60], labels[60] = [0.0, first, 1.0 - first, 0.0, 0.0], 0
        for method in ("ts", "vector"):
            model = calibrant.calibrator(method, input="probs").fit(probs, labels)
            assert model.formula_.share > 0.0


def test_a_row_of_weight_0_may_have_any_label():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 300)
    labels = np.array([rng.choice(3, p=row) for row in probs])
    more, weight = np.vstack([probs, [[0.0, 1.0, 0.0]]]), np.append(np.ones(300), 0.0)
    for method in ("ts", "vector"):
        absent = calibrant.calibrator(method, input="probs").fit(probs, labels)
        weightless = calibrant.calibrator(method, input="probs").fit(
            more, np.append(labels, 0), weight
        )
        np.testing.assert_allclose(
            weightless.predict_proba(probs), absent.predict_proba(probs), atol=1e-6
        )


@pytest.mark.parametrize("method", REGISTRY)
def test_a_fit_on_one_class_can_be_saved_and_loaded(tmp_path, method):
    logits, labels = rows(60, 2)
    model = calibrant.calibrator(method)
    with pytest.warns() if not model.accuracy_preserving else _nothing():
        model.fit(logits[labels == 1], labels[labels == 1])
    calibrant.save(model, tmp_path / "one.safetensors")
    again = calibrant.load(tmp_path / "one.safetensors")
    np.testing.assert_array_equal(again.predict_proba(logits), model.predict_proba(logits))


def _nothing():
    import warnings

    return warnings.catch_warnings(action="ignore")


@pytest.mark.parametrize("method", ["histogram", "bbq", "pbmc", "venn-abers", "irova"])
def test_votes_in_single_precision_are_the_same_votes(method):
    """Equal probabilities that differ by rounding lie on one side of every edge."""
    rng = np.random.default_rng(0)
    votes = rng.multinomial(10, [0.5, 0.3, 0.2], 300) / 10
    probs = 0.9 * votes + 0.1 / 3
    labels = np.array([rng.choice(3, p=row) for row in probs])
    model = calibrant.calibrator(method, input="probs").fit(probs, labels)
    order = rng.permutation(300)
    shuffled = calibrant.calibrator(method, input="probs").fit(probs[order], labels[order])
    got = model.predict_proba(probs)
    np.testing.assert_allclose(model.predict_proba(probs.astype(np.float32)), got, atol=1e-4)
    np.testing.assert_allclose(shuffled.predict_proba(probs), got, atol=1e-6)


def test_one_zero_does_not_change_a_good_fit():
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(1000, 2))
    labels = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    probs[0] = np.eye(2)[labels[0]]
    model = calibrant.TS(input="probs").fit(probs, labels)
    expected = calibrant.TS(input="probs").fit(probs[1:], labels[1:])
    np.testing.assert_allclose(
        model.predict_proba(probs[1:]), expected.predict_proba(probs[1:]), atol=0.01
    )
