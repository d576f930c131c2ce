"""Machine code by Numba gives what NumPy gives, refuses what it refuses, and is not needed."""

from __future__ import annotations

import builtins
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.backends.numba import compiler as _machine_code
from calibrant.backends.numba import dispatch as _fast
from calibrant.calibrators import Calibrator
from calibrant.formulas import ConstantTemperature, NetworkTemperature
from crafting import with_formula
from hard_logits import adversarial, labelled

METHODS: dict[str, Any] = {
    "ts": calibrant.TS,
    "ets": calibrant.ETS,
    "pts": lambda: calibrant.PTS(penalty=0.01),
    "pts-logits": lambda: calibrant.PTS(penalty=0.01, inputs="logits", hidden=(4,), members=2),
    "pts-paper": lambda: calibrant.PTS(recipe="paper", steps=300, learning_rate=0.01),
    "pts-linear": lambda: calibrant.LinearPTS(penalty=0.01),
    "pts-top-1": lambda: calibrant.PTS(penalty=0.01, top_k=1),
    "smart": lambda: calibrant.calibrator("smart", penalty=0.01),
}


@cache
def fitted(method: str, classes: int) -> Calibrator:
    """Fitted on twelve classes: the temperature family takes other numbers of them, too."""
    model = METHODS[method]().fit(*labelled(min(12, classes)))
    return with_formula(model, model.formula_, classes)


@pytest.fixture
def numba(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Machine code for small arrays, too."""
    module = pytest.importorskip("numba")
    monkeypatch.setattr(_fast, "SMALLEST", 0)
    return module


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fast, "has_machine_code", lambda: False)


# --- with Numba ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [12, 33, 300])
def test_probabilities_are_those_of_numpy(numba: Any, method: str, classes: int) -> None:
    model = fitted(method, classes)
    scores = np.random.default_rng(0).normal(size=(150, classes)).astype(np.float32) * 3.0
    exact = model.formula_(scores.astype(np.float64))
    found = _fast.compiled_probabilities(model.formula_, scores)
    assert found is not None
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_adversarial_rows(numba: Any, method: str) -> None:
    """Ties, masks, constants, certain, tiny and huge rows."""
    model, scores = fitted(method, 12), adversarial(12)
    found = model.predict_proba(scores)
    np.testing.assert_allclose(found, model.formula_(scores), rtol=0, atol=1e-5)
    assert not found[scores == -np.inf].any()
    if model.accuracy_preserving:
        best = np.take_along_axis(found, scores.argmax(axis=1)[:, None], axis=1)
        assert (found <= best).all()


def test_sums_over_many_classes(numba: Any) -> None:
    scores = np.random.default_rng(0).normal(size=(70, 4096)).astype(np.float32)
    found = _fast.compiled_probabilities(ConstantTemperature(3.0), scores)
    exact = ConstantTemperature(3.0)(scores.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=2e-6)


def test_functions_of_numbers(numba: Any) -> None:
    from calibrant.backends.numba import predictions as _compiled

    def found(name: str, x: np.ndarray) -> np.ndarray:
        function = getattr(_compiled, name)

        @numba.njit
        def on_each(values: np.ndarray) -> np.ndarray:
            out = np.empty_like(values)
            for i in range(len(values)):
                out[i] = function(values[i])
            return out

        return on_each(x)

    x = np.linspace(-86.9, 50.0, 100_001, dtype=np.float32)
    np.testing.assert_allclose(found("exp", x), np.exp(x.astype(np.float64)), rtol=3e-7)
    ends = np.float32([0.0, -0.0, -87.5, -3e38, -np.inf, np.nan])
    np.testing.assert_array_equal(found("exp", ends), np.float32([1, 1, 0, 0, 0, np.nan]))
    x = np.geomspace(1e-37, 1e38, 100_001, dtype=np.float32)
    np.testing.assert_allclose(found("log", x), np.log(x.astype(np.float64)), rtol=3e-7, atol=1e-7)
    x = np.linspace(-12.0, 12.0, 100_001, dtype=np.float32)
    np.testing.assert_allclose(found("tanh", x), np.tanh(x.astype(np.float64)), rtol=3e-7)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "got nan at row 70, class 3"),
        (np.inf, "got inf at row 70, class 3"),
        (-np.inf, "row 70 is all -inf"),
    ],
)
@pytest.mark.parametrize("method", ["ts", "ets", "pts"])
def test_rows_that_are_no_logits_are_refused(
    numba: Any, method: str, value: float, message: str
) -> None:
    scores = np.zeros((90, 12), np.float32)
    scores[70, slice(None) if value == -np.inf else 3] = value
    with pytest.raises(ValueError, match=message):
        fitted(method, 12).predict_proba(scores)


def test_arrays_that_cannot_be_written_to(numba: Any, tmp_path: Path) -> None:
    scores = np.random.default_rng(0).normal(size=(500, 12)).astype(np.float32)
    np.save(tmp_path / "scores.npy", scores)
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    model = fitted("pts", 12)
    assert _fast.compiled_probabilities(model.formula_, mapped) is not None
    np.testing.assert_array_equal(model.predict_proba(mapped), model.predict_proba(scores))


def test_threads_change_nothing(numba: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).normal(size=(1000, 12)).astype(np.float32)
    whole = fitted("pts", 12).predict_proba(scores)
    monkeypatch.setattr(_fast, "AT_ONCE", 1200)
    np.testing.assert_array_equal(fitted("pts", 12).predict_proba(scores), whole)


def test_what_is_left_to_numpy(numba: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    formula, scores = fitted("pts", 12).formula_, np.zeros((100, 12), np.float32)

    def has(formula: Any, scores: np.ndarray) -> bool:
        return _fast.compiled_probabilities(formula, scores) is not None

    assert has(formula, scores)
    assert not has(formula, scores.astype(np.float64))
    assert not has(formula, np.asfortranarray(scores))
    assert not has(formula, np.zeros((2, _fast.MOST_CLASSES + 1), np.float32))
    assert not has(calibrant.calibrator("hts", penalty=0.01).fit(*labelled(12)).formula_, scores)
    assert not has(calibrant.VectorScaling().fit(*labelled(12)).formula_, scores)
    parts = (formula.reading, formula.low, formula.high, formula.kernels, formula.biases)
    assert not has(NetworkTemperature(*parts, False, formula.link, 100.0), scores)
    monkeypatch.setenv("CALIBRANT_KERNELS", "0")
    assert not has(formula, scores)


def test_small_arrays_are_left_to_numpy() -> None:
    assert _fast.compiled_probabilities(ConstantTemperature(2.0), np.zeros((9, 9), "f")) is None


# --- without ------------------------------------------------------------------------------------


def test_numba_is_not_needed(without_numba: None) -> None:
    scores = np.random.default_rng(0).normal(size=(8_000, 12)).astype(np.float32)
    formula = fitted("pts", 12).formula_
    assert _fast.compiled_probabilities(formula, scores) is None
    exact = formula(scores.astype(np.float64))
    np.testing.assert_allclose(fitted("pts", 12).predict_proba(scores), exact, rtol=0, atol=1e-6)


def test_a_numba_that_does_not_work_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numba", None)
    monkeypatch.setattr(_machine_code, "find_spec", lambda name: object())
    assert not _machine_code._has_numba.__wrapped__()
    monkeypatch.setattr(_machine_code, "find_spec", lambda name: None)
    assert not _machine_code._has_numba.__wrapped__()


@pytest.mark.parametrize("error", [OSError("no library"), SystemError("initialization failed")])
def test_a_numba_that_fails_in_its_own_way_is_none(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str, *rest: Any) -> Any:
        if name == "numba":
            raise error
        return importing(name, *rest)

    importing = builtins.__import__
    monkeypatch.setattr(_machine_code, "find_spec", lambda name: object())
    monkeypatch.setattr(builtins, "__import__", broken)
    assert not _machine_code._has_numba.__wrapped__()


@pytest.mark.parametrize("error", [RuntimeError, OSError, EOFError])
def test_functions_that_cannot_be_kept_are_compiled_all_the_same(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    numba = pytest.importorskip("numba")
    compile_it = numba.njit

    def full_disk(*signature: Any, cache: bool = False, **options: Any) -> Any:
        if cache:
            raise error("no space left")
        return compile_it(*signature, **options)

    monkeypatch.setattr(numba, "njit", full_disk)
    double = _machine_code.compiled(numba.float64(numba.float64))(lambda x: x + x)
    assert double(1.5) == 3.0
