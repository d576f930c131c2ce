"""Everything about one set of probabilities, as numbers, JSON and text."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from calibrant import metrics
from calibrant.evaluation import Estimate, evaluate

ERRORS = ["ece", "mce", "adaptive_ece", "debiased_ece", "classwise_ece", "smooth_ece", "kde_ece"]


def example(rows=500, seed=0, temperature=1.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 3)) * 2.0
    probs, true = (np.exp(logits / t) for t in (1.0, temperature))
    probs, true = (p / p.sum(axis=1, keepdims=True) for p in (probs, true))
    labels = (rng.random((rows, 1)) > true.cumsum(axis=1)).sum(axis=1)
    return probs, np.minimum(labels, 2)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_value_is_its_metric(weighted):
    probs, labels = example()
    weight = np.random.default_rng(1).random(500) if weighted else None
    got = evaluate(probs, labels, resamples=20, sample_weight=weight)
    for name in ("accuracy", "nll", "brier", *ERRORS):
        expected = getattr(metrics, name)(probs, labels, sample_weight=weight)
        assert getattr(got, name).value == pytest.approx(expected), name
    assert got.rms_ece.value == pytest.approx(
        metrics.ece(probs, labels, norm=2, sample_weight=weight)
    )
    assert got.brier_decomposition == metrics.brier_decomposition(
        probs, labels, sample_weight=weight
    )
    assert got.spiegelhalter == metrics.spiegelhalter_test(probs, labels, sample_weight=weight)
    assert (got.rows, got.classes) == (500, 3)


def test_every_error_stands_beside_its_null_value_and_interval():
    got = evaluate(*example(temperature=2.5), resamples=50)
    for name in ERRORS:
        estimate = getattr(got, name)
        assert 0.0 <= estimate.low <= estimate.high
        assert estimate.null >= 0.0
    assert got.ece.value > 2.0 * got.ece.null
    assert got.ece.p_value == pytest.approx(1 / 51)


def test_without_resampling_only_values_remain():
    got = evaluate(*example(), resamples=0)
    assert got.ece == Estimate(got.ece.value)
    assert got.classwise_ece.low is None
    assert 'if calibrated":' not in str(got)


def test_json_reads_back():
    got = evaluate(*example(), resamples=20)
    document = json.loads(got.to_json())
    assert document["ece"] == json.loads(json.dumps(got.to_dict()))["ece"]
    assert len(document["bins"]["weight"]) == 15
    certain = evaluate([[1.0, 0.0], [0.5, 0.5]], [1, 0], resamples=5)
    assert certain.nll.value == np.inf
    assert json.loads(certain.to_json())["nll"]["value"] is None


def test_the_table_shows_percent():
    probs, labels = example()
    got = evaluate(probs, labels, resamples=20)
    rows = {line[:14].strip(): line[14:].split() for line in str(got).splitlines()}
    assert rows["accuracy"][0] == f"{100.0 * metrics.accuracy(probs, labels):.2f}"
    assert rows["ECE"] == [
        f"{100.0 * got.ece.value:.2f}",
        f"{100.0 * got.ece.low:.2f}",
        "..",
        f"{100.0 * got.ece.high:.2f}",
        f"{100.0 * got.ece.null:.2f}",
        f"{got.ece.p_value:.3f}",
    ]
    assert max(map(len, str(got).splitlines())) <= 88


def test_torch_and_seed():
    probs, labels = example()
    one, two = (
        evaluate(probs, labels, resamples=20),
        evaluate(torch.tensor(probs), labels, resamples=20),
    )
    assert (one.ece, one.classwise_ece, one.kde_ece) == (two.ece, two.classwise_ece, two.kde_ece)
    assert one.skce.z == pytest.approx(two.skce.z)
    assert one.to_json() == evaluate(probs, labels, resamples=20).to_json()
    assert one.to_json() != evaluate(probs, labels, resamples=20, seed=1).to_json()


def test_small_and_raw_data():
    assert evaluate([[0.3, 0.7]], [1], resamples=5).skce is None
    raw = evaluate([[0.3, 0.3], [0.9, 0.6]], [1, 0], rows="raw", resamples=5)
    assert raw.brier.value == pytest.approx(
        metrics.brier([[0.3, 0.3], [0.9, 0.6]], [1, 0], rows="raw")
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resamples": -1}, "resamples must be at least 0, got -1"),
        ({"level": 0.0}, "level must lie between 0 and 1, got 0.0"),
        ({"bins": 0}, "bins must be at least 1, got 0"),
    ],
)
def test_evaluate_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(*example(), **options)
