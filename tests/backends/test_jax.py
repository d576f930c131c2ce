"""JAX arrays go in and come out: `make test-jax`, which has an environment of its own."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant

jax = pytest.importorskip("jax")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    logits = (3.0 * rng.standard_normal((400, 12))).astype(np.float32)
    labels = np.argmax(logits / 2.0 + rng.gumbel(size=logits.shape), axis=1)
    return logits, labels


@pytest.mark.parametrize(
    "name", ["base", "ts", "ets", "pts", "pts-linear", "hts", "smart", "irm", "vector", "matrix"]
)
def test_probabilities_are_jax_arrays_and_agree(name, data):
    logits, labels = data
    model = calibrant.calibrator(name).fit(logits, labels)
    given = jax.numpy.asarray(logits)
    for method in ("predict_proba", "predict_log_proba", "predict"):
        result = getattr(model, method)(given)
        assert isinstance(result, jax.Array)
        np.testing.assert_allclose(
            np.asarray(result), getattr(model, method)(logits), rtol=1e-4, atol=1e-5
        )


def test_fits_and_metrics_take_jax_arrays(data):
    logits, labels = data
    given, target = jax.numpy.asarray(logits), jax.numpy.asarray(labels)
    model = calibrant.TS().fit(given, target)
    assert model.temperature_ == pytest.approx(calibrant.TS().fit(logits, labels).temperature_)
    probs = model.predict_proba(given)
    plain = np.asarray(probs)
    for metric in calibrant.metrics.METRICS:
        function = getattr(calibrant.metrics, metric)
        assert function(probs, target) == pytest.approx(function(plain, labels), abs=1e-6)
        both = (function(*pair, input="logits") for pair in ((given, target), (logits, labels)))
        assert next(both) == pytest.approx(next(both), abs=1e-6)


def test_evaluations_meters_and_ignored_labels_take_jax_arrays(data):
    logits, labels = data
    marked = np.where(np.arange(400) < 50, -100, labels)
    given, target = jax.numpy.asarray(logits), jax.numpy.asarray(marked)
    options = {"input": "logits", "ignore_index": -100}
    got = calibrant.evaluate(given, target, n_resamples=5, **options)
    expected = calibrant.evaluate(logits[50:], labels[50:], input="logits", n_resamples=5)
    meter = calibrant.metrics.CalibrationMeter(input="logits")
    report = meter.update(given, target, ignore_index=-100).compute()
    for name, estimate in expected.metrics.items():
        assert got.metrics[name].value == pytest.approx(estimate.value, abs=1e-6)
    assert report.nll == pytest.approx(expected.nll.value, abs=1e-6)


def test_masked_classes(data):
    logits = data[0].copy()
    logits[:, 3] = -np.inf
    labels = np.where(data[1] == 3, 4, data[1])
    model = calibrant.PTS().fit(logits, labels)
    probs = np.asarray(model.predict_proba(jax.numpy.asarray(logits)))
    assert np.all(probs[:, 3] == 0.0)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-5)
