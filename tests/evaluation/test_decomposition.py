"""Scores in parts by cross-validation: a calibrated model has nothing to gain."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import calibrant
from calibrant import TS, decompose, metrics
from calibrant.data.folds import folds_of
from calibrant.data.rows import Rows


def example(rows=800, classes=5, temperature=1.0, seed=0):
    """Logits whose labels come from their softmax at another temperature."""
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.normal(size=(rows, classes))
    gumbel = rng.gumbel(size=logits.shape)
    return logits, np.argmax(logits / temperature + gumbel, axis=1)


def softmax(logits):
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


def test_the_parts_are_those_of_a_loop_over_folds():
    logits, labels = example(temperature=2.0)
    weight = np.random.default_rng(1).random(800)
    got = decompose(logits, labels, method="ts", sample_weight=weight)
    probs = np.empty_like(logits)
    for fold in folds_of(Rows(logits, labels, weight)).parts:
        kept = np.ones(800, bool)
        kept[fold] = False
        model = TS().fit(logits[kept], labels[kept], sample_weight=weight[kept])
        probs[fold] = model.predict_proba(logits[fold])
    for name in ("nll", "brier"):
        parts, metric = getattr(got, name), getattr(metrics, name)
        assert parts.score == pytest.approx(metric(softmax(logits), labels, sample_weight=weight))
        assert parts.refinement == pytest.approx(metric(probs, labels, sample_weight=weight))
        assert parts.calibration + parts.refinement == pytest.approx(parts.score)
        assert parts.resolution == pytest.approx(parts.uncertainty - parts.refinement)
        assert parts.calibration > 5.0 * parts.std_error
        assert (parts.null, parts.p_value) == (None, None)
    share = np.bincount(labels, weight) / weight.sum()
    assert got.nll.uncertainty == pytest.approx(-(share @ np.log(share)))
    assert got.brier.uncertainty == pytest.approx(1.0 - share @ share)


def test_a_calibrated_model_has_nothing_to_gain():
    for seed in range(5):
        got = decompose(*example(300, 20, seed=seed), method="ts", n_resamples=9)
        for parts in (got.nll, got.brier):
            assert abs(parts.calibration) < max(4.0 * parts.std_error, 2e-3)
            assert abs(parts.null) < 6e-3
            assert parts.p_value > 0.1 or parts.calibration < 3e-3


def test_draws_tell_that_calibration_is_missing():
    got = decompose(*example(400, temperature=2.5), method="ts", n_resamples=9)
    assert got.nll.p_value == got.brier.p_value == 0.1
    assert got.nll.calibration > 10.0 * abs(got.nll.null)


def test_a_whole_weight_is_the_row_so_often():
    logits, labels = example(120, temperature=2.0)
    times = np.random.default_rng(0).integers(0, 4, 120)
    one = decompose(logits, labels, method="ts", sample_weight=times)
    other = decompose(np.repeat(logits, times, axis=0), np.repeat(labels, times), method="ts")
    assert one.nll.calibration == pytest.approx(other.nll.calibration, rel=1e-6)
    assert one.brier.std_error == pytest.approx(other.brier.std_error, rel=1e-6)


def test_calibrators_probabilities_and_tensors():
    logits, labels = example(temperature=2.0)
    named = decompose(logits, labels, method="ts")
    given = decompose(logits, labels, method=TS())
    tensor = decompose(torch.tensor(logits), torch.tensor(labels), method="ts")
    assert named.nll == given.nll
    assert tensor.nll.calibration == pytest.approx(named.nll.calibration)
    assert (named.method, given.method) == ("ts", "TemperatureScaling")
    probs = decompose(softmax(logits), labels, method="ts", input="probs")
    assert probs.nll.calibration == pytest.approx(named.nll.calibration, rel=0.02)  # other folds
    assert decompose(softmax(logits), labels, method=TS(input="probs")).nll == probs.nll


def test_what_it_shows():
    seen = []
    got = decompose(
        *example(200), method="ts", n_resamples=2, progress=lambda done, total: seen.append(done)
    )
    assert seen == list(range(1, 16))
    text = str(got)
    assert "200 rows, 5 folds; calibration: what ts saves on left-out rows" in text
    assert "if calibrated" in text
    assert "refinement" in text
    assert "<table>" in got._repr_html_()
    assert got.to_dict()["brier"]["score"] == got.brier.score
    assert "if calibrated" not in str(decompose(*example(200), method="ts"))


def test_bad_input():
    logits, labels = example(50)
    with pytest.raises(
        TypeError, match="method must be a name such as 'ts' or a calibrator, got 3"
    ):
        decompose(logits, labels, method=3)
    with pytest.raises(ValueError, match="there must be rows to leave out, got 1 in all"):
        decompose(logits[:1], labels[:1])
    with pytest.raises(ValueError, match="n_resamples must be at least 0, got -1"):
        decompose(logits, labels, n_resamples=-1)
    with pytest.raises(ValueError, match=r"labels must lie in 0..4, got 5 at row 0"):
        decompose(logits, labels * 0 + 5)
    assert calibrant.decompose is decompose


def test_a_true_class_of_probability_0_has_an_infinite_log_loss():
    rng = np.random.default_rng(0)
    said = rng.choice([0.2, 0.8, 1.0], 400)
    right = (rng.random(400) < 0.8 * said).astype(int)
    got = decompose(said, right, method="ts", input="probs")
    assert got.nll.score == got.nll.calibration == np.inf
    assert np.isnan(got.nll.std_error)
    assert 0.3 < got.nll.refinement < 0.7
    assert np.isfinite([got.brier.calibration, got.brier.std_error, got.brier.refinement]).all()
