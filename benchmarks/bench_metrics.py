"""The metrics, timed as ratios within one run.

    python benchmarks/bench_metrics.py [--rows 10000000]

ECE beside three weighted `np.bincount` calls on the same confidences, SmoothECE beside relplot's
(where that is installed), and a `CalibrationMeter` with the memory that it took at its peak. A
line that misses its target says so.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from calibrant.metrics import BinStats, CalibrationMeter, kde_ece, smooth_ece

ECE_TARGET = 3.0  # times three weighted bincounts
SMOOTH_TARGET = 5.0  # times faster than relplot
KERNEL_ROWS = 1_000_000
CHUNK = 100_000


def best_time(job: Callable[[], object], repetitions: int = 3) -> float:
    """Seconds of the fastest of a few runs."""
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        job()
        times.append(time.perf_counter() - started)
    return min(times)


def confidences(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences of a slightly over-confident model, and its hits."""
    rng = np.random.default_rng(0)
    confidence = rng.beta(5.0, 1.5, rows)
    return confidence, rng.random(rows) < confidence**1.05


def two_classes(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels with these top-label confidences (where they exceed one half)."""
    top = np.maximum(confidence, 1.0 - confidence)
    return np.stack([top, 1.0 - top], axis=1), np.where(correct, 0, 1)


def verdict(met: bool) -> str:
    """What a line ends with."""
    return "" if met else "   MISSED"


def bench_ece(rows: int) -> str:
    """ECE from confidences, in units of three weighted bincounts with the bins given."""
    confidence, correct = confidences(rows)
    index = np.minimum((confidence * 15.0).astype(np.intp), 14)
    columns = (np.ones(rows), confidence, correct.astype(np.float64))
    unit = best_time(lambda: [np.bincount(index, column, 15) for column in columns])
    own = best_time(lambda: BinStats.from_confidence(confidence, correct, 15).error())
    ratio = own / unit
    return (
        f"ECE of {rows:,} confidences: {own:.3f} s = {ratio:.2f} times three weighted bincounts "
        f"(target: at most {ECE_TARGET:g}){verdict(ratio <= ECE_TARGET)}"
    )


def bench_kernels(rows: int) -> list[str]:
    """SmoothECE beside relplot's, and KDE-ECE."""
    confidence, correct = confidences(rows)
    probs, labels = two_classes(confidence, correct)
    top, hits = probs[:, 0].copy(), (labels == 0).astype(np.float64)
    own = best_time(lambda: smooth_ece(probs, labels, notion="confidence"))
    kde = best_time(lambda: kde_ece(probs, labels))
    lines = [f"KDE-ECE of {rows:,} rows: {kde:.3f} s (target: under 1 s){verdict(kde < 1.0)}"]
    try:
        import relplot
    except ImportError:
        return [f"SmoothECE of {rows:,} rows: {own:.3f} s (relplot is not installed)", *lines]
    theirs = best_time(lambda: relplot.smECE(top, hits), 2)
    difference = abs(smooth_ece(probs, labels, notion="confidence") - relplot.smECE(top, hits))
    met = theirs / own >= SMOOTH_TARGET and difference <= 1e-4
    smooth = (
        f"SmoothECE of {rows:,} rows: {own:.3f} s, {theirs / own:.0f} times faster than relplot "
        f"(target: at least {SMOOTH_TARGET:g}), {difference:.1e} apart (target: 1e-4){verdict(met)}"
    )
    return [smooth, *lines]


def bench_meter(rows: int) -> str:
    """A stream of ten classes in chunks, and the most memory that the meter took beside them."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(10, 0.3), CHUNK).astype(np.float32)
    labels = rng.integers(0, 10, CHUNK)
    meter = CalibrationMeter()
    peaks = []
    tracemalloc.start()
    started = time.perf_counter()
    for first in (True, False):
        tracemalloc.reset_peak()
        for _ in range(1 if first else rows // CHUNK - 1):
            meter.update(probs, labels)
        peaks.append(tracemalloc.get_traced_memory()[1] / 2**20)
    seconds = time.perf_counter() - started
    tracemalloc.stop()
    met = peaks[1] < 1.2 * peaks[0] + 4.0
    return (
        f"CalibrationMeter over {meter.compute().n_rows:,} rows of 10 classes: {seconds:.1f} s, "
        f"peak {peaks[1]:.0f} MiB ({peaks[0]:.0f} MiB after the first {CHUNK:,}), "
        f"state {(meter.sums.nbytes + meter.counts.nbytes) / 2**20:.1f} MiB{verdict(met)}"
    )


def main(rows: int = 10_000_000) -> None:
    """Print the lines."""
    print(bench_ece(rows))
    for line in bench_kernels(min(rows, KERNEL_ROWS)):
        print(line)
    print(bench_meter(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    main(parser.parse_args().rows)
