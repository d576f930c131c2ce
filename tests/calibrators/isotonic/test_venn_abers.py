"""Venn-Abers calibration: its definition by brute force, and the package venn-abers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression

from calibrant.calibrators import VennAbers


def _bounds_by_definition(score, hit, weight, at):
    """Isotonic regression of the rows and the new one, with either label."""
    both = []
    for label in (0.0, 1.0):
        regression = IsotonicRegression().fit(
            np.append(score, at), np.append(hit, label), np.append(weight, 1.0)
        )
        both.append(regression.predict([at])[0])
    return both


@given(st.data())
def test_bounds_are_those_of_the_definition(data):
    size = data.draw(st.integers(1, 25))
    probs = data.draw(arrays(np.int64, size, elements=st.integers(1, 9))) / 10
    labels = data.draw(arrays(np.int64, size, elements=st.integers(0, 1)))
    weight = data.draw(arrays(np.float64, size, elements=st.sampled_from([1.0, 2.0, 3.0])))
    assume(len(set(labels)) == 2)
    at = data.draw(st.integers(1, 19)) / 20  # known ones and others
    model = VennAbers().fit(_logits(probs), labels, sample_weight=weight)
    lower, upper = model.predict_interval(_logits(np.array([at])))
    score = _softmax(_logits(np.append(probs, at)))  # as the calibrator sees them
    expected = _bounds_by_definition(score[:-1], labels, weight, score[-1])
    assert [lower[0, 1], upper[0, 1]] == pytest.approx(expected, abs=1e-12)
    assert [1.0 - upper[0, 0], 1.0 - lower[0, 0]] == pytest.approx(expected, abs=1e-12)
    point = model.predict_proba(_logits(np.array([at])))[0, 1]
    assert point == pytest.approx(expected[1] / (1.0 - expected[0] + expected[1]), abs=1e-12)


def _logits(probs):
    half = (np.log(probs) - np.log1p(-probs)) / 2.0  # (0, s) with s in (0, 1) has a warning
    return np.column_stack([-half, half])


def _softmax(logits):
    return 1.0 / (1.0 + np.exp(logits[:, 0] - logits[:, 1]))


@pytest.mark.parametrize("name", ["ties", "many"])
def test_two_classes_are_those_of_venn_abers(peers, name):
    data = peers[name]
    model = VennAbers(input="probs").fit(data["probs"], data["labels"])
    lower, upper = model.predict_interval(data["test"])
    bounds = np.array(data["expected"]["venn-abers bounds"])
    np.testing.assert_allclose(np.column_stack([lower[:, 1], upper[:, 1]]), bounds, atol=1e-12)
    probs = model.predict_proba(data["test"])[:, 1]
    np.testing.assert_allclose(probs, data["expected"]["venn-abers"], atol=1e-12)


@pytest.mark.parametrize("name", ["ties", "many"])
def test_merged_folds_are_those_of_venn_abers(peers, name):
    data = peers[name]
    folds = [
        VennAbers(input="probs").fit(data["probs"][fold::3], data["labels"][fold::3])
        for fold in range(3)
    ]
    probs = VennAbers.merge([fold.predict_interval(data["test"]) for fold in folds])
    np.testing.assert_allclose(probs[:, 1], data["expected"]["cross venn-abers"], atol=1e-12)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)


def test_three_classes_are_those_of_venn_abers(peers):
    data = peers["three"]
    model = VennAbers(input="probs").fit(data["probs"], data["labels"])
    probs = model.predict_proba(data["test"])
    np.testing.assert_allclose(probs, data["expected"]["venn-abers"], atol=1e-12)


def test_the_interval_is_ordered_and_narrows_with_the_rows():
    rng = np.random.default_rng(0)
    score = 2.0 * rng.normal(size=3000)
    labels = (rng.random(3000) < 1.0 / (1.0 + np.exp(-score / 2))).astype(int)
    widths = []
    for rows in (30, 300, 3000):
        lower, upper = VennAbers().fit(score[:rows], labels[:rows]).predict_interval(score)
        assert np.all(lower <= upper)
        widths.append((upper - lower)[:, 1].mean())
    assert widths[0] > 3.0 * widths[1] > 9.0 * widths[2]


def test_no_probability_is_certain():
    model = VennAbers().fit([-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1])
    probs = model.predict_proba([-50.0, 0.0, 50.0])[:, 1]
    assert probs == pytest.approx([0.25, 0.5, 0.75])


def test_the_interval_keeps_the_kind_of_array_and_needs_a_fit():
    with pytest.raises(NotFittedError):
        VennAbers().predict_interval([0.0])
    model = VennAbers().fit([-1.0, 0.5, 1.0], [0, 1, 1])
    lower, upper = model.predict_interval(torch.zeros(3, dtype=torch.float32))
    assert isinstance(lower, torch.Tensor)
    assert lower.dtype == upper.dtype == torch.float32
    assert upper.shape == (3, 2)


def test_weight_two_is_a_row_twice_to_the_bit():
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    weight = rng.integers(0, 4, 60).astype(float)
    again = np.repeat(np.arange(60), weight.astype(int))
    weighted = VennAbers().fit(logits, labels, sample_weight=weight).predict_proba(logits)
    repeated = VennAbers().fit(logits[again], labels[again]).predict_proba(logits)
    np.testing.assert_array_equal(weighted, repeated)
