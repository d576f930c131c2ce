"""Many threads and processes at once: the process is as before, and everybody's answer is right."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
import numpy as np

import calibrant
from interrupted_fits import rows_for
from process_state import ProcessState
from tally import Tally

# Those that set the threads of BLAS, those that warn, and those that run on threads of their own.
METHODS = ("pts", "diag", "matrix", "svs", "irova", "pbmc", "ts", "spline")


def predictions(method: str) -> np.ndarray:
    """What a method makes of some rows."""
    logits, labels = rows_for(1)
    return np.asarray(calibrant.calibrator(method).fit(logits, labels).predict_proba(logits))


def comparison(method: str) -> np.ndarray:
    """The same by way of ``compare``, which collects what fits warn of."""
    logits, labels = rows_for(1)
    result = calibrant.compare(logits, labels, logits, labels, methods=[method])[0]
    return np.array([result.nll, result.ece])


def attack_threads(rounds: int, threads: int, function: Callable[[str], np.ndarray]) -> Tally:
    """So many threads and this one fit at once, begin together and end as they please."""
    tally = Tally(f"rounds of {threads} threads, {function.__name__}: state and answers")
    known = {method: function(method) for method in METHODS}
    for _ in range(rounds):
        state = ProcessState.now()
        start = threading.Barrier(threads + 1)

        def work(number: int, start: threading.Barrier = start) -> bool:
            method = METHODS[number % len(METHODS)]
            start.wait()
            return np.array_equal(function(method), known[method])

        with ThreadPoolExecutor(threads) as pool:
            answers = pool.map(work, range(threads))
            right = [work(threads), *answers]
        left = state.left_changed()
        if left:
            state.put_back()
        tally.count(left or (None if all(right) else f"{right.count(False)} wrong answers"))
    return tally


def attack_processes(rounds: int) -> Tally:
    """Fork, spawn and loky, while other threads fit: every process answers, and rightly."""
    tally = Tally("fork, spawn and loky while eight threads fit")
    known = {method: predictions(method) for method in METHODS}
    for _ in range(rounds):
        stop = threading.Event()
        busy = [threading.Thread(target=_fit_until, args=(stop,)) for _ in range(8)]
        for thread in busy:
            thread.start()
        try:
            for way in ("fork", "spawn", "loky"):
                tally.count(_answers_of(way, known))
        finally:
            stop.set()
            for thread in busy:
                thread.join()
    return tally


def _fit_until(stop: threading.Event) -> None:
    while not stop.is_set():
        for method in ("pts", "svs"):
            predictions(method)


def _answers_of(way: str, known: dict[str, np.ndarray]) -> str | None:
    if way == "loky":
        answers = joblib.Parallel(2)(joblib.delayed(predictions)(method) for method in METHODS)
    else:
        with warnings.catch_warnings():  # later Pythons warn of threads beside a fork
            warnings.simplefilter("ignore", DeprecationWarning)
            with multiprocessing.get_context(way).Pool(2) as pool:
                try:
                    answers = pool.map_async(predictions, METHODS).get(120)
                except multiprocessing.TimeoutError:
                    return f"{way}: no answer in 120 s"
    wrong = [m for m, a in zip(METHODS, answers, strict=True) if not _near(a, known[m])]
    return f"{way}: wrong answers of {', '.join(wrong)}" if wrong else None


def _near(answer: Any, known: np.ndarray) -> bool:
    """The same up to rounding: BLAS may have other threads in another process."""
    return bool(np.allclose(answer, known, rtol=0.0, atol=1e-6))
