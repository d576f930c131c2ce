"""A fit does not depend on the order of its rows, on threads, or on the cores of the machine."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import calibrant
from calibrant.calibrators import REGISTRY
from calibrant.common.threads import available_cores
from calibrant.data.copies import canonical_rows
from calibrant.formulas import IncreasingTable, LogGaps, NetworkTemperature, TopLogits
from hard_logits import labelled

METHODS = sorted(REGISTRY)
# Not exact where a prediction itself is a matrix product of more than one thread.
SAME = {"rtol": 0.0, "atol": 1e-12}

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")


def users_of_cores() -> Iterator[str]:
    """The modules that ask for the number of cores."""
    below = ("calibrant.calibrators", "calibrant.profile", "calibrant.backends.numba.dispatch")
    for found in pkgutil.walk_packages(calibrant.__path__, "calibrant."):
        ours = found.name.startswith(below)
        if ours and hasattr(importlib.import_module(found.name), "available_cores"):
            yield found.name


USERS_OF_CORES = list(users_of_cores())


@cache
def rows(classes: int, count: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    logits, labels = labelled(classes, 2 * count)
    logits = logits.astype(np.float64)
    return logits[:count], labels[:count], logits[count:]


def probabilities(
    method: str, classes: int, order: np.ndarray | slice = slice(None), count: int = 600
) -> np.ndarray:
    logits, labels, other = rows(classes, count)
    return calibrant.calibrator(method).fit(logits[order], labels[order]).predict_proba(other)


def skip_unless_possible(method: str, classes: int) -> None:
    if REGISTRY[method].two_classes_only and classes > 2:
        pytest.skip("for two classes")


def on_cores(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    assert available_cores() >= 1
    for name in USERS_OF_CORES:
        monkeypatch.setattr(f"{name}.available_cores", lambda: cores)


@pytest.mark.parametrize("classes", [2, 3, 100])
@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_the_rows_does_not_matter(method: str, classes: int) -> None:
    skip_unless_possible(method, classes)
    order = np.random.default_rng(1).permutation(600)
    given, shuffled = probabilities(method, classes), probabilities(method, classes, order)
    np.testing.assert_allclose(shuffled, given, **SAME)


@pytest.mark.parametrize("classes", [3, 100])
@pytest.mark.parametrize("method", METHODS)
def test_threads_and_cores_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, method: str, classes: int
) -> None:
    skip_unless_possible(method, classes)
    on_cores(monkeypatch, 1)
    with threadpool_limits(1):
        alone = probabilities(method, classes)
    with threadpool_limits(2):
        np.testing.assert_allclose(probabilities(method, classes), alone, **SAME)
    on_cores(monkeypatch, 3)
    np.testing.assert_allclose(probabilities(method, classes), alone, **SAME)


@pytest.mark.parametrize("method", ["diag", "pts", "mpts", "spts", "matrix", "vector", "sms"])
@pytest.mark.parametrize("classes", [10, 100])
def test_fits_that_amplify_rounding_are_repeated_exactly(method: str, classes: int) -> None:
    """On thousands of rows the last digits of sums moved probabilities by up to 0.1."""
    count = 3000
    order = np.random.default_rng(1).permutation(count)
    with threadpool_limits(1):
        given = probabilities(method, classes, count=count)
    with threadpool_limits(2):
        shuffled = probabilities(method, classes, order, count)
    np.testing.assert_allclose(shuffled, given, **SAME)


@pytest.mark.parametrize("method", ["diag", "mpts", "spts", "sms", "matrix", "vector"])
def test_whole_weights_are_repeated_rows_exactly(method: str) -> None:
    logits, labels, other = rows(3)
    weight = np.random.default_rng(2).integers(1, 4, len(labels))
    written = np.repeat(np.arange(len(labels)), weight)
    weighted = calibrant.calibrator(method).fit(logits, labels, weight)
    repeated = calibrant.calibrator(method).fit(logits[written], labels[written])
    np.testing.assert_array_equal(weighted.predict_proba(other), repeated.predict_proba(other))


def test_messages_count_whole_weights_as_rows() -> None:
    logits = np.tile([[3.0, 0.0], [0.0, 2.0]], (10, 1))
    with pytest.warns(calibrant.CalibrationWarning, match="none of the 40 rows is misclassified"):
        calibrant.PTS().fit(logits, logits.argmax(axis=1), np.full(20, 2.0))


def test_canonical_rows_do_not_depend_on_their_order() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (400, 3)).astype(float)  # many rows tie, and many are copies
    labels, order = rng.integers(0, 3, 400), rng.permutation(400)
    for weight in (np.ones(400), rng.integers(1, 5, 400) * 1.0, rng.uniform(0.5, 2.0, 400)):
        index, total = canonical_rows(values, labels, weight)
        again, same = canonical_rows(values[order], labels[order], weight[order])
        np.testing.assert_array_equal(values[index], values[order][again])
        np.testing.assert_array_equal(labels[index], labels[order][again])
        np.testing.assert_array_equal(total, same)
        assert total.sum() == pytest.approx(weight.sum())
    distinct = np.unique(np.column_stack([values, labels]), axis=0)
    assert len(canonical_rows(values, labels, np.ones(400))[0]) == len(distinct)
    assert len(index) == 400  # fractional weights are not added up


@pytest.mark.parametrize("classes", [3, 100])
def test_the_order_of_a_profile_follows_from_its_rows(classes: int) -> None:
    logits, labels, _ = rows(classes)
    logits = np.round(logits)  # labels' logits tie
    order = np.random.default_rng(3).permutation(len(labels))
    one = calibrant.TemperatureProfile.from_logits(logits, labels)
    other = calibrant.TemperatureProfile.from_logits(logits[order], labels[order])
    (first, place), (second, moved) = one._in_canonical_order(), other._in_canonical_order()
    np.testing.assert_array_equal(first.row_nll(2.0), second.row_nll(2.0))
    np.testing.assert_array_equal(first.row_nll(2.0)[place], one.row_nll(2.0))
    np.testing.assert_array_equal(place[order], moved)


def test_copies_in_a_profile_are_one_row_with_their_weight() -> None:
    logits, labels, _ = rows(3)
    times = np.random.default_rng(0).integers(1, 4, len(labels))
    written = calibrant.TemperatureProfile.from_logits(
        np.repeat(logits, times, axis=0), np.repeat(labels, times)
    )
    weighted = calibrant.TemperatureProfile.from_logits(logits, labels, sample_weight=times)
    (first, place), second = written._in_canonical_order(), weighted._in_canonical_order()[0]
    assert len(first) == len(labels)
    np.testing.assert_array_equal(first.weight, second.weight)
    np.testing.assert_array_equal(first.row_nll(1.5), second.row_nll(1.5))
    np.testing.assert_array_equal(first.row_nll(1.5)[place], written.row_nll(1.5))


# --- logits with a large offset -----------------------------------------------------------------


READ_LOGITS = ["pts", "pts-linear", "mpts", "spts", "diag", "vector", "matrix"]


@pytest.mark.parametrize("offset", [-1e6, 1e3, 1e6])
@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("method", READ_LOGITS)
def test_float32_logits_with_an_offset_lose_no_digits(
    method: str, classes: int, offset: float
) -> None:
    logits, labels = labelled(classes)
    narrow = (logits + offset).astype(np.float32)
    wide = narrow.astype(np.float64)
    model = calibrant.calibrator(method).fit(narrow, labels)
    np.testing.assert_allclose(
        model.predict_proba(narrow), model.predict_proba(wide), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("method", ["mpts", "spts"])
def test_the_network_of_two_float32_logits_loses_no_digits(method: str) -> None:
    """Without an increasing map before it, the network reads the logits themselves."""
    rng = np.random.default_rng(3)
    logits = rng.standard_normal((2000, 2)) * rng.uniform(0.2, 1.0, (2000, 1))
    temperature = 1.0 + 0.5 * np.sqrt(np.ptp(logits, axis=1, keepdims=True))
    labels = np.argmax(logits / temperature + rng.gumbel(size=logits.shape), axis=1)
    narrow = (logits + 1e6).astype(np.float32)
    model = calibrant.calibrator(method).fit(narrow, labels)
    assert isinstance(model.formula_, NetworkTemperature)
    assert np.ptp(model.temperature(narrow)) > 0.1
    wide = model.predict_proba(narrow.astype(np.float64))
    np.testing.assert_allclose(model.predict_proba(narrow), wide, rtol=0, atol=1e-6)


def test_usual_logits_have_no_origin() -> None:
    logits, labels = labelled(10)
    gaps = calibrant.PTS().fit(logits, labels).formula_
    plain = calibrant.PTS(inputs="logits").fit(logits, labels).formula_
    assert isinstance(gaps, NetworkTemperature)
    assert isinstance(gaps.reading, LogGaps)
    assert isinstance(plain, NetworkTemperature)
    assert isinstance(plain.reading, TopLogits)
    assert gaps.reading.origin == plain.reading.origin == 0.0


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_ends_of_a_table_are_float32_numbers(offset: float) -> None:
    logits, labels = labelled(10)
    formula = calibrant.calibrator("diag").fit(logits + offset + 0.1, labels).formula_
    assert isinstance(formula, IncreasingTable)
    assert np.float32(formula.low) == formula.low
    assert np.float32(formula.high) == formula.high
