"""The adapter for CalArena's runner: what the runner gives, and what it gets."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import calibrant

PATH = Path(__file__).parents[2] / "benchmarks" / "calarena.py"


@pytest.fixture(scope="module")
def adapter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("calarena", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sample(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    logits = 3.0 * rng.normal(size=(rows, classes))
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    return probs.astype(np.float32), (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def test_every_method_is_there(adapter: ModuleType) -> None:
    expected = {f"calibrant-{method}" for method in calibrant.calibrators.REGISTRY}
    assert set(adapter.CUSTOM_CALIBRATORS) == expected


def test_several_classes(adapter: ModuleType) -> None:
    probs, labels = sample(200, 4)
    made = adapter.CUSTOM_CALIBRATORS["calibrant-ts"]()
    made.fit(probs, labels)
    rows = probs.astype(np.float64) / probs.astype(np.float64).sum(axis=1, keepdims=True)
    expected = calibrant.TS(input="probs").fit(rows, labels).predict_proba(rows)
    np.testing.assert_allclose(made.predict_proba(probs), expected, atol=1e-12)


def test_two_classes_come_as_the_second_one(adapter: ModuleType) -> None:
    probs, labels = sample(400, 2)
    for given in (probs[:, 1], probs[:, 1:]):
        made = adapter.CUSTOM_CALIBRATORS["calibrant-platt"]()
        made.fit(given, labels)
        assert made.predict_proba(given).shape == (400, 2)


def test_zeros_at_the_true_class_are_no_error(adapter: ModuleType) -> None:
    probs, labels = sample(200, 3)
    probs[0] = np.eye(3)[(labels[0] + 1) % 3]
    made = adapter.CUSTOM_CALIBRATORS["calibrant-ets"]()
    made.fit(probs, labels)
    assert np.isfinite(np.log(made.predict_proba(probs))).all()
