"""Objects that threads share: no row is lost, and copies go on by themselves."""

from __future__ import annotations

import _thread
import contextlib
import copy
import gc
import pickle
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from calibrant import CalibrationMonitor, TemperatureProfile, metrics
from calibrant.common.threads import OwnLock, mapping
from calibrant.metrics import CalibrationMeter
from calibrant.metrics.meter import ConfidenceMeter

THREADS = 16
CALLS = 10  # of each thread
ROWS = 6  # of each call
TOTAL = THREADS * CALLS * ROWS

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(TOTAL, 4))
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
LABELS = RNG.integers(0, 4, TOTAL)


def on_threads(update: Callable[[slice], Any]) -> None:
    """All threads begin together, and each calls ``update`` with some rows after others."""
    start = threading.Barrier(THREADS)

    def work(number: int) -> None:
        start.wait()
        for call in range(CALLS):
            first = ROWS * (CALLS * number + call)
            update(slice(first, first + ROWS))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


# --- every row is counted once ----------------------------------------------------------------


@pytest.mark.parametrize("window", [100, timedelta(hours=1)])
def test_a_monitor(window: Any) -> None:
    """Every window is reported once, and the windows follow one another."""
    time = {} if window == 100 else {"time": datetime(2026, 3, 1, tzinfo=UTC)}
    told: list[Any] = []
    monitor = CalibrationMonitor(window, on_window=told.append)

    def update(part: slice) -> None:
        monitor.update(PROBS[part], LABELS[part], **time)
        monitor.to_jsonl()
        CalibrationMonitor.from_json(monitor.to_json())

    on_threads(update)
    monitor.close()
    assert sum(w.n_rows for w in monitor.windows) == TOTAL
    assert [w.index for w in monitor.windows] == list(range(len(monitor.windows)))
    assert sorted(told, key=lambda w: w.index) == monitor.windows
    accuracy = sum(w.accuracy * w.n_rows for w in monitor.windows) / TOTAL
    assert accuracy == pytest.approx(metrics.accuracy(PROBS, LABELS))


def test_a_meter() -> None:
    meter = CalibrationMeter()

    def update(part: slice) -> None:
        meter.update(PROBS[part], LABELS[part])
        CalibrationMeter.from_state(*meter.to_state()).merge(meter).compute()

    on_threads(update)
    whole = CalibrationMeter().update(PROBS, LABELS)
    np.testing.assert_array_equal(meter.counts, whole.counts)
    np.testing.assert_allclose(meter.sums, whole.sums, rtol=1e-9, atol=1e-9)


def test_a_meter_of_confidences() -> None:
    confidences, predictions = PROBS.max(axis=1), PROBS.argmax(axis=1)
    meter = ConfidenceMeter()

    def update(part: slice) -> None:
        meter.update(confidences[part], predictions[part], LABELS[part])
        meter.merge(meter).compute()

    on_threads(update)
    assert meter.compute().n_rows == TOTAL
    assert meter.compute().n_classes == 4


def test_a_profile() -> None:
    """Reading joins the blocks of rows, which must not lose those that come meanwhile."""
    profile = TemperatureProfile()

    def update(part: slice) -> None:
        profile.update(LOGITS[part], LABELS[part], n_jobs=1)
        _ = profile.nbytes

    on_threads(update)
    whole = TemperatureProfile.from_logits(LOGITS, LABELS)
    assert len(profile) == TOTAL
    assert profile.nll(1.5) == pytest.approx(whole.nll(1.5))


@pytest.mark.parametrize("make", [CalibrationMeter, TemperatureProfile])
def test_threads_must_agree_about_the_classes(make: Callable[[], Any]) -> None:
    """The first rows come at once: those of the other number of classes are refused."""
    shared = make()
    refused: list[str] = []

    def update(part: slice) -> None:
        classes = 4 if part.start < TOTAL // 2 else 3
        scores = PROBS[part, :classes] / PROBS[part, :classes].sum(axis=1, keepdims=True)
        kind = {"input": "probs"} if make is TemperatureProfile else {}
        try:
            shared.update(scores, LABELS[part] % 3, **kind)
        except ValueError as error:
            refused.append(str(error))

    on_threads(update)
    assert len(refused) == THREADS * CALLS // 2
    assert all("classes" in message for message in refused)
    n_rows = len(shared) if make is TemperatureProfile else shared.compute().n_rows
    assert n_rows == TOTAL // 2


# --- locks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_a_lock_of_its_own(copied: Callable[[Any], Any]) -> None:
    """It goes on while another thread holds that of the original."""
    for one in (
        CalibrationMeter().update(PROBS, LABELS),
        TemperatureProfile.from_probs(PROBS, LABELS),
        CalibrationMonitor(),
    ):
        with one._lock, ThreadPoolExecutor(1) as pool:
            other = copied(one)
            kind = {"input": "probs"} if isinstance(one, TemperatureProfile) else {}
            pool.submit(other.update, PROBS, LABELS, **kind).result(timeout=60)
        assert type(other) is type(one)


def test_locks_are_open_after_a_fork() -> None:
    lock = OwnLock()
    holder = threading.Thread(target=lock.__enter__)
    holder.start()
    holder.join()
    OwnLock.renew_all()  # what the new process does, in which that thread does not exist
    with lock, lock:
        pass


# --- a map on threads ---------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    def slow_first(item: int) -> int:
        time.sleep(0.02 if item == 0 else 0.0)
        return item * item

    with mapping(threads) as on_threads:
        assert list(on_threads(slow_first, range(20))) == [item * item for item in range(20)]
        assert list(on_threads(abs, [])) == []


def test_an_error_is_raised_in_its_place_and_threads_end() -> None:
    before = _thread._count()

    def fail_at_3(item: int) -> int:
        if item == 3:
            raise ValueError("three")
        return item

    found = []
    with pytest.raises(ValueError, match="three"), mapping(2) as on_threads:
        found.extend(on_threads(fail_at_3, range(1000)))
    with mapping(2) as on_threads:
        results = on_threads(fail_at_3, range(3))
        assert next(results) == 0  # the others need not be waited for
    deadline = time.perf_counter() + 5.0
    while _thread._count() > before and time.perf_counter() < deadline:
        time.sleep(0.01)
    assert _thread._count() <= before


def test_interrupts_at_any_moment_leave_no_thread_waiting() -> None:
    """Ctrl-C arrives at many moments of short maps; each ends, and the next one works."""

    armed = [False]

    def interrupt(number: int, frame: object) -> None:
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # what is raised in a callback of the collector is lost, and pytest says so
    try:
        for step in range(300):
            with contextlib.suppress(KeyboardInterrupt):
                try:
                    armed[0] = True
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 + step * 2e-6)
                    with mapping(2) as on_threads:
                        list(on_threads(abs, range(50)))
                finally:
                    armed[0] = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        gc.enable()
        signal.signal(signal.SIGALRM, before)
    with mapping(2) as on_threads:
        assert sum(on_threads(abs, range(10))) == 45
