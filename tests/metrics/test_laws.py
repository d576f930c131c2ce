"""Laws that hold for all metrics: weights, kinds of arrays, bad input, and degenerate data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import calibrant
from calibrant import metrics

SCORES = [metrics.accuracy, metrics.nll, metrics.brier]
ERRORS = [
    metrics.ece,
    metrics.mce,
    metrics.adaptive_ece,
    metrics.debiased_ece,
    metrics.classwise_ece,
    metrics.smooth_ece,
    metrics.kde_ece,
]


def skce(probs, labels, **options):
    return metrics.skce(probs, labels, estimator="unbiased", **options)


def spiegelhalter_z(probs, labels, **options):
    return metrics.spiegelhalter_test(probs, labels, **options).z


def calibration_part(probs, labels, **options):
    return metrics.brier_decomposition(probs, labels, debiased=False, **options).calibration


def gain(probs, labels, **options):
    return metrics.calibration_gain(probs, np.full(np.shape(probs), 0.25), labels, **options)


def ks_statistic(probs, labels, **options):
    return metrics.ks_test(probs, labels, **options).statistic


def kuiper_statistic(probs, labels, **options):
    return metrics.kuiper_test(probs, labels, notion="classwise", **options).statistic


def cox_statistic(probs, labels, **options):
    return metrics.cox_test(probs, labels, **options).statistic


MORE = [
    metrics.rms_ece,
    metrics.classwise_adaptive_ece,
    metrics.classwise_debiased_ece,
    metrics.ace,
    metrics.top_label_ece,
    metrics.ece_sweep,
    ks_statistic,
    kuiper_statistic,
    cox_statistic,
]
EVERY = [*SCORES, *ERRORS, *MORE, skce, spiegelhalter_z, calibration_part, gain]


def example(rows=150, seed=0):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(4, 0.6), rows)
    return probs, rng.integers(0, 4, rows)


def close(first, second, tolerance=1e-10):
    assert first == pytest.approx(second, abs=tolerance, rel=tolerance)


# --- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", EVERY)
def test_equal_weights_change_nothing(metric):
    probs, labels = example()
    close(metric(probs, labels, sample_weight=np.full(150, 0.3)), metric(probs, labels))


@pytest.mark.parametrize("metric", EVERY)
def test_only_the_ratios_of_weights_count(metric):
    probs, labels = example()
    weight = np.random.default_rng(1).random(150)
    values = [metric(probs, labels, sample_weight=scale * weight) for scale in (1.0, 8.0)]
    close(*values)


@pytest.mark.parametrize(("rows", "lowest", "highest"), [(150, 1, 3), (40, 0, 5), (61, 20, 20)])
@pytest.mark.parametrize("metric", EVERY)
def test_a_whole_weight_is_the_row_so_often(metric, rows, lowest, highest):
    probs, labels = example(rows)
    times = np.random.default_rng(1).integers(lowest, highest + 1, rows)
    bandwidth = {"bandwidth": 0.5} if metric is skce else {}
    repeated = metric(np.repeat(probs, times, axis=0), np.repeat(labels, times), **bandwidth)
    close(metric(probs, labels, sample_weight=times, **bandwidth), repeated, 1e-6)


@pytest.mark.parametrize("test", [metrics.skce_test, metrics.omnibus_test])
@pytest.mark.parametrize("most", [1000, 50])
def test_tests_that_draw_labels_take_whole_weights_as_rows(test, most):
    """Each copy has a label of its own: the draws are the same to the last one."""
    probs, labels = example(40)
    times = np.random.default_rng(1).integers(0, 6, 40)
    options = {"n_resamples": 49, "max_rows": most}
    repeated = test(np.repeat(probs, times, axis=0), np.repeat(labels, times), **options)
    assert test(probs, labels, sample_weight=times, **options) == repeated


def hosmer_lemeshow(probs, labels, **options):
    return metrics.hosmer_lemeshow_test(probs, labels, **options).statistic


def integrated_index(probs, labels, **options):
    return metrics.calibration_indices(probs, labels, **options).ici


@pytest.mark.parametrize("metric", [metrics.class1_ece, hosmer_lemeshow, integrated_index])
def test_of_two_classes_a_whole_weight_is_the_row_so_often(metric):
    rng = np.random.default_rng(0)
    chance, events = rng.random(80), rng.integers(0, 2, 80)
    times = rng.integers(0, 5, 80)
    repeated = metric(np.repeat(chance, times), np.repeat(events, times))
    close(metric(chance, events, sample_weight=times), repeated, 1e-6)


@pytest.mark.parametrize("metric", ["accuracy", "brier", "ece", "debiased_ece", "classwise_ece"])
def test_intervals_and_tests_take_whole_weights_as_rows(metric):
    """The draws differ, what they are draws of does not."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(3, 0.8), 80)
    labels = (probs.cumsum(axis=1) < rng.random((80, 1))).sum(axis=1)
    times = rng.integers(0, 9, 80)
    given = probs, labels, times
    repeated = np.repeat(probs, times, axis=0), np.repeat(labels, times), None
    chosen = {"metrics": [metric], "random_state": 0}
    one, other = (
        getattr(calibrant.evaluate(p, y, sample_weight=w, **chosen), metric)
        for p, y, w in (given, repeated)
    )
    assert one.value == pytest.approx(other.value)
    if one.high is not None:
        assert one.std_error == pytest.approx(other.std_error, rel=0.15)
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.15, abs=0.003)
    if one.null is not None:
        assert one.null == pytest.approx(other.null, rel=0.15)


@pytest.mark.parametrize("metric", EVERY)
def test_a_row_of_weight_zero_does_not_count(metric):
    probs, labels = example()
    weight = np.ones(150)
    weight[40:] = 0.0
    # With three rows or more of weight 1: an effective number of rows is theirs.
    bandwidth = {"bandwidth": 0.5} if metric is skce else {}
    weighted = metric(probs, labels, sample_weight=weight, **bandwidth)
    close(weighted, metric(probs[:40], labels[:40], **bandwidth))


# --- arrays -----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [m for m in EVERY if m is not gain])
def test_torch_gives_what_numpy_gives(metric):
    probs, labels = example()
    weight = np.random.default_rng(1).random(150)
    for options in ({}, {"sample_weight": weight}):
        tensors = torch.tensor(probs), torch.tensor(labels)
        close(metric(*tensors, **options), metric(probs, labels, **options))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("metric", [m for m in EVERY if m is not gain])
def test_cuda_gives_what_numpy_gives(metric):
    probs, labels = example()
    weight = np.random.default_rng(1).random(150)
    for options in ({}, {"sample_weight": weight}):
        tensors = torch.tensor(probs, device="cuda"), torch.tensor(labels, device="cuda")
        close(metric(*tensors, **options), metric(probs, labels, **options))


@pytest.mark.parametrize("metric", EVERY)
def test_the_order_of_the_rows_does_not_matter(metric):
    probs, labels = example()
    order = np.random.default_rng(1).permutation(150)
    close(metric(probs[order], labels[order]), metric(probs, labels))


def test_scores_a_row_come_in_the_kind_of_the_input():
    probs, labels = example()
    for function, mean in (
        (metrics.nll_per_row, metrics.nll),
        (metrics.brier_per_row, metrics.brier),
    ):
        assert isinstance(function(torch.tensor(probs), labels), torch.Tensor)
        rows = function(probs, labels)
        assert rows.shape == (150,)
        close(rows.mean(), mean(probs, labels))


def test_lists_and_one_hot_labels():
    probs, labels = example()
    assert metrics.ece(probs.tolist(), np.eye(4)[labels]) == metrics.ece(probs, labels)


# --- bad input --------------------------------------------------------------------------------


def changed(value):
    probs = example()[0]
    probs[7, 2] = value
    return probs


@pytest.mark.parametrize("metric", EVERY)
@pytest.mark.parametrize("rows", ["strict", "normalize", "raw"])
@pytest.mark.parametrize("value", [-0.1, 1.2, np.nan, np.inf])
def test_what_is_no_probability_is_refused_by_row_and_class(metric, rows, value):
    with pytest.raises(ValueError, match=r"in \[0, 1\], got .* at row 7, class 2"):
        metric(changed(value), example()[1], row_sums=rows)


@pytest.mark.parametrize("metric", EVERY)
def test_rows_must_sum_to_one_unless_told_otherwise(metric):
    probs, labels = changed(0.9), example()[1]
    with pytest.raises(ValueError, match="must sum to 1 in every row, row 7 sums to"):
        metric(probs, labels)
    normal = probs / probs.sum(axis=1, keepdims=True)
    if metric is not gain:
        close(metric(probs, labels, row_sums="normalize"), metric(normal, labels))
    assert np.isfinite(metric(probs, labels, row_sums="raw"))


def test_a_row_of_zeros_cannot_be_normalized():
    with pytest.raises(ValueError, match="positive value in every row, row 1 has none"):
        metrics.ece([[0.5, 0.5], [0.0, 0.0]], [0, 1], row_sums="normalize")


@pytest.mark.parametrize("metric", EVERY)
def test_other_bad_input(metric):
    probs, labels = example()
    with pytest.raises(ValueError, match=r"labels must lie in 0..3, got 4 at row 0"):
        metric(probs, labels * 0 + 4)
    with pytest.raises(ValueError, match="at least one row"):
        metric(np.zeros((0, 4)), np.zeros(0))
    with pytest.raises(ValueError, match="same rows, got 149 and 150"):
        metric(probs, labels[1:])
    with pytest.raises(ValueError, match=r"finite and at least 0, got -1 at row 3"):
        metric(probs, labels, sample_weight=np.where(np.arange(150) == 3, -1.0, 1.0))
    with pytest.raises(ValueError, match="'loose'"):
        metric(probs, labels, row_sums="loose")


# --- degenerate data --------------------------------------------------------------------------

SURE = np.tile([1.0, 0.0, 0.0, 0.0], (20, 1))
EVEN = np.full((20, 4), 0.25)
LIKELY = np.tile([0.7, 0.1, 0.1, 0.1], (20, 1))
RIGHT, WRONG = np.zeros(20, int), np.ones(20, int)


@pytest.mark.parametrize("metric", ERRORS)
@pytest.mark.parametrize(
    ("probs", "labels", "gap"),
    [(SURE, RIGHT, 0.0), (SURE, WRONG, 1.0), (LIKELY, RIGHT, 0.3), (LIKELY, WRONG, 0.7)],
)
def test_constant_confidences_show_their_gap(metric, probs, labels, gap):
    if metric is metrics.classwise_ece:
        expected = np.abs(probs[0] - np.eye(4)[labels[0]]).mean()
    else:
        expected = gap
    # The kernels' narrowest bandwidth is two grid steps.
    assert metric(probs, labels) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("metric", ERRORS)
def test_a_single_row(metric):
    value = metric([[0.3, 0.7]], [1])
    if metric is metrics.debiased_ece:
        assert value == 0.0  # one row cannot tell noise from error
    else:
        assert value == pytest.approx(0.3, abs=1e-3)


@pytest.mark.parametrize("metric", [metrics.ece, metrics.adaptive_ece, metrics.mce])
def test_one_bin_is_the_gap_of_the_means(metric):
    probs, labels = example()
    gap = abs(probs.max(axis=1).mean() - metrics.accuracy(probs, labels))
    close(metric(probs, labels, 1), gap)


@pytest.mark.parametrize("metric", EVERY)
def test_even_probabilities_are_defined(metric):
    assert np.isfinite(metric(EVEN, np.arange(20) % 4))


def test_certain_predictions_in_spiegelhalters_test():
    assert metrics.spiegelhalter_test(SURE, RIGHT) == metrics.ZTest(0.0, 1.0)
    assert metrics.spiegelhalter_test(SURE, WRONG) == metrics.ZTest(np.inf, 0.0)
