"""This tree against another revision of it: the same jobs, in turns, as ratios.

    python benchmarks/against.py REVISION [--jobs TEXT] [--rounds 5]

Two processes do every job in turns, the best of the rounds counts, and the table shows the time of
this tree over that of the revision: above 1.10 a row is slower than noise explains.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SIZES = ((5_000, 100), (12_500, 1000))
SMALL = (100_000, 10)
TWO_CLASSES = ("platt", "beta")
LIMIT = 1.10
PAUSE = 0.1  # seconds


def data(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident logits of some size."""
    rng = np.random.default_rng(0)
    logits = (3.0 * rng.standard_normal((rows, classes))).astype(np.float32)
    labels = (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels


def jobs() -> Iterator[tuple[str, Callable[[], Callable[[], Any]]]]:
    """Name and maker of every job: making it (data, fits) is not timed, and done when wanted."""
    from calibrant.calibrators import REGISTRY

    for size in SIZES:
        for name in REGISTRY:
            if name not in TWO_CLASSES:
                yield from method_jobs(name, size)
        yield from other_jobs(size)
    for name in ("ts", "ets", "pts", "vector", "diag", "irm", "spline"):
        yield predict_job(name, SMALL)
    for name in TWO_CLASSES:
        yield from method_jobs(name, (5_000, 2))


def fitted(name: str, logits: np.ndarray, labels: np.ndarray) -> Any:
    """A fitted calibrator."""
    from calibrant.calibrators import calibrator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator(name).fit(logits, labels)


def method_jobs(name: str, size: tuple[int, int]) -> Iterator[Any]:
    """Fit and predict."""

    def fit() -> Callable[[], Any]:
        logits, labels = data(*size)
        return lambda: fitted(name, logits, labels)

    yield f"fit {name} {size[0]} x {size[1]}", fit
    yield predict_job(name, size)


def predict_job(name: str, size: tuple[int, int]) -> Any:
    """Predict, fitted on few rows."""

    def predict() -> Callable[[], Any]:
        logits, labels = data(*size)
        model = fitted(name, logits[:5000], labels[:5000])
        return lambda: model.predict_proba(logits)

    return f"predict {name} {size[0]} x {size[1]}", predict


def other_jobs(size: tuple[int, int]) -> Iterator[Any]:
    """The profile, metrics and modules."""
    text = f"{size[0]} x {size[1]}"

    def profile() -> Callable[[], Any]:
        from calibrant import TemperatureProfile

        logits, labels = data(*size)
        return lambda: TemperatureProfile.from_logits(logits, labels)

    yield f"profile {text}", profile
    for name in ("ece", "classwise_ece", "smooth_ece", "kde_ece", "brier", "nll", "evaluate"):
        yield f"{name} {text}", lambda name=name: metric_job(name, size)
    for name in ("ts", "pts", "matrix", "irm", "spline"):
        yield f"module {name} {text}", lambda name=name: module_job(name, size)


def metric_job(name: str, size: tuple[int, int]) -> Callable[[], Any]:
    """One metric, or all of them, of uncalibrated probabilities."""
    import calibrant

    logits, labels = data(*size)
    probs = calibrant.Uncalibrated().fit(logits, labels).predict_proba(logits)
    function = calibrant.evaluate if name == "evaluate" else getattr(calibrant.metrics, name)
    return lambda: function(probs, labels)


def module_job(name: str, size: tuple[int, int]) -> Callable[[], Any]:
    """A calibrator as a module of PyTorch."""
    import torch

    from calibrant.torch import to_module

    logits, labels = data(*size)
    module, tensor = to_module(fitted(name, logits[:2000], labels[:2000])), torch.asarray(logits)
    return lambda: module(tensor)


def serve(pattern: str) -> None:
    """Name a job, wait for a line, do it, tell the seconds; again until told to go on."""
    for name, make in jobs():
        if pattern not in name:
            continue
        job = make()
        print(name, flush=True)
        while sys.stdin.readline().strip() == "again":
            began = time.perf_counter()
            job()
            print(time.perf_counter() - began, flush=True)


@contextmanager
def worker(tree: Path, pattern: str) -> Iterator[subprocess.Popen[str]]:
    """This program in another process, with the calibrant of a tree."""
    command = [sys.executable, __file__, "--serve", "--jobs", pattern]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        yield process
        process.terminate()


def ask(process: subprocess.Popen[str], line: str) -> str:
    """Say a line, and hear one."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def timed_round(pair: tuple[Any, Any], number: int) -> list[float]:
    """Seconds of both, who begins in turns; a pause, as threads of BLAS spin after their work."""
    seconds = [0.0, 0.0]
    for index in (0, 1) if number % 2 else (1, 0):
        time.sleep(PAUSE)
        seconds[index] = float(ask(pair[index], "again"))
    return seconds


def compare(other: Path, pattern: str, rounds: int) -> list[tuple[str, float, float]]:
    """Job, best seconds of the other tree, best seconds of this one."""
    result = []
    with worker(other, pattern) as old, worker(ROOT, pattern) as new:
        assert old.stdout is not None
        assert new.stdout is not None
        name, same = old.stdout.readline().strip(), new.stdout.readline().strip()
        while name:
            assert name == same, f"the trees name other jobs: {name} and {same}"
            times = [timed_round((old, new), number) for number in range(rounds)]
            before, after = np.min(times, axis=0)
            result.append((name, float(before), float(after)))
            print(
                f"{name:34} {1e3 * before:10.2f} {1e3 * after:10.2f} {after / before:6.2f}",
                flush=True,
            )
            name, same = ask(old, "next"), ask(new, "next")
    return result


def main() -> None:
    """Check the revision out, compare, and name what is slower."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("revision", nargs="?", default="HEAD~1")
    line.add_argument("--jobs", default="", help="only jobs whose names hold this text")
    line.add_argument("--rounds", type=int, default=5)
    line.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = line.parse_args()
    if options.serve:
        serve(options.jobs)
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", tree, options.revision], check=True)
        try:
            print(f"{'job':34} {'before ms':>10} {'after ms':>10} {'ratio':>6}")
            result = compare(tree, options.jobs, options.rounds)
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)
    slower = [name for name, before, after in result if after > LIMIT * before]
    print(f"slower by more than {LIMIT - 1:.0%}: {', '.join(slower) or 'none'}")


if __name__ == "__main__":
    main()
