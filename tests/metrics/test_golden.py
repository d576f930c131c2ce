"""The metrics against the authors' own numbers, at the tolerances of the golden records.

`golden/oracles.json` names the function, commit and tolerance of every record. Accuracy, NLL, Brier
and the equal-width ECE are in `test_metrics_basic.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from calibrant import metrics
from calibrant.data.binning import equal_mass_edges
from calibrant.metrics.binned import debiased_error

SETS = ["A", "B", "C", "D"]


@pytest.fixture
def probs_of(oracle_data):
    def get(name):
        logits, labels = oracle_data(f"{name}_test")
        return softmax(logits, axis=1), labels

    return get


def check(record, name, value):
    assert value == pytest.approx(record["output"][name], abs=record["tol"])


@pytest.mark.parametrize("name", ["A", "D"])
def test_other_binned_errors_of_verified_calibration(oracle, probs_of, name):
    record = oracle(f"ver_metrics_{name}")
    probs, labels = probs_of(name)
    check(record, "get_ece_marginal_M10", metrics.classwise_ece(probs, labels, 10))
    check(record, "get_ece_em_M10", metrics.adaptive_ece(probs, labels, 10))
    plug_in = metrics.adaptive_ece(probs, labels, 10, 2)
    check(record, "lower_bound_scaling_ce_p2_plugin_M10_top", plug_in)
    check(
        record, "lower_bound_scaling_ce_p2_debias_M10_top", metrics.debiased_ece(probs, labels, 10)
    )


def test_classwise_error_on_bin_edges(oracle, oracle_data):
    check(oracle("ver_ece_edges"), "marginal_M10", metrics.classwise_ece(*oracle_data("E"), 10))


@pytest.mark.parametrize("name", ["A", "D"])
def test_marginal_debiased_error_from_its_public_parts(oracle, probs_of, name):
    probs, labels = probs_of(name)
    squares = []
    for label in range(probs.shape[1]):
        column = probs[:, label]
        # A binary problem a class; the top-label door would look at the larger of the two.
        stats = metrics.BinStats.from_confidence(
            column, labels == label, edges=equal_mass_edges(column, 15)
        )
        squares.append(float(debiased_error(stats)) ** 2)
    record = oracle(f"ver_metrics_{name}")
    check(record, "lower_bound_scaling_ce_p2_debias_M15_marginal", np.sqrt(np.mean(squares)))


@pytest.mark.parametrize("name", ["A", "D"])
def test_debiased_l1_is_the_mean_of_the_random_one(oracle, probs_of, name):
    # Theirs is one draw of 1000 normal resamples; ours is the expectation, in closed form.
    drawn = oracle(f"ver_metrics_{name}")["output"]
    drawn = drawn["lower_bound_scaling_ce_p1_debias_M10_equalmass_top_npseed0"]
    assert metrics.debiased_ece(*probs_of(name), 10, norm=1) == pytest.approx(drawn, abs=5e-3)


@pytest.mark.parametrize("name", ["A", "D"])
@pytest.mark.parametrize("bins", [10, 15])
def test_intra_order_preserving(oracle, probs_of, name, bins):
    record = oracle(f"iop_metrics_{name}")
    probs, labels = probs_of(name)
    check(record, f"MCE_M{bins}", metrics.mce(probs, labels, bins))
    check(record, f"CwECE_avg_M{bins}", metrics.classwise_ece(probs, labels, bins))
    per_class = metrics.classwise_ece_per_class(probs, labels, bins)
    check(record, f"CwECE_sum_M{bins}", per_class.sum())


@pytest.mark.parametrize("name", SETS)
def test_kde_ece_of_mix_n_match(oracle, probs_of, name):
    record = oracle(f"mixout_base_{name}")
    check(record, "kde_ece_order1", metrics.kde_ece(*probs_of(name)))
    check(record, "kde_ece_order2", metrics.kde_ece(*probs_of(name), 2))


RAW = ["irm", "irova", "irova_ts", "irm_ts", "irova_ts_ce"]


@pytest.mark.parametrize("method", RAW)
def test_rows_that_do_not_sum_to_one(oracle, oracle_data, method):
    record = oracle(f"mixout_{method}_B")
    probs, labels = np.array(record["output"]["p_test_rows"]), oracle_data("B_test")[1]
    with pytest.raises(ValueError, match="sum to 1"):
        metrics.kde_ece(probs, labels)
    check(record, "kde_ece_order1", metrics.kde_ece(probs, labels, row_sums="raw"))
    check(record, "kde_ece_order2", metrics.kde_ece(probs, labels, 2, row_sums="raw"))
    scores = record["output"]["eval"]
    assert metrics.brier(probs, labels, row_sums="raw") == pytest.approx(scores["mse"], abs=1e-5)
    assert metrics.nll(probs, labels, row_sums="raw") == pytest.approx(scores["nll"], abs=1e-5)
    assert metrics.accuracy(probs, labels, row_sums="raw") == scores["acc"]
    base = softmax(oracle_data("B_test")[0], axis=1)
    gain = 100.0 * metrics.calibration_gain(base, probs, labels, row_sums="raw")
    # The gain is times 100, and so is the rounding of the twelve printed digits.
    assert gain == pytest.approx(record["output"]["calibration_gain_percent_brier_sum"], abs=1e-5)


def mix_n_match_edges(confidence, bins):
    """The sorted float32 confidences at positions (i + 1) * floor(N / M), the last 1."""
    ordered = np.sort(confidence).astype(np.float32)
    step = max(len(ordered) // bins, 1)
    if len(ordered) < bins:  # floor(N / M) = 0: their bins degenerate to two
        return np.array([0.0, ordered[0], 1.0])
    return np.concatenate([[0.0], ordered[[i * step for i in range(1, bins)]], [1.0]])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("bins", [10, 15])
def test_equal_mass_ece_of_mix_n_match_with_its_own_edges(oracle, probs_of, name, bins):
    probs, labels = probs_of(name)
    if name == "C":
        confidence, correct = probs[:, 1], labels == 1  # float64 there: it may pass its own edge
    else:
        confidence = probs.max(axis=1).astype(np.float32)
        correct = probs.argmax(axis=1) == labels
    edges = mix_n_match_edges(confidence, bins)
    value = metrics.BinStats.from_confidence(confidence, correct, edges=edges).error()
    check(oracle(f"mixout_base_{name}"), f"ece_hist_{bins}_equal_mass", value)


@pytest.mark.parametrize("name", SETS)
def test_proper_scores_of_mix_n_match(oracle, probs_of, name):
    scores = oracle(f"mixout_base_{name}")["output"]["eval"]
    assert metrics.brier(*probs_of(name)) == pytest.approx(scores["mse"], abs=1e-9)
    assert metrics.nll(*probs_of(name)) == pytest.approx(scores["nll"], abs=1e-9)
    assert metrics.accuracy(*probs_of(name)) == scores["acc"]


@pytest.mark.parametrize("name", SETS)
def test_calibration_gain_of_temperature_scaling(oracle, oracle_data, name):
    logits, labels = oracle_data(f"{name}_test")
    scaled = softmax(logits / oracle(f"mix_ts_ce_{name}")["output"]["T"], axis=1)
    gain = 100.0 * metrics.calibration_gain(softmax(logits, axis=1), scaled, labels)
    expected = oracle(f"mixout_ts_ce_{name}")["output"]["calibration_gain_percent_brier_sum"]
    assert gain == pytest.approx(expected, abs=1e-4)


def test_squared_kernel_calibration_error(oracle, probs_of):
    record = oracle("skce_A")
    data = probs_of("A")
    check(record, "exp_l2_median_unbiased", metrics.skce(*data, estimator="unbiased"))
    check(record, "exp_l2_median_biased", metrics.skce(*data, estimator="biased"))
    variation = {"estimator": "unbiased", "kernel": "total-variation"}
    check(record, "exp_tv_median_unbiased", metrics.skce(*data, **variation))
    check(record, "exp_tv_nu1_unbiased", metrics.skce(*data, **variation, bandwidth=1.0))


@pytest.mark.parametrize(
    ("name", "labels"), [("y_0_1", [0, 1]), ("y_0_0", [0, 0]), ("y_1_0", [1, 0])]
)
def test_skce_of_the_julia_test_suite(oracle, name, labels):
    value = metrics.skce(np.eye(2), labels, estimator="unbiased", kernel="gaussian", bandwidth=1.0)
    check(oracle("skce_julia_testsuite"), name, value)


def test_consistency_resampling_of_vaicenavicius(oracle, probs_of):
    record = oracle("vaic_ece_A")
    data = probs_of("A")
    check(record, "ece_tv_max_lens", metrics.ece(*data, 10))
    # They also draw the predictions, 200 times: the null's mean and deviation agree roughly.
    test = metrics.calibration_test(*data, n_bins=10, n_resamples=2000)
    mean, deviation = record["output"]["consistency_max_lens_mean_std_n200_npseed0"]
    assert test.null_mean == pytest.approx(mean, abs=4.0 * deviation / np.sqrt(200.0))
    assert test.null_std == pytest.approx(deviation, rel=0.25)
