"""Fit and predict time of every method at two sizes, beside peers where they are installed.

    python benchmarks/bench_methods.py [--sizes 5000x100,12500x1000] [--methods irova,irm]

Peers are timed on the same data in the same run, in a process of their own that is ended when its
time is up; the last column is their time over ours (fit and predict together), so above 1 we are
ahead. Both sides give the better of two runs, or one where a run takes over five seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import calibrant
from calibrant.calibrators import REGISTRY
from peers import PEERS

LONG_RUN = 5.0  # seconds from which one run is enough
TWO_CLASSES = ("platt", "beta")  # what the peers have them for


def data(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Over-confident logits, their softmax, and labels that follow softmax(z / 1.7)."""
    rng = np.random.default_rng(0)
    logits = (rng.standard_normal((rows, classes)) * 2.5).astype(np.float32)
    labels = np.argmax(logits / 1.7 + rng.gumbel(size=logits.shape), axis=1)
    labels[:classes] = np.arange(classes)  # some peers need every class
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return logits, weight / weight.sum(axis=1, keepdims=True), labels


def timed(fit: Callable[[], Any], predict: Callable[[Any], Any]) -> tuple[float, float]:
    """Seconds to fit and to predict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        model = fit()
        fitted = time.perf_counter()
        predict(model)
        return fitted - started, time.perf_counter() - fitted


def better(fit: Callable[[], Any], predict: Callable[[Any], Any]) -> tuple[float, float]:
    """The better of two runs; only one where a run takes long."""
    first = timed(fit, predict)
    return first if sum(first) > LONG_RUN else min(first, timed(fit, predict), key=sum)


def ours(name: str, logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Seconds of our method."""
    model = calibrant.calibrator(name)
    return better(lambda: model.fit(logits, labels), lambda fitted: fitted.predict_proba(logits))


def time_peer(name: str, index: int, rows: int, classes: int) -> None:
    """What the peer's own process does: the two times as a line of JSON."""
    logits, probs, labels = data(rows, classes)
    try:
        result: object = better(*PEERS[name][index].job(logits, probs, labels))
    except Exception as error:  # a peer's trouble is its own, and worth a line
        result = f"{type(error).__name__}: {error}"
    print("\n" + json.dumps(result))


def peer_seconds(name: str, index: int, size: tuple[int, int], limit: float) -> Any:
    """(fit, predict) of a peer, or a sentence on why there is none."""
    call = [sys.executable, __file__, "--peer", name, str(index), *map(str, size)]
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {limit:.0f} s"
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if lines else f"ended with status {done.returncode}"


def show(name: str, size: tuple[int, int], limit: float) -> None:
    """One line for us and one per peer."""
    logits, _, labels = data(*size)
    fit, predict = ours(name, logits, labels)
    print(f"  {name:<14} {fit:>9.3f} {predict:>9.3f}", flush=True)
    for index, peer in enumerate(PEERS.get(name, [])):
        label, note = f"  {peer.package}", f"  ({peer.note})" if peer.note else ""
        if find_spec(peer.package) is None:
            print(f"  {label:<14} not installed", flush=True)
            continue
        seconds = peer_seconds(name, index, size, limit)
        if isinstance(seconds, str):
            print(f"  {label:<14} {seconds[:70]}{note}", flush=True)
            continue
        ratio = sum(seconds) / (fit + predict)
        print(
            f"  {label:<14} {seconds[0]:>9.3f} {seconds[1]:>9.3f} {ratio:>8.1f}x{note}", flush=True
        )


def main(arguments: list[str] | None = None) -> None:
    """Time everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="5000x100,12500x1000")
    parser.add_argument("--methods", help="comma-separated; left out: all")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a peer may take")
    parser.add_argument("--peer", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.peer:
        name, index, rows, classes = chosen.peer
        time_peer(name, int(index), int(rows), int(classes))
        return
    names = chosen.methods.split(",") if chosen.methods else list(REGISTRY)
    for size in chosen.sizes.split(","):
        rows, classes = (int(part) for part in size.split("x"))
        print(f"{rows} x {classes}: seconds to fit and to predict, peer's total over ours")
        for name in names:
            if name not in TWO_CLASSES:
                show(name, (rows, classes), chosen.limit)
    print("5000 x 2")
    for name in [name for name in names if name in TWO_CLASSES]:
        show(name, (5000, 2), chosen.limit)


if __name__ == "__main__":
    main()
