"""Logits, ignored labels and 1-D probabilities mean the same in every metric and test."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

import calibrant
from calibrant import metrics


def example(rows=300, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes)) * 2.0
    return logits, np.argmax(logits / 2.0 + rng.gumbel(size=logits.shape), axis=1)


def plain(result):
    """Results as numbers that can be compared."""
    if isinstance(result, metrics.BinStats):
        return np.concatenate(result.columns)
    if hasattr(result, "__dict__"):
        return [plain(value) for value in vars(result).values() if not isinstance(value, str)]
    return list(result.values()) if isinstance(result, dict) else result


def close(first, second, rel=1e-9):
    first, second = (np.hstack([np.ravel(x) for x in np.atleast_1d(r)]) for r in (first, second))
    np.testing.assert_allclose(first.astype(float), second.astype(float), rtol=rel, atol=1e-12)


def flat(result):
    values = plain(result)
    if not isinstance(values, list):
        return np.ravel(values)
    return np.hstack(
        [np.ravel(flat(value) if isinstance(value, list) else value) for value in values]
    )


DRAWS = {"n_resamples": 20}
FUNCTIONS = {
    **{name: getattr(metrics, name) for name, one in metrics.METRICS.items() if one.suits(4)},
    "classwise_ece_per_class": metrics.classwise_ece_per_class,
    "nll_per_row": metrics.nll_per_row,
    "brier_per_row": metrics.brier_per_row,
    "skce": metrics.skce,
    "skce_test": lambda *data, **o: metrics.skce_test(*data, **DRAWS, **o),
    "ks_test": metrics.ks_test,
    "kuiper_test": metrics.kuiper_test,
    "cox_test": metrics.cox_test,
    "omnibus_test": lambda *data, **o: metrics.omnibus_test(*data, **DRAWS, **o),
    "spiegelhalter_test": metrics.spiegelhalter_test,
    "brier_decomposition": metrics.brier_decomposition,
    "bin_stats": metrics.bin_stats,
    "bootstrap_ci": lambda *data, **o: metrics.bootstrap_ci(*data, **DRAWS, **o),
    "calibration_test": lambda *data, **o: metrics.calibration_test(*data, **DRAWS, **o),
    "compare_paired": lambda p, y, **o: metrics.compare_paired(p, p, y, "nll", **DRAWS, **o),
    "calibration_gain": lambda p, y, **o: metrics.calibration_gain(p, p, y, **o),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_logits_are_their_softmax(name):
    logits, labels = example()
    function = FUNCTIONS[name]
    close(
        flat(function(logits, labels, input="logits")), flat(function(softmax(logits, 1), labels))
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ignored_rows_are_left_out(name):
    logits, labels = example()
    kept = np.arange(300) % 4 != 1
    marked = np.where(kept, labels, -100)
    function = FUNCTIONS[name]
    got = function(logits, marked, input="logits", ignore_index=-100)
    close(flat(got), flat(function(logits[kept], labels[kept], input="logits")), 1e-12)
    with pytest.raises(ValueError, match="say ignore_index=-100"):
        function(logits, marked, input="logits")
    with pytest.raises(ValueError, match="every label is the ignore_index"):
        function(logits, np.full(300, -100), input="logits", ignore_index=-100)


def test_weights_go_with_the_rows_that_are_kept():
    logits, labels = example()
    probs, weight = softmax(logits, 1), np.random.default_rng(1).random(300)
    kept = labels != 2
    options = {"ignore_index": 2, "sample_weight": weight}
    expected = metrics.ece(probs[kept], labels[kept], sample_weight=weight[kept])
    assert metrics.ece(probs, labels, **options) == expected
    tensors = torch.tensor(probs), torch.tensor(labels)
    assert metrics.ece(*tensors, **options) == expected
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(300,\), got"):
        metrics.ece(probs, labels, ignore_index=2, sample_weight=weight[:200])
    with pytest.raises(ValueError, match="labels and scores must have the same rows"):
        metrics.ece(probs, np.append(labels, 2), ignore_index=2)
    with pytest.raises(ValueError, match="zero everywhere"):
        metrics.ece(probs, labels, ignore_index=2, sample_weight=(labels == 2))


def test_evaluate_takes_both():
    logits, labels = example()
    marked = np.append(labels, [-1, -1])
    longer = np.vstack([logits, logits[:2]])
    got = calibrant.evaluate(longer, marked, input="logits", ignore_index=-1, n_resamples=10)
    expected = calibrant.evaluate(softmax(logits, 1), labels, n_resamples=10)
    assert got.n_rows == 300
    for name, estimate in expected.metrics.items():
        assert got.metrics[name].value == pytest.approx(estimate.value, rel=1e-9)


def test_the_nll_of_logits_does_not_underflow():
    logits = np.array([[0.0, 2000.0], [0.0, 1.0]], np.float32)
    expected = -log_softmax(logits.astype(float), 1)[:, 0]
    assert metrics.nll(logits, [0, 0], input="logits") == pytest.approx(expected.mean(), rel=1e-6)
    np.testing.assert_allclose(metrics.nll_per_row(logits, [0, 0], input="logits"), expected, 1e-6)
    assert calibrant.evaluate(logits, [0, 0], input="logits", n_resamples=0).nll.high > 1000.0
    assert metrics.nll(softmax(logits, 1), [0, 0]) == np.inf


@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_two_classes_may_be_one_dimensional(kind):
    rng = np.random.default_rng(0)
    scores = rng.random(200) if kind == "probs" else rng.normal(size=200)
    labels = rng.integers(0, 2, 200)
    other = 1.0 - scores if kind == "probs" else np.zeros(200)
    both = np.stack([other, scores], axis=1)
    for name in metrics.METRICS:
        function = getattr(metrics, name)
        assert function(scores, labels, input=kind) == function(both, labels, input=kind)


def test_masked_classes_and_bad_logits():
    masked = [[0.0, 1.0, -np.inf]]
    assert metrics.accuracy(masked, [1], input="logits") == 1.0
    with pytest.raises(ValueError, match="must not lie on a masked class: row 0 has label 2"):
        metrics.nll(masked, [2], input="logits")
    with pytest.raises(ValueError, match="finite or -inf, got nan at row 1, class 0"):
        metrics.ece([[0.0, 1.0], [np.nan, 1.0]], [0, 0], input="logits")
    with pytest.raises(ValueError, match='input must be "logits" or "probs", got \'scores\''):
        metrics.ece([[0.5, 0.5]], [0], input="scores")


def test_tensors_of_logits():
    logits, labels = example()
    for name in [name for name, one in metrics.METRICS.items() if one.suits(4)]:
        function = getattr(metrics, name)
        got = function(torch.tensor(logits), torch.tensor(labels), input="logits")
        assert got == pytest.approx(function(logits, labels, input="logits"), rel=1e-9)


def test_many_tiles_of_logits():
    logits, labels = example(40_000, 10)
    got = metrics.nll(logits, labels, input="logits")
    assert got == pytest.approx(-log_softmax(logits, 1)[np.arange(40_000), labels].mean())
    logits[39_999, 3] = np.nan
    with pytest.raises(ValueError, match="got nan at row 39999, class 3"):
        metrics.nll(logits, labels, input="logits")
