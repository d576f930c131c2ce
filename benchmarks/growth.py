"""How the time of a fit grows with the rows: every method, 10 classes (2 for those of two alone).

    python benchmarks/growth.py [--rows 1000,10000,100000,1000000] [--methods ts,pts]

Seconds of processor time of a fit, the least of three runs (of one where a run takes over two
seconds), and below them by how much a row of the larger set costs more than one of the smaller set,
beside what N log N allows. "worse" marks a method whose cost per row grows beyond that and half as
much again, for the caches.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from typing import Any

import numpy as np

from calibrant.calibrators import REGISTRY, calibrator

LONG_RUN = 2.0  # seconds from which one run is enough
ALLOWANCE = 1.5
CACHED = 100_000  # rows from which on no set fits in a cache: smaller ones are not held against it


def data(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose over-confidence depends on the gap between the two largest."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((rows, classes)) * rng.gamma(4.0, 0.5, (rows, 1))
    logits[np.arange(rows), rng.integers(classes, size=rows)] += rng.gamma(2.0, 2.5, rows)
    second, first = np.sort(logits, axis=1)[:, -2:].T
    temperature = 0.8 + 1.2 / (1.0 + np.exp(3.0 - (first - second)))
    labels = np.argmax(logits / temperature[:, None] + rng.gumbel(size=logits.shape), axis=1)
    return logits.astype(np.float32), labels


def seconds(model: Any, logits: np.ndarray, labels: np.ndarray) -> float:
    """Processor time of a fit."""
    best = math.inf
    for _ in range(3):
        began = time.process_time()
        model.fit(logits, labels)
        best = min(best, time.process_time() - began)
        if best > LONG_RUN:
            break
    return best


def line(name: str, rows: list[int]) -> bool:
    """One method; whether its last step grows by more than N log N does."""
    classes = 2 if REGISTRY[name].two_classes_only else 10
    model, times = calibrator(name), []
    model.fit(*data(500, classes))  # what a first fit imports is not its time
    for count in rows:
        times.append(seconds(model, *data(count, classes)))
    text = " ".join(f"{value:>10.3f}" for value in times)
    growth = [
        (later / count) / (earlier / before)
        for before, count, earlier, later in zip(rows, rows[1:], times, times[1:], strict=False)
    ]
    allowed = [
        math.log(count) / math.log(before) for before, count in zip(rows, rows[1:], strict=False)
    ]
    worse = any(
        got > ALLOWANCE * limit
        for got, limit, before in zip(growth, allowed, rows, strict=False)
        if before >= CACHED
    )
    ratios = " ".join(f"{value:>6.2f}" for value in growth)
    print(f"{name:<14} {text}   {ratios}{'  worse' if worse else ''}", flush=True)
    return worse


def main(arguments: list[str] | None = None) -> None:
    """Time everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1000,10000,100000,1000000")
    parser.add_argument("--methods", help="comma-separated; left out: all")
    chosen = parser.parse_args(arguments)
    rows = [int(count) for count in chosen.rows.split(",")]
    names = chosen.methods.split(",") if chosen.methods else list(REGISTRY)
    heads = " ".join(f"{count:>10,}" for count in rows)
    print(f"{'rows':<14} {heads}   cost of a row over that in the set before")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        worse = [name for name in names if line(name, rows)]
    print(f"worse than N log N: {', '.join(worse) or 'none'}")


if __name__ == "__main__":
    main()
