"""Classwise, top-label and swept errors against versions that follow the definitions row by row."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import metrics


def example(rows=240, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(rows, classes))
    labels = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    probs = np.exp(logits)
    return probs / probs.sum(axis=1, keepdims=True), labels


def equal_parts(score, event, n_bins):
    """(rows, gap, accuracy) of equally many rows each, in ascending order of the score."""
    order = np.argsort(score)
    return [
        (len(rows), event[rows].mean() - score[rows].mean(), event[rows].mean())
        for rows in np.array_split(order, min(n_bins, len(order)))
    ]


def class_parts(probs, labels, n_bins):
    return [equal_parts(probs[:, c], labels == c, n_bins) for c in range(probs.shape[1])]


@pytest.mark.parametrize("n_bins", [1, 7, 15])
def test_classwise_errors(n_bins):
    probs, labels = example()
    parts = class_parts(probs, labels, n_bins)
    mean = np.mean([sum(n * abs(gap) for n, gap, _ in bins) / 240 for bins in parts])
    assert metrics.classwise_adaptive_ece(probs, labels, n_bins) == pytest.approx(mean)
    roots = [
        sum(n / 240 * (gap**2 - acc * (1.0 - acc) / (n - 1)) for n, gap, acc in bins)
        for bins in parts
    ]
    debiased = np.mean(np.sqrt(np.maximum(roots, 0.0)))
    assert metrics.classwise_debiased_ece(probs, labels, n_bins) == pytest.approx(debiased)


def test_every_bin_of_ace_counts_the_same():
    probs, labels = example(241)
    gaps = [abs(gap) for bins in class_parts(probs, labels, 7) for _, gap, _ in bins]
    assert metrics.ace(probs, labels, 7) == pytest.approx(np.mean(gaps))


def test_tace_leaves_small_probabilities_out():
    probs, labels = example()
    gaps = []
    for c in range(4):
        above = probs[:, c] > 0.1
        parts = equal_parts(probs[above, c], labels[above] == c, 5)
        gaps += [abs(gap) for _, gap, _ in parts]
    assert metrics.ace(probs, labels, 5, threshold=0.1) == pytest.approx(np.mean(gaps))
    assert metrics.ace(probs, labels, 5, threshold=0.9999999) == 0.0
    with pytest.raises(ValueError, match=r"threshold must lie in \[0, 1\), got 1.0"):
        metrics.ace(probs, labels, threshold=1.0)


def test_top_label_errors_are_those_of_each_predicted_class():
    probs, labels = example()
    top = probs.argmax(axis=1)
    total = 0.0
    for c in range(4):
        rows = top == c
        parts = equal_parts(probs[rows, c], labels[rows] == c, 5)
        total += sum(n * abs(gap) for n, gap, _ in parts)
    assert metrics.top_label_ece(probs, labels, 5) == pytest.approx(total / 240)
    whole = metrics.ece(probs, labels, 5, scheme="equal-width")
    assert metrics.top_label_ece(probs, labels, 5, scheme="equal-width") >= whole - 1e-12
    with pytest.raises(ValueError, match="scheme must be"):
        metrics.top_label_ece(probs, labels, scheme="other")


@pytest.mark.parametrize("seed", range(5))
def test_the_sweep_stops_where_the_accuracy_falls(seed):
    probs, labels = example(300, seed=seed)
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    number = 1
    while np.all(np.diff([acc for _, _, acc in equal_parts(confidence, correct, number + 1)]) >= 0):
        number += 1
    expected = sum(n * abs(gap) for n, gap, _ in equal_parts(confidence, correct, number)) / 300
    assert metrics.ece_sweep(probs, labels) == pytest.approx(expected)
    one = abs(correct.mean() - confidence.mean())
    assert metrics.ece_sweep(probs, labels, max_bins=1) == pytest.approx(one)


def test_the_sweep_refuses():
    with pytest.raises(ValueError, match="max_bins must be at least 1, got 0"):
        metrics.ece_sweep(*example(), max_bins=0)


@pytest.mark.parametrize(
    "name",
    ["classwise_adaptive_ece", "classwise_debiased_ece", "ace", "top_label_ece", "ece_sweep"],
)
def test_rows_of_weight_zero_are_absent(name):
    probs, labels = example()
    weight = np.random.default_rng(1).random(240) * (np.arange(240) < 200)
    function = getattr(metrics, name)
    part = function(probs[:200], labels[:200], sample_weight=weight[:200])
    assert function(probs, labels, sample_weight=weight) == pytest.approx(part)
    assert function(probs, labels, sample_weight=4.0 * weight) == pytest.approx(part)
