"""What holds for every fit: all or nothing, true words, warnings that point at the caller."""

from __future__ import annotations

import json
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import FrozenInstanceError, asdict
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from threadpoolctl import ThreadpoolController, threadpool_info

import calibrant
from calibrant.calibrators import REGISTRY, DiagonalOrderPreserving, HistogramBinning
from calibrant.common.threads import _OneThread, one_blas_thread
from calibrant.data.weights import as_counts, copies, effective_rows, weighted_quantiles
from calibrant.formulas._array_operations import NumpyOps

METHODS = sorted(REGISTRY)


def sample(name: str, rows: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.normal(size=(rows, 2 if REGISTRY[name].two_classes_only else 4))
    return logits, (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_an_interrupted_fit_changes_nothing(name, monkeypatch):
    logits, labels = sample(name)
    fresh, fitted = calibrant.calibrator(name), calibrant.calibrator(name).fit(logits, labels)
    before, state = fitted.predict_proba(logits), dict(vars(fitted))

    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{type(fresh).__module__}.FitInfo", interrupt, raising=False)
    monkeypatch.setattr("calibrant.calibrators._base.replace", interrupt)
    other = sample(name, seed=1)
    for model in (fresh, fitted):
        with pytest.raises(KeyboardInterrupt):
            model.fit(*other)
    monkeypatch.undo()
    with pytest.raises(NotFittedError):
        fresh.predict_proba(logits)
    assert vars(fitted) == state
    np.testing.assert_array_equal(fitted.predict_proba(logits), before)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_one_report_for_all_methods(name):
    info = calibrant.calibrator(name).fit(*sample(name)).fit_info_
    assert isinstance(info, calibrant.FitInfo)
    assert isinstance(info.converged, bool)
    assert info.message
    assert info.seconds > 0.0
    assert (info.before is None) == (info.after is None)
    json.dumps(asdict(info))
    with pytest.raises(FrozenInstanceError):
        info.converged = False


def test_a_fit_that_does_not_converge_says_so_and_what_to_do():
    logits, labels = sample("vector")
    with pytest.warns(calibrant.CalibrationWarning, match="a larger max_iter or larger penalties"):
        model = calibrant.calibrator("vector", max_iter=1).fit(logits, labels)
    assert not model.fit_info_.converged
    assert model.fit_info_.iterations == 1


def test_the_adaptive_family_tells_how_its_newton_steps_ended(monkeypatch):
    data = calibrant.datasets.load("fashion-mnist-lenet5")
    rows = slice(0, 1000)
    monkeypatch.setattr("calibrant.calibrators.temperature._default_recipe.MAX_ITER", 1)
    with pytest.warns(calibrant.CalibrationWarning, match="after 1 Newton steps the last one"):
        model = calibrant.PTS(penalty=1.0).fit(data.val_logits[rows], data.val_labels[rows])
    assert not model.fit_info_.converged


def test_warnings_point_at_the_callers_line_every_time():
    logits = np.eye(3)[[0, 1, 2]] * 5.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        calibrant.TS().fit(logits, [0, 1, 2])
        calibrant.TS().fit(logits, [0, 1, 2])  # another line: told again
    assert len(caught) == 2
    assert {warning.filename for warning in caught} == {__file__}
    assert caught[0].lineno + 1 == caught[1].lineno


@pytest.mark.parametrize(
    ("model", "preserves"),
    [
        (HistogramBinning(), False),
        (HistogramBinning(mode="top-label"), True),
        (calibrant.PTS(), True),
        (calibrant.PTS(clip_logits=True), False),
        (DiagonalOrderPreserving(), True),
        (DiagonalOrderPreserving(quadrature="authors", nodes=4, hidden=(2,)), False),
    ],
)
def test_whether_accuracy_is_preserved_depends_on_the_parameters(model, preserves):
    assert model.accuracy_preserving is preserves
    fitted = model.fit(*sample("ts", 60))
    assert fitted.accuracy_preserving is preserves
    assert fitted.formula_.keeps_arg_max is preserves


def test_ignored_rows_are_left_out():
    logits, labels = sample("ts")
    marked = np.where(np.arange(200) % 3 == 0, -100, labels)
    kept = marked != -100
    for name in ("ts", "vector"):
        expected = calibrant.calibrator(name).fit(logits[kept], labels[kept]).predict_proba(logits)
        model = calibrant.calibrator(name).fit(logits, marked, ignore_index=-100)
        np.testing.assert_array_equal(model.predict_proba(logits), expected)
    weight = np.linspace(1.0, 2.0, 200)
    weighted = calibrant.TS().fit(logits, marked, weight, ignore_index=-100)
    alone = calibrant.TS().fit(logits[kept], labels[kept], weight[kept])
    assert weighted.temperature_ == alone.temperature_
    with pytest.raises(ValueError, match=r"got -100 at row 0\. -100 marks rows to be left out"):
        calibrant.TS().fit(logits, marked)
    with pytest.raises(ValueError, match="no row is left"):
        calibrant.TS().fit(logits, np.full(200, -100), ignore_index=-100)


def test_a_column_of_labels_is_one_of_rows():
    logits, labels = sample("ts")
    marked = np.where(np.arange(200) % 3 == 0, -100, labels)
    flat, column = (
        calibrant.TS().fit(logits, given, ignore_index=-100) for given in (marked, marked[:, None])
    )
    assert flat.temperature_ == column.temperature_
    with pytest.raises(ValueError, match="must have the same rows"):
        calibrant.TS().fit(logits, marked[:-1], ignore_index=-100)
    profile = calibrant.TemperatureProfile.from_logits(logits, labels)
    with pytest.raises(TypeError, match="a profile holds labels and weights"):
        calibrant.TS().fit(profile, ignore_index=-100)


def test_a_parameter_set_after_the_fit_changes_no_prediction():
    logits, labels = sample("ts")
    model = calibrant.TS().fit(logits, labels)
    before = model.predict_proba(logits)
    model.set_params(input="probs")
    assert model.input_ == "logits"
    np.testing.assert_array_equal(model.predict_proba(logits), before)


def test_every_registered_class_is_reachable():
    for cls in REGISTRY.values():
        assert getattr(calibrant, cls.__name__) is cls


def test_labels_that_are_no_indices_get_a_recipe():
    logits, labels = sample("ts")
    with pytest.raises(
        ValueError, match=r"got 4 at row \d+. If they are 1, 2, .., subtract 1 from each"
    ):
        calibrant.TS().fit(logits, labels + 1)
    with pytest.raises(TypeError, match=r"np.unique\(names, return_inverse=True\)"):
        calibrant.TS().fit(logits, np.array(["cat", "dog", "fish", "cow"])[labels])
    with pytest.raises(ValueError, match=r"give \(labels \+ 1\) // 2"):
        calibrant.TS().fit(logits[:, :2], np.where(labels > 1, 1, -1))


def test_scores_of_pixels_and_tokens_get_the_exact_reshape():
    with pytest.raises(ValueError, match=r"logits.reshape\(-1, 7\) and labels.reshape\(-1\)"):
        calibrant.TS().fit(np.zeros((2, 5, 7)), np.zeros((2, 5)))
    with pytest.raises(ValueError, match=r"np.moveaxis\(logits, 1, -1\).reshape\(-1, 5\)"):
        calibrant.TS().fit(np.zeros((2, 5, 4, 4)), np.zeros((2, 4, 4)))


def test_one_probability_is_that_of_class_one():
    logits, labels = sample("beta")
    probs = 1.0 / (1.0 + np.exp(logits[:, 0] - logits[:, 1]))
    both = np.stack([1.0 - probs, probs], axis=1)
    for name in ("ts", "platt", "irova"):
        one, two = (
            calibrant.calibrator(name, input="probs").fit(given, labels).predict_proba(given)
            for given in (probs, both)
        )
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("rows", "lowest", "highest"),
    [
        (120, 1, 3),
        (60, 0, 4),  # rows of weight 0 are as good as absent
        pytest.param(300, 4, 4, marks=pytest.mark.slow),
        pytest.param(800, 0, 2, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_whole_weights_are_repeated_rows(name, rows, lowest, highest):
    logits, labels = sample(name, rows)
    weight = np.random.default_rng(5).integers(lowest, highest + 1, rows)
    weighted = calibrant.calibrator(name).fit(logits, labels, weight.astype(float))
    repeated = np.repeat(logits, weight, axis=0), np.repeat(labels, weight)
    plain = calibrant.calibrator(name).fit(*repeated)
    # the many minima of diag's network are told apart by rounding
    tolerance = 2e-2 if name == "diag" else 1e-4
    np.testing.assert_allclose(
        weighted.predict_proba(logits), plain.predict_proba(logits), atol=tolerance
    )


def test_the_rule_of_weights():
    whole, other = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 1.5])
    assert effective_rows(whole) == 6.0
    assert effective_rows(other) == pytest.approx(9.0 / 3.5)
    np.testing.assert_array_equal(as_counts(whole), whole)
    np.testing.assert_allclose(as_counts(other), other)
    np.testing.assert_array_equal(copies(whole), whole)
    np.testing.assert_array_equal(copies(other), np.ones(3))
    places = np.array([0.1, 0.5, 0.9])
    values = np.array([3.0, 1.0, 2.0])
    np.testing.assert_array_equal(
        weighted_quantiles(values, whole, places),
        weighted_quantiles(np.repeat(values, [1, 2, 3]), np.ones(6), places),
    )


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_the_threads_of_blas_are_as_before_whoever_ends_last():
    before = blas_threads()

    def work(seed: int) -> None:
        calibrant.calibrator("vector").fit(*sample("vector", 100, seed))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(24)))
    assert blas_threads() == before
    with one_blas_thread():
        work(0)  # enters and leaves while we are inside
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


@pytest.mark.parametrize("step", ["get_num_threads", "set_num_threads"])
@pytest.mark.parametrize("call", range(1, 5))
def test_the_threads_of_blas_are_as_before_wherever_an_interrupt_comes(step, call, monkeypatch):
    before, calls = blas_threads(), []
    library = type(ThreadpoolController().select(user_api="blas").lib_controllers[0])
    done = getattr(library, step)

    def interrupted(self: Any, *values: int) -> Any:
        result = done(self, *values)
        calls.append(step)
        if len(calls) == call:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(library, step, interrupted)
        with suppress(KeyboardInterrupt), one_blas_thread():
            pass
    assert blas_threads() == before
    with one_blas_thread():
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_fork_forgets_the_fits_of_other_threads():
    """The child has their settings, but not the threads that would put them back."""
    before, entered, leave = blas_threads(), threading.Event(), threading.Event()

    def stay() -> None:
        with one_blas_thread():
            entered.set()
            leave.wait()

    other = threading.Thread(target=stay)
    other.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        as_before = blas_threads() == before
        with one_blas_thread():
            inside = set(blas_threads()) == {1}
        os._exit(0 if as_before and inside and blas_threads() == before else 1)
    leave.set()
    other.join()
    assert os.waitpid(child, 0)[1] == 0
    assert blas_threads() == before


def test_no_operation_is_missing_from_the_interpreters():
    from calibrant.backends.onnx._ops import GraphOps
    from calibrant.backends.torch._ops import TorchOps
    from calibrant.formulas._operations import Ops

    wanted = {name for name in vars(Ops) if not name.startswith("_")}
    for interpreter in (NumpyOps(), TorchOps({}), GraphOps(2)):
        assert wanted <= set(dir(interpreter))


def test_a_caller_may_leave_while_its_thread_enters_for_another(monkeypatch):
    before, state = blas_threads(), _OneThread()

    def collecting() -> ThreadpoolController:
        assert state.lock.acquire(blocking=False)  # by what an interrupt left behind
        state.lock.release()
        state.leave("it")
        return ThreadpoolController()

    monkeypatch.setattr("calibrant.common.threads.ThreadpoolController", collecting)
    state.enter("another")
    assert set(blas_threads()) == {1}
    state.leave("another")
    assert blas_threads() == before


def test_the_threads_of_blas_are_as_before_when_another_thread_ends_last():
    before = blas_threads()
    inside, done = threading.Event(), threading.Event()

    def work() -> None:
        with one_blas_thread():
            inside.set()
            done.wait(10.0)

    worker = threading.Thread(target=work)
    with one_blas_thread():
        worker.start()
        inside.wait(10.0)
    assert blas_threads() == before
    done.set()
    worker.join()
    assert blas_threads() == before
