"""Accuracy, NLL, Brier and ECE: golden records, bin edges, weights, and statistics that add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.metrics import BinStats, accuracy, bin_stats, brier, ece, nll


def softmax(logits: np.ndarray) -> np.ndarray:
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def example(rows: int = 200, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(classes, 0.7), rows), rng.integers(0, classes, rows)


# --- golden records ---------------------------------------------------------------------------


@pytest.mark.parametrize("record", ["ver_ece_edges", "v009_ece_edges"])
def test_confidences_on_bin_edges(record, oracle, oracle_data):
    output = oracle(record)["output"]
    probs, labels = oracle_data("E")
    for bins in (5, 10, 15):
        assert ece(probs, labels, bins) == pytest.approx(output[f"get_ece_M{bins}"], abs=1e-12)
    counts = np.bincount(output["bin_index_M10"], minlength=10)
    np.testing.assert_array_equal(bin_stats(probs, labels, 10).weight, counts)


def test_confidences_on_bin_edges_of_nn_calibration(oracle, oracle_data):
    probs, labels = oracle_data("E")
    expected = oracle("nncal_ece_edges")["output"]["ECE_10"]
    assert ece(probs, labels, 10) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", "AD")
def test_nn_calibration(name, oracle, oracle_data):
    record = oracle(f"nncal_ece_{name}")
    logits, labels = oracle_data(f"{name}_test")
    probs = softmax(logits)
    for bins in range(5, 21):
        expected = record["output"][f"ECE_bins{bins}"]
        assert ece(probs, labels, bins) == pytest.approx(expected, abs=record["tol"])
    expected = record["output"]["MCE_bins10"]
    assert ece(probs, labels, 10, norm="max") == pytest.approx(expected, abs=record["tol"])


@pytest.mark.parametrize("name", "AD")
def test_verified_calibration(name, oracle, oracle_data):
    output = oracle(f"ver_metrics_{name}")["output"]
    logits, labels = oracle_data(f"{name}_test")
    for bins in range(5, 21):
        expected = output[f"get_ece_top_M{bins}"]
        assert ece(softmax(logits), labels, bins) == pytest.approx(expected, abs=1e-9)


def test_metrics_of_the_pts_repository(oracle, oracle_data):
    record = oracle("ptsrepo_metrics_base_A")
    logits, labels = oracle_data("A_test")
    probs, output = softmax(logits), record["output"]
    tolerance = record["tol"]
    assert ece(probs, labels, n_bins=10) == pytest.approx(output["ece"], abs=tolerance)
    assert brier(probs, labels) == pytest.approx(output["brier"], abs=tolerance)
    assert nll(probs, labels) == pytest.approx(output["nll_sklearn_1_9"], abs=tolerance)
    assert accuracy(probs, labels) == pytest.approx(output["accuracy"], abs=1e-12)


@pytest.mark.parametrize("name", "AD")
def test_scores_of_intra_order_preserving(name, oracle, oracle_data):
    """Its Brier score is a mean over the classes, and all is float32."""
    output = oracle(f"iop_metrics_{name}")["output"]
    logits, labels = oracle_data(f"{name}_test")
    probs = softmax(logits)
    classes = probs.shape[1]
    assert brier(probs, labels) / classes == pytest.approx(
        output["brier_mean_over_classes"], abs=2e-6
    )
    assert nll(probs, labels) == pytest.approx(output["nll"], abs=2e-6)
    assert accuracy(probs, labels) == pytest.approx(output["acc"], abs=1e-6)
    for bins in (10, 15):
        assert ece(probs, labels, bins) == pytest.approx(output[f"ECE_M{bins}"], abs=2e-6)


# --- definitions ------------------------------------------------------------------------------


def test_definitions_on_a_small_case():
    probs, labels = [[0.8, 0.2], [0.55, 0.45], [0.3, 0.7], [0.1, 0.9]], [0, 1, 1, 0]
    assert accuracy(probs, labels) == 0.5
    assert nll(probs, labels) == pytest.approx(-np.log([0.8, 0.45, 0.7, 0.1]).mean())
    assert brier(probs, labels) == pytest.approx(np.mean([0.08, 0.605, 0.18, 1.62]))
    assert ece(probs, labels, n_bins=2) == pytest.approx(abs(2.95 / 4 - 0.5))
    assert ece(probs, labels, n_bins=10) == pytest.approx((0.2 + 0.55 + 0.3 + 0.9) / 4)
    gaps = np.array([0.2, 0.55, 0.3, 0.9])
    assert ece(probs, labels, n_bins=10, norm=2) == pytest.approx(np.sqrt((gaps**2).mean()))
    assert ece(probs, labels, n_bins=10, norm="max") == pytest.approx(0.9)


@pytest.mark.parametrize("bins", [1, 7, 15, 100])
def test_ece_is_the_sum_over_bins_of_its_definition(bins):
    probs, labels = example()
    confidence, hit = probs.max(axis=1), probs.argmax(axis=1) == labels
    expected = 0.0
    for lower, upper in zip(np.arange(bins) / bins, np.arange(1, bins + 1) / bins, strict=True):
        inside = (confidence > lower) & (confidence <= upper)
        if inside.any():
            expected += inside.mean() * abs(hit[inside].mean() - confidence[inside].mean())
    assert ece(probs, labels, bins) == pytest.approx(expected, abs=1e-12)


def test_confidence_zero_and_one_fall_in_the_first_and_last_bin():
    stats = BinStats.from_confidence([0.0, 1.0, 1.0 + 1e-9], [0, 1, 0], n_bins=4)
    np.testing.assert_array_equal(stats.weight, [1, 0, 0, 2])
    stats = BinStats.from_confidence([0.25, 0.5, 0.75], [1, 1, 1], n_bins=4)
    np.testing.assert_array_equal(stats.weight, [1, 1, 1, 0])


@given(bins=st.integers(1, 60), numerator=st.integers(0, 60))
def test_every_edge_belongs_to_the_lower_bin(bins, numerator):
    edge = min(numerator, bins) / bins
    for value, expected in (
        (edge, max(min(numerator, bins) - 1, 0)),
        (np.nextafter(edge, 2.0), min(numerator, bins - 1)),
    ):
        stats = BinStats.from_confidence([value], [1], n_bins=bins)
        assert np.flatnonzero(stats.weight).tolist() == [expected]


def test_the_first_of_ties_is_the_prediction():
    probs = [[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]
    assert accuracy(probs, [0, 1]) == 1.0
    assert accuracy(probs, [1, 2]) == 0.0


def test_perfect_and_hopeless_predictions():
    probs = np.eye(3)
    assert (nll(probs, [0, 1, 2]), brier(probs, [0, 1, 2]), ece(probs, [0, 1, 2])) == (0, 0, 0)
    assert (nll(probs, [1, 2, 0]), brier(probs, [1, 2, 0]), ece(probs, [1, 2, 0])) == (np.inf, 2, 1)


def test_everything_is_a_plain_fraction():
    probs, labels = example()
    for metric in (accuracy, nll, brier, ece):
        assert type(metric(probs, labels)) is float
    assert 0.0 < ece(probs, labels) < 1.0


def test_float32_and_float16_agree_with_float64():
    probs, labels = example()
    for dtype, tolerance in ((np.float32, 1e-6), (np.float16, 2e-3)):
        narrow = probs.astype(dtype)
        for metric in (nll, brier):
            assert metric(narrow, labels) == pytest.approx(metric(probs, labels), abs=tolerance)


def test_bad_numbers_of_bins_and_norms():
    probs, labels = example()
    with pytest.raises(ValueError, match="n_bins must be at least 1, got 0"):
        ece(probs, labels, n_bins=0)
    with pytest.raises(ValueError, match='norm must be 1, 2 or "max", got 3'):
        ece(probs, labels, norm=3)


# --- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [accuracy, nll, brier, ece])
def test_a_whole_weight_is_the_row_so_often(metric):
    probs, labels = example()
    weight = np.random.default_rng(1).integers(0, 4, len(labels))
    repeated = metric(np.repeat(probs, weight, axis=0), np.repeat(labels, weight))
    assert metric(probs, labels, sample_weight=weight) == pytest.approx(repeated, rel=1e-12)
    assert metric(probs, labels, sample_weight=0.1 * weight) == pytest.approx(repeated, rel=1e-12)
    assert metric(probs, labels, sample_weight=np.ones(200)) == metric(probs, labels)
    assert repeated != pytest.approx(metric(probs, labels), rel=1e-6)


def test_a_row_of_weight_zero_may_be_infinitely_wrong():
    assert nll([[1.0, 0.0], [0.5, 0.5]], [1, 0], sample_weight=[0, 1]) == pytest.approx(np.log(2))


# --- statistics that add up -------------------------------------------------------------------


@given(cut=st.integers(1, 199), bins=st.integers(1, 20), seed=st.integers(0, 5))
def test_statistics_of_parts_add_up(cut, bins, seed):
    probs, labels = example(seed=seed)
    weight = np.random.default_rng(seed).random(200)
    parts = [
        bin_stats(probs[part], labels[part], bins, sample_weight=weight[part])
        for part in (slice(0, cut), slice(cut, 200))
    ]
    total = parts[0] + parts[1]
    whole = bin_stats(probs, labels, bins, sample_weight=weight)
    for name in ("weight", "confidence_sum", "correct_sum"):
        np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-12)
    assert total.error() == pytest.approx(ece(probs, labels, bins, sample_weight=weight), abs=1e-12)


def test_sums_and_means_of_the_bins():
    stats = BinStats.from_confidence([0.1, 0.7, 0.9], [1, 1, 0], n_bins=2, sample_weight=[2, 1, 3])
    np.testing.assert_allclose(stats.share, [2 / 6, 4 / 6])
    np.testing.assert_allclose(stats.confidence, [0.1, 3.4 / 4])
    np.testing.assert_allclose(stats.accuracy, [1.0, 0.25])


def test_an_empty_bin_has_no_mean_and_no_error():
    stats = BinStats.from_confidence([0.9, 0.95], [1, 1], n_bins=2)
    assert np.isnan(stats.confidence[0])
    assert np.isnan(stats.accuracy[0])
    assert stats.error() == pytest.approx(0.075)


def test_other_edges_do_not_add():
    one, other = (BinStats.from_confidence([0.5], [1], n_bins=bins) for bins in (2, 3))
    with pytest.raises(ValueError, match="add up only where their edges are the same"):
        one + other
