"""What is noise? Consistency resampling, bootstrap intervals and paired comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from calibrant import metrics
from calibrant.data.binning import calibration_error, equal_width_edges
from calibrant.metrics._labelled import Outcomes
from calibrant.metrics._resampling import BinnedRows, values_of

TOP_LABEL = ["ece", "rms_ece", "mce", "adaptive_ece", "debiased_ece", "smooth_ece", "kde_ece"]
ERRORS = [*TOP_LABEL, "classwise_ece"]
SCORES = ["accuracy", "nll", "brier"]


def draw(rows, seed, temperature=1.0, classes=4):
    """Probabilities, and labels drawn from them at another temperature."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes)) * 1.5
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    true = np.exp(logits / temperature)
    true /= true.sum(axis=1, keepdims=True)
    labels = (rng.random((rows, 1)) > true.cumsum(axis=1)).sum(axis=1)
    return probs, np.minimum(labels, classes - 1)


def value_of(name, probs, labels, **options):
    if name == "rms_ece":
        return metrics.ece(probs, labels, norm=2, **options)
    return getattr(metrics, name)(probs, labels, **options)


# --- consistency resampling -------------------------------------------------------------------


@pytest.mark.parametrize("name", ERRORS)
def test_the_observed_value_is_the_metric(name):
    probs, labels = draw(300, 0)
    weight = np.random.default_rng(1).random(300)
    for options in ({}, {"sample_weight": weight}):
        test = metrics.calibration_test(probs, labels, name, n_resamples=5, **options)
        assert test.observed == pytest.approx(value_of(name, probs, labels, **options))


@pytest.mark.parametrize("name", ERRORS)
def test_the_null_is_the_metric_on_labels_drawn_from_the_probabilities(name):
    probs, labels = draw(200, 0)
    rng = np.random.default_rng(5)
    ladder = probs.cumsum(axis=1)
    values = []
    for _ in range(150):
        drawn = np.minimum((rng.random((200, 1)) > ladder).sum(axis=1), 3)
        values.append(value_of(name, probs, drawn))
    test = metrics.calibration_test(probs, labels, name, n_resamples=150)
    deviation = np.std(values) / np.sqrt(150) + test.null_std / np.sqrt(150)
    assert test.null_mean == pytest.approx(np.mean(values), abs=3.0 * deviation)
    assert test.null_std == pytest.approx(np.std(values), rel=0.35)


def test_the_p_value_counts_the_resamples():
    probs, labels = draw(500, 0, temperature=3.0)
    assert metrics.calibration_test(probs, labels, n_resamples=99).p_value == 0.01
    sure = np.tile([1.0, 0.0], (5, 1))
    assert metrics.calibration_test(sure, np.zeros(5, int), n_resamples=9).p_value == 1.0


def test_a_seed_fixes_everything_and_quantiles_rise():
    probs, labels = draw(300, 0)
    first = metrics.calibration_test(probs, labels, n_resamples=50, random_state=3)
    assert first == metrics.calibration_test(probs, labels, n_resamples=50, random_state=3)
    assert first == metrics.calibration_test(
        probs, labels, n_resamples=50, random_state=np.random.default_rng(3)
    )
    assert first != metrics.calibration_test(probs, labels, n_resamples=50, random_state=4)
    assert list(first.quantiles.values()) == sorted(first.quantiles.values())


def test_grouped_rows_draw_from_the_same_distribution():
    rng = np.random.default_rng(0)
    confidence = rng.beta(4.0, 1.2, 20_000)
    part = Outcomes.of_columns(confidence, rng.random(20_000) < confidence)
    rows = BinnedRows.of(part, equal_width_edges(15))
    groups = rows.grouped(by_outcome=False)
    assert groups.count.sum() == 20_000
    assert len(groups.count) < 5000
    variance = groups.count @ (groups.rows.score * (1.0 - groups.rows.score))
    assert variance == pytest.approx((confidence * (1.0 - confidence)).sum(), rel=1e-6)
    # The same bins without groups: as if every row had its own weight.
    weight = np.where(np.arange(20_000) < 1, 1.0 + 1e-9, 1.0)
    slow = BinnedRows.of(Outcomes.of_columns(confidence, part.hit, weight), rows.edges)
    for way in ("null", "bootstrap"):
        fast_values, slow_values = (
            values_of(calibration_error, getattr(one, way)(300, np.random.default_rng(seed)))
            for one, seed in ((rows, 1), (slow, 2))
        )
        assert kstest(fast_values, slow_values).pvalue > 1e-3


def test_weights_need_no_groups():
    probs, labels = draw(20_000, 0)
    weight = np.random.default_rng(1).random(20_000)
    plain = metrics.calibration_test(probs, labels, n_resamples=20)
    weighted = metrics.calibration_test(probs, labels, n_resamples=20, sample_weight=weight)
    # Fewer effective rows, more noise.
    assert 1.0 < weighted.null_mean / plain.null_mean < 1.4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "acc"}, "metric must be one of ece, .* got 'acc'"),
        ({"metric": "brier"}, "metric must be one of ece"),
        ({"n_resamples": 0}, "n_resamples must be at least 1, got 0"),
        ({"n_bins": 0}, "n_bins must be at least 1, got 0"),
    ],
)
def test_calibration_test_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        metrics.calibration_test(*draw(20, 0), **options)


# --- bootstrap --------------------------------------------------------------------------------


COVERED = [name for name in (*ERRORS, *SCORES) if metrics.METRICS[name].has_interval]


@pytest.mark.parametrize("name", COVERED)
def test_the_interval_is_about_the_value(name):
    probs, labels = draw(400, 0, temperature=2.0)
    got = metrics.bootstrap_ci(probs, labels, name, n_resamples=100)
    assert got.estimate == pytest.approx(value_of(name, probs, labels))
    assert got.low <= got.high
    assert got.low - 0.1 * got.estimate <= got.estimate <= got.high + 0.3 * got.estimate


@pytest.mark.parametrize("name", ["ece", "classwise_ece", "nll"])
def test_the_fast_way_is_the_slow_way(name):
    probs, labels = draw(300, 0, temperature=2.0)
    weight = np.random.default_rng(1).random(300)
    options = {"n_resamples": 200, "method": "percentile", "sample_weight": weight}
    fast = metrics.bootstrap_ci(probs, labels, name, **options)
    slow = metrics.bootstrap_ci(probs, labels, getattr(metrics, name), **options)
    assert fast.estimate == pytest.approx(slow.estimate)
    assert fast.low == pytest.approx(slow.low, abs=1e-10)  # the same draws
    assert fast.high == pytest.approx(slow.high, abs=1e-10)


def test_the_standard_error_of_a_mean_is_the_textbook_one():
    probs, labels = draw(2000, 0)
    rows = metrics.brier_per_row(probs, labels)
    got = metrics.bootstrap_ci(probs, labels, "brier", n_resamples=500)
    assert got.std_error == pytest.approx(rows.std() / np.sqrt(2000), rel=0.15)


def test_the_interval_of_a_calibrated_model_reaches_zero():
    probs, labels = draw(2000, 4)
    assert metrics.calibration_test(probs, labels, n_resamples=200).p_value > 0.05
    assert metrics.bootstrap_ci(probs, labels, n_resamples=200).low == 0.0
    assert metrics.bootstrap_ci(probs, labels, n_resamples=200, method="percentile").low > 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.2}, "level must lie between 0 and 1, got 1.2"),
        ({"method": "bca"}, '"basic" or "percentile", got \'bca\''),
        ({"metric": "classwise_ece"}, "classwise_ece has no interval that covers: take one of ece"),
        ({"metric": "mce"}, "calibration_test, which asks whether there is an error at all"),
        ({"n_resamples": 0}, "n_resamples must be at least 1, got 0"),
        ({"metric": "f1"}, "metric must be one of"),
    ],
)
def test_bootstrap_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        metrics.bootstrap_ci(*draw(20, 0), **options)


# --- paired comparison ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["brier", "nll", "accuracy", "ece", "adaptive_ece", "debiased_ece"]
)
def test_a_model_against_itself_shows_no_difference(name):
    probs, labels = draw(200, 0)
    same = metrics.compare_paired(probs, probs, labels, name, n_resamples=30)
    assert same.difference == 0.0
    assert same.low <= 0.0 <= same.high
    assert same.p_value == pytest.approx(1.0, abs=1e-5)


def test_errors_that_noise_tells_apart_are_no_different():
    """Two calibrated models, one much sharper: its ECE is smaller by noise alone."""
    rejected = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sharp = rng.beta(8.0, 0.5, 1000) * 0.5 + 0.5
        labels = (rng.random(1000) < sharp).astype(int)
        flat = np.full(1000, sharp.mean())  # calibrated, too: it knows the share alone
        pair = metrics.compare_paired(sharp, flat, labels, "ece", n_resamples=100)
        assert (pair.p_value < 0.05) == (pair.low > 0.0 or pair.high < 0.0)
        rejected += pair.p_value < 0.05
    assert rejected <= 5


@pytest.mark.parametrize("name", ["ece", "adaptive_ece", "debiased_ece", "rms_ece"])
@pytest.mark.parametrize("shift", [0.0, 0.08])
def test_intervals_cover(name, shift):
    """The short form of `make statistics`: at least 33 of 40."""
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        confidence = rng.uniform(0.6, 0.95, 800)
        labels = (rng.random(800) >= confidence - shift).astype(int)
        probs = np.stack([confidence, 1.0 - confidence], axis=1)
        got = metrics.bootstrap_ci(probs, labels, name, n_resamples=50, random_state=seed)
        covered += got.low <= shift + 1e-9 <= got.high + 1e-9
    assert covered >= 33


def test_pairing_sees_what_separate_intervals_do_not():
    probs, labels = draw(2000, 0, temperature=1.3)
    better = probs ** (1.0 / 1.3)
    better /= better.sum(axis=1, keepdims=True)
    pair = metrics.compare_paired(probs, better, labels, "brier", n_resamples=300)
    assert pair.low > 0.0
    assert pair.p_value < 0.05
    first, second = (
        metrics.bootstrap_ci(p, labels, "brier", n_resamples=300) for p in (probs, better)
    )
    assert first.low < second.high


def test_a_comparison_turns_round():
    (first, labels), second = draw(300, 0), draw(300, 1)[0]
    one = metrics.compare_paired(first, second, labels, "ece", n_resamples=50)
    other = metrics.compare_paired(second, first, labels, "ece", n_resamples=50)
    assert one.difference == -other.difference
    assert one.low == pytest.approx(-other.high)
    assert one.p_value == other.p_value


# --- slow: are the tests themselves calibrated? -----------------------------------------------


def p_values(name, rows=400, simulations=500):
    values = []
    for seed in range(simulations):
        probs, labels = draw(rows, 1000 + seed)
        if name == "spiegelhalter":
            values.append(metrics.spiegelhalter_test(probs, labels).p_value)
        else:
            resamples = 99 if name in ("smooth_ece", "kde_ece") else 199
            test = metrics.calibration_test(
                probs, labels, name, n_resamples=resamples, random_state=seed
            )
            values.append(test.p_value)
    return np.array(values)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["ece", "rms_ece", "adaptive_ece", "classwise_ece", "smooth_ece", "kde_ece", "spiegelhalter"],
)
def test_p_values_are_uniform_under_the_null(name):
    assert kstest(p_values(name), "uniform").pvalue > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mce", "debiased_ece"])
def test_p_values_with_ties_are_never_too_small(name):
    # The largest gap is often that of one row, and the debiased error 0 for half of all calibrated
    # models: equal values count against the observed one, which is not uniform but safe.
    values = p_values(name)
    for level in (0.01, 0.05, 0.1, 0.3):
        assert (values <= level).mean() <= level + 3.0 * np.sqrt(level * (1.0 - level) / 500)


@pytest.mark.slow
def test_grouped_p_values_are_uniform_under_the_null():
    assert kstest(p_values("ece", rows=20_000, simulations=200), "uniform").pvalue > 0.01


@pytest.mark.slow
def test_power_at_twice_the_null_value():
    """A model whose ECE is on average twice the null's mean is found out."""
    tests = [
        metrics.calibration_test(
            *draw(1000, seed, temperature=1.31), n_resamples=199, random_state=1000
        )
        for seed in range(200)
    ]
    ratio = np.mean([t.observed for t in tests]) / np.mean([t.null_mean for t in tests])
    power = np.mean([t.p_value <= 0.05 for t in tests])
    print(f"ECE {ratio:.2f} times its null value: power {power:.2f} at the 5% level")
    assert ratio == pytest.approx(2.0, abs=0.15)
    assert power > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "least"), [(1.0, 0.93), (1.1, 0.85), (2.0, 0.85)])
def test_intervals_cover_the_true_error(temperature, least):
    def confidence_and_truth(rows, seed):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(rows, 4)) * 1.5
        probs, true = (np.exp(logits / t) for t in (1.0, temperature))
        probs, true = (p / p.sum(axis=1, keepdims=True) for p in (probs, true))
        return probs.max(axis=1), true.max(axis=1)

    # The true error in these bins: the frequencies themselves as hits.
    true_ece = metrics.BinStats.from_confidence(*confidence_and_truth(10**6, 0)).error()
    covered = []
    for seed in range(300):
        got = metrics.bootstrap_ci(
            *draw(1000, 1000 + seed, temperature), n_resamples=300, random_state=seed
        )
        covered.append(got.low - 1e-9 <= true_ece <= got.high)
    print(f"true ECE {true_ece:.4f}: 95% intervals cover it in {np.mean(covered):.0%} of 300 draws")
    assert np.mean(covered) >= least
