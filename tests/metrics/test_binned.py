"""Bins of equal mass, the public door for confidences, classwise and debiased errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant import metrics
from calibrant.data.binning import bin_index, equal_mass_edges, equal_width_edges
from calibrant.metrics import BinStats
from calibrant.metrics.binned import debiased_error

CONFIDENCES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60).map(np.array)


# --- edges ------------------------------------------------------------------------------------


@given(
    values=st.lists(st.floats(-1e-7, 1.0 + 1e-7), min_size=1).map(np.array), bins=st.integers(1, 70)
)
def test_the_fast_index_is_the_searched_one(values, bins):
    edges = equal_width_edges(bins)
    values = np.concatenate([values, edges, np.nextafter(edges, 2.0), np.nextafter(edges, -1.0)])
    np.testing.assert_array_equal(
        bin_index(values, edges), np.searchsorted(edges[1:-1], values, side="left")
    )


@given(values=CONFIDENCES, bins=st.integers(1, 20))
def test_equal_mass_bins_differ_by_at_most_one_row(values, bins):
    edges = equal_mass_edges(values, bins)
    assert np.all(np.diff(edges[1:]) > 0.0)
    counts = np.bincount(bin_index(values, edges), minlength=len(edges) - 1)
    assert counts.sum() == len(values)
    if len(np.unique(values)) == len(values) and np.diff(np.sort(values)).min(initial=1.0) > 1e-9:
        assert counts.max() - counts.min() <= 1


@given(values=CONFIDENCES, bins=st.integers(1, 20), data=st.data())
def test_weighted_equal_mass_edges_are_those_of_repeated_rows(values, bins, data):
    sizes = st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values))
    times = np.array(data.draw(sizes.filter(any)))
    expected = equal_mass_edges(np.repeat(values, times), bins)
    got = equal_mass_edges(values, bins, times.astype(float))
    np.testing.assert_allclose(got, expected)


def test_equal_values_never_part():
    edges = equal_mass_edges(np.full(100, 0.6), 15)
    np.testing.assert_array_equal(edges, [0.0, 0.6, 1.0])
    assert metrics.adaptive_ece(np.tile([0.6, 0.4], (100, 1)), np.arange(100) % 2) == pytest.approx(
        0.1
    )


def test_fractional_weights_share_out_the_weight():
    values, weight = np.linspace(0.1, 0.9, 1000), np.linspace(0.1, 2.0, 1000)
    stats = BinStats.from_confidence(values, values < 0.5, 7, weight, scheme="equal-mass")
    np.testing.assert_allclose(stats.share, 1.0 / 7.0, atol=0.002)


# --- the public door --------------------------------------------------------------------------


def test_confidences_alone_give_the_same_bins():
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), 500), rng.integers(0, 3, 500)
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    for scheme in ("equal-width", "equal-mass"):
        stats = BinStats.from_confidence(confidence, correct, 10, scheme=scheme)
        assert stats.error() == metrics.ece(probs, labels, 10, scheme=scheme)
    tensors = torch.tensor(confidence), torch.tensor(correct)
    assert BinStats.from_confidence(*tensors).error() == metrics.ece(probs, labels)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 1.5], [1, 0]), r"confidence must lie in \[0, 1\], got 1.5 at row 1"),
        (([0.5, np.nan], [1, 0]), r"confidence must lie in \[0, 1\], got nan at row 1"),
        (([], []), r"confidence must be numbers of shape \(rows,\) with at least one row"),
        (([[0.5]], [1]), r"got shape \(1, 1\)"),
        ((["a"], [1]), "got shape"),
        (([0.5], [1, 0]), "same rows, got 1 and 2"),
        (([0.5], [1], 0), "n_bins must be at least 1, got 0"),
        (([0.5], [3]), r"correct must lie in \[0, 1\], got 3"),
    ],
)
def test_bad_confidences(arguments, message):
    with pytest.raises(ValueError, match=message):
        BinStats.from_confidence(*arguments)


def test_bad_schemes_and_norms():
    probs, labels = [[0.5, 0.5]], [0]
    with pytest.raises(ValueError, match='"equal-width" or "equal-mass", got \'wide\''):
        metrics.ece(probs, labels, scheme="wide")
    with pytest.raises(ValueError, match="norm of a debiased error must be 1 or 2, got 'max'"):
        metrics.debiased_ece(probs, labels, norm="max")
    with pytest.raises(ValueError, match="n_bins must be at least 1, got 0"):
        metrics.adaptive_ece(probs, labels, 0)


def test_the_table_prints_empty_bins_as_such():
    lines = str(BinStats.from_confidence([0.9, 0.8], [1, 0], 2)).splitlines()
    assert lines[3].split() == ["(0.000,", "0.500]", "0", "-", "-", "-"]
    assert lines[4].split() == ["(0.500,", "1.000]", "2", "0.8500", "0.5000", "-0.3500"]


def test_gap_and_effective_rows():
    stats = BinStats.from_confidence([0.9, 0.8, 0.2], [1, 0, 1], 2, [1.0, 3.0, 2.0])
    np.testing.assert_allclose(stats.gap, [0.8, 0.25 - 3.3 / 4.0])
    np.testing.assert_array_equal(stats.effective_rows, [2.0, 4.0])  # whole weights are rows
    stats = BinStats.from_confidence([0.9, 0.8, 0.2], [1, 0, 1], 2, [0.5, 1.5, 1.0])
    np.testing.assert_allclose(stats.effective_rows, [1.0, 1.6])


# --- classwise --------------------------------------------------------------------------------


def test_classwise_is_the_mean_of_binary_problems():
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(5), 300), rng.integers(0, 4, 300)  # class 4 never occurs
    per_class = metrics.classwise_ece_per_class(probs, labels, 10)
    expected = [BinStats.from_confidence(probs[:, c], labels == c, 10).error() for c in range(5)]
    np.testing.assert_allclose(per_class, expected, atol=1e-12)
    assert per_class[4] == pytest.approx(probs[:, 4].mean())  # an absent class counts
    assert metrics.classwise_ece(probs, labels, 10) == pytest.approx(np.mean(expected))


# --- debiased ---------------------------------------------------------------------------------


def test_the_debiased_square_is_unbiased():
    rng = np.random.default_rng(0)
    confidence, truth = np.repeat([0.6, 0.9], 50), np.repeat([0.5, 0.85], 50)
    squares = []
    for _ in range(4000):
        stats = BinStats.from_confidence(confidence, rng.random(100) < truth, 2)
        gap, accuracy = stats.gap[1], stats.accuracy[1]
        squares.append(gap**2 - accuracy * (1 - accuracy) / 99.0)
        if squares[-1] > 0.0:
            assert float(debiased_error(stats)) == pytest.approx(np.sqrt(squares[-1]))
    # One bin: mean confidence 0.75, mean truth 0.675.
    assert np.mean(squares) == pytest.approx(0.075**2, abs=4.0 * np.std(squares) / np.sqrt(4000))


def test_the_debiased_error_of_noise_is_smaller_than_its_plug_in():
    rng = np.random.default_rng(0)
    confidence = rng.random(2000)
    stats = BinStats.from_confidence(confidence, rng.random(2000) < confidence)
    assert float(debiased_error(stats)) < 0.6 * stats.error(2)
    assert abs(float(debiased_error(stats, 1))) < stats.error()
