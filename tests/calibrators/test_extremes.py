"""Weights and logits at the limits of floats: served where they mean something, else refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import metrics
from calibrant.calibrators import REGISTRY
from calibrant.data.weights import are_counts, weighted_mean
from cli_support import sample

WEIGHTED = [name for name, metric in metrics.METRICS.items() if metric.weighted]
MEANS_ALONE = ("base", "ts", "ets", "vector", "matrix", "dirichlet", "svs", "sms")
LIMITS = {np.float64: 1.7e308, np.float32: 3.4e38, np.float16: 65504.0}


# --- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [5e-324, 1e-300, 9e-51, 1.1e50, 1e300, 1.7e308])
def test_weights_beyond_the_range_are_refused_with_a_remedy(value: float) -> None:
    logits, labels = sample(20, 3)
    weight = np.ones(20)
    weight[7] = value
    told = r"sample_weight must be 0 or in \[1e-50, 1e\+50\], got .* at row 7\. Divide them all by"
    profile = calibrant.TemperatureProfile()
    meter = calibrant.CalibrationMeter(input="logits")
    for refuses in (
        lambda: calibrant.TS().fit(logits, labels, weight),
        lambda: calibrant.BayesianBinning().fit(logits, labels, weight),
        lambda: metrics.ece(logits, labels, sample_weight=weight, input="logits"),
        lambda: profile.update(logits, labels, sample_weight=weight),
        lambda: meter.update(logits, labels, sample_weight=weight),
    ):
        with pytest.raises(ValueError, match=told):
            refuses()


@pytest.mark.parametrize("scale", [1e-50, 1e-20, 1e30])
@pytest.mark.parametrize("name", ["ts", "platt", "irova", "histogram", "vector", "spline"])
def test_the_unit_of_weights_does_not_matter(name: str, scale: float) -> None:
    logits, labels = sample(60, 2)
    weight = np.random.default_rng(0).uniform(1.5, 9.5, 60)
    plain = calibrant.calibrator(name).fit(logits, labels, weight)
    scaled = calibrant.calibrator(name).fit(logits, labels, weight * scale)
    np.testing.assert_allclose(
        scaled.predict_proba(logits), plain.predict_proba(logits), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("name", WEIGHTED)
def test_metrics_do_not_care_about_the_unit_either(name: str) -> None:
    logits, labels = sample(60, 3 if metrics.METRICS[name].suits(3) else 2)
    weight = np.random.default_rng(0).uniform(1.5, 9.5, 60)
    value = metrics.METRICS[name](logits, labels, sample_weight=weight, input="logits")
    for scale in (1e-50, 1e40):
        scaled = metrics.METRICS[name](logits, labels, sample_weight=weight * scale, input="logits")
        assert scaled == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", REGISTRY)
def test_weights_that_span_the_whole_range(name: str) -> None:
    """Where a fit reads rows through weighted means alone, those of almost no weight do nothing."""
    logits, labels = sample(60, 2)
    weight = np.where(np.arange(60) < 40, 0.7, 1e-49)
    fitted = calibrant.calibrator(name).fit(logits, labels, weight)
    probs = fitted.predict_proba(logits)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    if name in MEANS_ALONE:
        without = calibrant.calibrator(name).fit(logits[:40], labels[:40], weight[:40])
        np.testing.assert_allclose(probs, without.predict_proba(logits), rtol=1e-5, atol=1e-8)


def test_counts_end_where_floats_stop_counting() -> None:
    assert are_counts(np.array([2.0**52, 2.0**52]))
    assert not are_counts(np.array([2.0**53, 2.0]))
    assert not are_counts(np.array([1.0, 1e17]))


def test_means_of_values_whose_sum_is_no_number() -> None:
    assert weighted_mean(np.array([1.5e308, 1.5e308, 0.0]), np.ones(3)) == pytest.approx(1e308)
    assert weighted_mean(np.array([np.inf, 1.0]), np.ones(2)) == np.inf


# --- logits -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", REGISTRY)
def test_masks_in_numbers_are_masks(name: str, dtype: Any) -> None:
    """``finfo.min`` in place of -inf: the class gets nothing, and nothing overflows."""
    classes = 2 if REGISTRY[name].two_classes_only else 4
    logits, labels = sample(60, classes)
    logits = logits.astype(dtype)
    logits[:20, 0] = np.finfo(dtype).min
    labels[:20] = np.where(labels[:20] == 0, 1, labels[:20])
    fitted = calibrant.calibrator(name).fit(logits, labels)
    probs = fitted.predict_proba(logits)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-5)
    assert np.isfinite(probs).all()


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", REGISTRY)
def test_logits_of_the_largest_size_are_served(name: str, dtype: Any) -> None:
    """Also where the label's logit is so far below that its gap is no float."""
    logits, labels = sample(60, 2)
    logits = (logits / np.abs(logits).max() * LIMITS[dtype]).astype(dtype)
    logits[0], labels[0] = [LIMITS[dtype], -LIMITS[dtype]], 1
    fitted = calibrant.calibrator(name).fit(logits, labels)
    probs = fitted.predict_proba(logits)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-5)
    if fitted.accuracy_preserving:
        np.testing.assert_array_equal(fitted.predict(logits), logits.argmax(axis=1))


@pytest.mark.parametrize("name", metrics.METRICS)
def test_metrics_of_logits_of_the_largest_size(name: str) -> None:
    logits, labels = sample(60, 3 if metrics.METRICS[name].suits(3) else 2)
    for dtype, largest in LIMITS.items():
        extreme = (logits / np.abs(logits).max() * largest).astype(dtype)
        assert np.isfinite(metrics.METRICS[name](extreme, labels, input="logits"))


def test_only_masked_classes_are_masked() -> None:
    """A finite logit was refused as -inf where its gap left float32."""
    profile = calibrant.TemperatureProfile.from_logits([[1e300, -1e300, -np.inf]], [1])
    assert profile.finite_classes.tolist() == [2]
    with pytest.raises(ValueError, match="row 0 has label 2, whose logit is -inf"):
        calibrant.TemperatureProfile.from_logits([[1e300, -1e300, -np.inf]], [2])


def test_a_meter_counts_losses_that_cannot_be_added_as_infinite() -> None:
    meter = calibrant.CalibrationMeter(input="logits")
    meter.update([[1e200, -1e200], [1.0, 0.0]], [1, 0])
    assert meter.compute().nll == np.inf
