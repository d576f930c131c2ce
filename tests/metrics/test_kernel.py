"""KDE-ECE, SmoothECE and the squared kernel calibration error against direct sums and bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from calibrant import metrics
from calibrant.data.rows import Rows
from calibrant.metrics import BinStats
from calibrant.metrics._bins import CELL_EDGES
from calibrant.metrics.kernel import PairSums
from calibrant.metrics.smooth import kde_error, smooth_error


def cell_stats(confidence, correct, weight):
    """The narrow cells from which kernel estimates are computed."""
    return BinStats.from_confidence(confidence, correct, sample_weight=weight, edges=CELL_EDGES)


def example(rows, seed=0, power=1.5):
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4.0, 1.2, rows)
    return confidence, rng.random(rows) < confidence**power


def binary(confidence, correct):
    """Probabilities whose top-label confidence and hits these are."""
    probs = np.stack([1.0 - confidence, confidence, np.zeros(len(confidence))], axis=1)
    top = probs.argmax(axis=1)
    return probs, np.where(correct, top, (top + 1) % 3)


# --- KDE-ECE ----------------------------------------------------------------------------------


def direct_kde(confidence, correct, order=1, weight=None):
    """The definition as it is written: every kernel at every grid point."""
    weight = np.ones(len(confidence)) if weight is None else weight
    hits = weight * correct
    mean = (hits @ confidence) / hits.sum()
    deviation = np.sqrt(hits @ (confidence - mean) ** 2 / hits.sum())
    reach = 3.0 * deviation * (2.0 * weight.sum() ** 2 / (weight @ weight)) ** -0.2
    grid = np.linspace(-0.6, 1.6, 2**14)
    grid = grid[(grid >= 0.0) & (grid <= 1.0)]
    mirrored = np.where(confidence < 0.5, -confidence, 2.0 - confidence)
    density, correct_density = np.zeros(len(grid)), np.zeros(len(grid))
    for places in (confidence, mirrored):
        for place, w, hit in zip(places, weight, hits, strict=True):
            kernel = np.maximum(1.0 - ((grid - place) / reach) ** 2, 0.0) ** 3
            density += w * kernel
            correct_density += hit * kernel
    accuracy = np.divide(correct_density, density, out=np.zeros(len(grid)), where=density > 0.0)
    gap = np.abs(grid - np.minimum(accuracy, 1.0)) ** order
    return np.trapezoid(gap * density) / np.trapezoid(density)


@pytest.mark.parametrize("rows", [5, 60, 400])
@pytest.mark.parametrize("order", [1, 2])
def test_kde_is_the_direct_sum(rows, order):
    confidence, correct = example(rows)
    value = kde_error(cell_stats(confidence, correct, None), order)
    assert value == pytest.approx(direct_kde(confidence, correct, order), abs=3e-6)


def test_weighted_kde_is_the_direct_sum():
    confidence, correct = example(200)
    weight = np.random.default_rng(1).random(200)
    value = kde_error(cell_stats(confidence, correct, weight))
    expected = direct_kde(confidence, correct, weight=weight)
    assert value == pytest.approx(expected, abs=3e-6)


def test_two_classes_speak_of_class_one():
    rng = np.random.default_rng(0)
    chance = rng.random(300)
    labels = (rng.random(300) < chance**2).astype(int)
    probs = np.stack([1.0 - chance, chance], axis=1)
    assert metrics.kde_ece(probs, labels) == kde_error(cell_stats(chance, labels == 1, None))


def test_kde_without_a_correct_row_is_the_mean_confidence():
    confidence = np.random.default_rng(0).uniform(0.3, 0.7, 500)
    value = kde_error(cell_stats(confidence, np.zeros(500), None))
    assert value == pytest.approx(confidence.mean(), abs=2e-3)


def test_kde_refuses_other_orders():
    with pytest.raises(ValueError, match="order must be 1 or 2, got 3"):
        metrics.kde_ece([[0.5, 0.5]], [0], 3)


# --- SmoothECE --------------------------------------------------------------------------------


def direct_smooth(confidence, correct, bandwidth, images=6):
    """A Gaussian at every row and at its reflections, summed on a fine grid."""
    points = (np.arange(4000) + 0.5) / 4000
    smoothed = np.zeros(len(points))
    for shift in range(-images, images + 1):
        for sign in (1.0, -1.0):
            distance = points[:, None] - (sign * confidence + 2.0 * shift)[None, :]
            smoothed += np.exp(-((distance / bandwidth) ** 2) / 2.0) @ (confidence - correct)
    return np.abs(smoothed).mean() / (bandwidth * np.sqrt(2.0 * np.pi) * len(confidence))


@pytest.mark.parametrize("bandwidth", [0.01, 0.05, 0.3, 1.0])
def test_smooth_ece_is_the_direct_sum(bandwidth):
    confidence, correct = example(100)
    value = smooth_error(cell_stats(confidence, correct, None), bandwidth)
    # A row is off by at most half a cell, 3e-5, which matters the less the wider the kernel.
    expected = direct_smooth(confidence, correct, bandwidth)
    assert value == pytest.approx(expected, abs=1e-6 / bandwidth)


def test_the_bandwidth_is_the_smallest_that_is_no_smaller_than_its_error():
    probs, labels = binary(*example(500, power=1.0))
    value = metrics.smooth_ece(probs, labels)
    errors = [metrics.smooth_ece(probs, labels, bandwidth=k / 1024) for k in range(2, 200)]
    consistent = next(k for k in range(2, 200) if k / 1024 >= errors[k - 2])
    assert value == pytest.approx(errors[consistent - 2], abs=1e-12)
    assert np.all(np.diff(errors) <= 1e-12)  # smoothing more never adds


@given(
    confidence=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40).map(np.array),
    seed=st.integers(0, 100),
)
def test_smooth_ece_lies_between_the_mean_gap_and_the_mean_residual(confidence, seed):
    correct = np.random.default_rng(seed).random(len(confidence)) < 0.5
    value = float(smooth_error(cell_stats(confidence, correct, None)))
    residual = confidence - correct
    assert abs(residual.mean()) - 1e-9 <= value <= np.abs(residual).mean() + 1e-9


def test_mass_at_the_ends_is_not_lost():
    # relplot 1.0.3 gives 0.0352 here: it counts half of the rows at confidence 1.
    confidence = np.repeat([1.0, 0.7], [900, 100])
    correct = np.repeat([1, 1, 0], [900, 50, 50])
    stats = cell_stats(confidence, correct, None)
    assert float(smooth_error(stats)) == pytest.approx(0.02, abs=1e-9)
    assert BinStats.from_confidence(confidence, correct).error() == pytest.approx(0.02)


def test_smooth_ece_refuses_a_bandwidth_out_of_range():
    with pytest.raises(ValueError, match="bandwidth must lie in"):
        metrics.smooth_ece([[0.5, 0.5]], [0], bandwidth=0.0)


# --- SKCE -------------------------------------------------------------------------------------


def categorical(rows, seed, temperature=1.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 4)) * 1.5
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    true = np.exp(logits / temperature)
    true /= true.sum(axis=1, keepdims=True)
    labels = (rng.random((rows, 1)) > true.cumsum(axis=1)).sum(axis=1)
    return probs, np.minimum(labels, 3)


def direct_skce(probs, labels, bandwidth, weight):
    residual = np.eye(4)[labels] - probs
    total = pairs = 0.0
    for i in range(len(labels)):
        for j in range(i):
            kernel = np.exp(-np.linalg.norm(probs[i] - probs[j]) / bandwidth)
            total += weight[i] * weight[j] * kernel * (residual[i] @ residual[j])
            pairs += weight[i] * weight[j]
    return total / pairs


def test_skce_is_the_direct_sum():
    probs, labels = categorical(50, 0)
    weight = np.random.default_rng(1).random(50)
    value = metrics.skce(probs, labels, estimator="unbiased", bandwidth=0.4, sample_weight=weight)
    assert value == pytest.approx(direct_skce(probs, labels, 0.4, weight), abs=1e-12)


def test_one_block_of_all_rows_is_the_quadratic_estimator():
    probs, labels = categorical(60, 0)
    for kernel in ("exponential", "total-variation", "gaussian"):
        options = {"kernel": kernel, "bandwidth": 0.5}
        blocks = metrics.skce(probs, labels, block_size=60, **options)
        full = metrics.skce(probs, labels, estimator="unbiased", **options)
        assert blocks == pytest.approx(full, abs=1e-12)


def test_blocks_are_unbiased():
    probs, labels = categorical(400, 0, temperature=2.0)
    drawn = [
        metrics.skce(probs, labels, block_size=4, random_state=seed, bandwidth=0.8)
        for seed in range(300)
    ]
    full = metrics.skce(probs, labels, estimator="unbiased", bandwidth=0.8)
    assert np.mean(drawn) == pytest.approx(full, abs=4.0 * np.std(drawn) / np.sqrt(300))


# --- the test of all pairs --------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4, 40])  # dense products, and sparse ones
def test_the_errors_of_drawn_labels_are_direct_sums(classes):
    rng = np.random.default_rng(0)
    probs, weight = rng.dirichlet(np.ones(classes), 50), rng.random(50)
    labels = rng.integers(0, classes, (50, 3))
    rows = Rows(probs, labels[:, 0], weight, "probs")
    got = PairSums.of(rows, "exponential", 0.4).errors(labels)
    options = {"estimator": "unbiased", "bandwidth": 0.4, "sample_weight": weight}
    slow = [metrics.skce(probs, column, **options) for column in labels.T]
    np.testing.assert_allclose(got, slow, rtol=1e-9)


def test_the_skce_test_has_the_error_of_all_pairs():
    probs, labels = categorical(80, 0)
    for kernel in ("exponential", "total-variation", "gaussian"):
        got = metrics.skce_test(probs, labels, kernel=kernel, n_resamples=9)
        options = {"estimator": "unbiased", "kernel": kernel, "bandwidth": got.bandwidth}
        assert got.skce == pytest.approx(metrics.skce(probs, labels, **options), rel=1e-9)
        assert (got.n_rows, got.n_resamples, got.notion) == (80, 9, "canonical")


def test_the_skce_test_tells_miscalibration():
    assert metrics.skce_test(*categorical(500, 0), n_resamples=199).p_value > 0.01
    wrong = metrics.skce_test(*categorical(500, 0, temperature=2.0), n_resamples=199)
    assert wrong.p_value == 0.005
    assert wrong.z > 3.0


def test_of_many_rows_some_are_looked_at():
    probs, labels = categorical(500, 0)
    got = metrics.skce_test(probs, labels, max_rows=100, n_resamples=9)
    assert got.n_rows == 100
    assert got == metrics.skce_test(probs, labels, max_rows=100, n_resamples=9)
    weight = (np.arange(500) < 60).astype(float)
    few = metrics.skce_test(probs, labels, max_rows=100, n_resamples=9, sample_weight=weight)
    assert few.n_rows == 60
    assert few == metrics.skce_test(probs[:60], labels[:60], max_rows=100, n_resamples=9)


def rare_events(seed, rows=200):
    rng = np.random.default_rng(seed)
    chance = rng.beta(0.5, 50.0, rows)
    return chance, (rng.random(rows) < chance).astype(int)


@pytest.mark.parametrize("draw", [rare_events, lambda seed: categorical(60, seed)])
def test_p_values_of_the_skce_test_are_uniform_under_the_null(draw):
    drawn = {"n_resamples": 99}
    p = [metrics.skce_test(*draw(seed), random_state=seed, **drawn).p_value for seed in range(200)]
    assert kstest(p, "uniform").pvalue > 0.01
    assert np.mean(np.array(p) <= 0.01) <= 0.01 + 3.0 * np.sqrt(0.01 * 0.99 / 200)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "linear"}, "kernel must be one of"),
        ({"bandwidth": 0.0}, "bandwidth must be positive, got 0.0"),
        ({"estimator": "fast"}, '"blocks", "unbiased" or "biased", got \'fast\''),
        ({"block_size": 1}, "block_size must lie between 2 and the rows, 20, got 1"),
    ],
)
def test_skce_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        metrics.skce(*categorical(20, 0), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "linear"}, "kernel must be one of"),
        ({"bandwidth": -1.0}, "bandwidth must be positive, got -1.0"),
        ({"n_resamples": 0}, "n_resamples must be at least 1, got 0"),
        ({"max_rows": 1}, "max_rows must be at least 2, got 1"),
    ],
)
def test_the_skce_test_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        metrics.skce_test(*categorical(20, 0), **options)


def test_the_skce_test_needs_a_pair():
    with pytest.raises(ValueError, match="needs at least two rows, got 1"):
        metrics.skce_test(*categorical(1, 0))
    assert metrics.skce(*categorical(1, 0)) == 0.0
    assert metrics.skce(*categorical(3, 0), sample_weight=[0.0, 1.0, 0.0]) == 0.0
