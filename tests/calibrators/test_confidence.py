"""Confidence alone: the class, its probability and the temperature that the other methods give."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant.calibrators import REGISTRY, Calibrator
from hard_logits import adversarial

METHODS = sorted(REGISTRY)


def fitted(name: str, kind: str = "logits") -> tuple[Calibrator, np.ndarray]:
    rng = np.random.default_rng(0)
    classes = 2 if REGISTRY[name].two_classes_only else 4
    logits = 3.0 * rng.normal(size=(300, classes))
    labels = (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    scores = np.exp(logits) / np.exp(logits).sum(1, keepdims=True) if kind == "probs" else logits
    return calibrant.calibrator(name, input=kind).fit(scores, labels), scores


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_confidence_is_what_the_other_methods_give(name: str) -> None:
    model, scores = fitted(name)
    label, probability, temperature = model.predict_confidence(scores)
    probs = model.predict_proba(scores)
    np.testing.assert_array_equal(label, model.predict(scores))
    np.testing.assert_allclose(probability, probs[np.arange(len(label)), label], rtol=1e-12)
    np.testing.assert_allclose(probability, probs.max(axis=1), rtol=1e-12)
    assert (temperature is None) == (not hasattr(model, "temperature"))
    if temperature is not None:
        np.testing.assert_allclose(temperature, model.temperature(scores), rtol=1e-12)


@pytest.mark.parametrize("name", ["ts", "ets", "hts", "smart", "irm"])
def test_many_rows_and_hard_ones(name: str) -> None:
    """Tiles on threads, masked classes, ties and huge logits."""
    model, scores = fitted(name)[0], np.tile(adversarial(4), (60, 1))
    label, probability, _ = model.predict_confidence(scores)
    np.testing.assert_array_equal(label, model.predict(scores))
    np.testing.assert_allclose(probability, model.predict_proba(scores).max(axis=1), atol=1e-6)


def test_probabilities_as_input() -> None:
    model, scores = fitted("ts", "probs")
    label, probability, _ = model.predict_confidence(scores)
    np.testing.assert_array_equal(label, scores.argmax(axis=1))
    np.testing.assert_allclose(probability, model.predict_proba(scores).max(axis=1))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_tensors_stay_tensors_and_modules_agree(name: str) -> None:
    torch = pytest.importorskip("torch")
    from calibrant.torch import to_module

    model, scores = fitted(name)
    scores = 0.9 * scores  # not on the steps, which lie where rows of the fit do
    wanted = model.predict_confidence(scores)
    tensor = torch.from_numpy(scores)
    for found in (model.predict_confidence(tensor), to_module(model).confidence(tensor)):
        assert found.label.dtype == torch.int64
        np.testing.assert_array_equal(found.label, wanted.label)
        np.testing.assert_allclose(found.probability, wanted.probability, rtol=1e-9)
        assert (found.temperature is None) == (wanted.temperature is None)


def test_classes_along_another_axis() -> None:
    torch = pytest.importorskip("torch")
    from calibrant.torch import to_module

    model, scores = fitted("hts")
    images = torch.from_numpy(scores).reshape(2, 10, 15, 4).movedim(-1, 1)
    for found, wanted in zip(
        to_module(model, class_axis=1).confidence(images),
        model.predict_confidence(scores),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted.reshape(2, 10, 15), rtol=1e-9)


def test_no_rows() -> None:
    for found in fitted("hts")[0].predict_confidence(np.empty((0, 4), np.float32)):
        assert found.shape == (0,)


def test_what_is_refused() -> None:
    with pytest.raises(NotFittedError):
        calibrant.TS().predict_confidence([[1.0, 0.0]])
    with pytest.raises(ValueError, match="got nan at row 1, class 0"):
        fitted("ts")[0].predict_confidence([[1.0, 0.0, 2.0, 0.0], [np.nan, 0.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="fitted with 4 classes, got 2"):
        fitted("ts")[0].predict_confidence([[1.0, 0.0]])
