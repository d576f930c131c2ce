"""`predict_proba` beside the softmax of the same array, in turns within one run.

    python benchmarks/bench_predict.py [--budget 3]

Multiples of `scipy.special.softmax`, which uses one thread, on float32 arrays: by machine code
(`calibrant[fast]`) and by NumPy alone, on all cores of this process and on one; and microseconds
for a single row. Every number is the best of what fits into the budget. A line that misses its
target says so.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from scipy.special import softmax

import calibrant
from calibrant.calibrators import Calibrator

SHAPES = ((12_500, 1_000), (5_000, 100), (100_000, 10))
METHODS = ("ts", "ets", "pts")
TARGET = 1.6  # softmaxes, with machine code
ROW_TARGET = 40.0  # microseconds for a row of ten classes
FIT_ROWS = 2_000
Job = Callable[[], object]


def overconfident(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of an over-confident model: the labels follow softmax(z / 1.7)."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((rows, classes)) * 2.5
    noise = rng.gumbel(size=logits.shape)
    return logits.astype(np.float32), np.argmax(logits / 1.7 + noise, axis=1)


def fitted(logits: np.ndarray, labels: np.ndarray) -> dict[str, Calibrator]:
    """The calibrators; how well they fit does not matter here."""
    options = {"pts": {"penalty": 1.0}}
    return {
        name: calibrant.calibrator(name, **options.get(name, {})).fit(
            logits[:FIT_ROWS], labels[:FIT_ROWS]
        )
        for name in METHODS
    }


def best_times(jobs: dict[str, Job], budget: float) -> dict[str, float]:
    """Seconds of the fastest run of each; they take turns, so that all meet the same noise."""
    best = dict.fromkeys(jobs, np.inf)
    for job in jobs.values():
        job()
    end = time.perf_counter() + budget
    while time.perf_counter() < end:
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


@contextmanager
def without_machine_code() -> Iterator[None]:
    """NumPy alone."""
    os.environ["CALIBRANT_KERNELS"] = "0"
    try:
        yield
    finally:
        del os.environ["CALIBRANT_KERNELS"]


@contextmanager
def on_one_core() -> Iterator[None]:
    """One core of those that this process may use; all where the system cannot say."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def ratios(logits: np.ndarray, models: dict[str, Calibrator], budget: float) -> dict[str, float]:
    """Each method's time in softmaxes."""
    jobs: dict[str, Job] = {"softmax": lambda: softmax(logits, axis=1)}
    for name, model in models.items():
        jobs[name] = lambda model=model: model.predict_proba(logits)
    best = best_times(jobs, budget)
    return {name: best[name] / best["softmax"] for name in models}


def batches(budget: float) -> None:
    """A line per shape and method."""
    ways = ("fast", "fast, one core", "NumPy", "NumPy, one core")
    print(f"{'softmaxes':<18}{'method':<8}" + "".join(f"{way:>17}" for way in ways))
    for rows, classes in SHAPES:
        logits, labels = overconfident(rows, classes)
        models = fitted(logits, labels)
        found = [ratios(logits, models, budget)]
        with on_one_core():
            found.append(ratios(logits, models, budget))
        with without_machine_code():
            found.append(ratios(logits, models, budget))
            with on_one_core():
                found.append(ratios(logits, models, budget))
        for name in models:
            cells = "".join(f"{ratio[name]:>17.2f}" for ratio in found)
            print(
                f"{f'{rows:,} x {classes:,}':<18}{name:<8}{cells}{verdict(found[0][name], TARGET)}"
            )


def verdict(value: float, target: float) -> str:
    """Whether a target is met."""
    return f"  (at most {target:g}: {'ok' if value <= target else 'MISSED'})"


def single_row(budget: float) -> None:
    """A row of ten classes."""
    logits, labels = overconfident(FIT_ROWS, 10)
    row = logits[:1].copy()
    jobs: dict[str, Job] = {"softmax": lambda: softmax(row, axis=1)}
    for name, model in fitted(logits, labels).items():
        jobs[name] = lambda model=model: model.predict_proba(row)
    for name, seconds in best_times(jobs, budget).items():
        end = verdict(1e6 * seconds, ROW_TARGET) if name == "pts" else ""
        print(f"{'1 x 10':<18}{name:<8}{1e6 * seconds:>17.1f} microseconds{end}")


def main(arguments: list[str] | None = None) -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=3.0, help="seconds for each shape and way")
    budget = parser.parse_args(arguments).budget
    batches(budget)
    single_row(budget)


if __name__ == "__main__":
    main()
