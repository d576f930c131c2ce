"""The main jobs, timed as ratios within one run: `make bench`.

Times are the best of a few repetitions; the unit is `scipy.special.softmax` on the same array,
because machines are shared and noisy. A line that misses its target says so.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.special import log_softmax, softmax

import bench_methods
import bench_metrics
import bench_predict
import calibrant
import growth
from calibrant.calibrators import _network as network
from calibrant.calibrators.temperature import _paper_recipe
from calibrant.profile import TemperatureProfile

ROWS, CLASSES = 12_500, 1_000


def best_time(job: Callable[[], object], repetitions: int = 3) -> float:
    """Seconds of the fastest of a few runs."""
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        job()
        times.append(time.perf_counter() - started)
    return min(times)


def overconfident(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits of an over-confident model: the labels follow softmax(z / 1.7)."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((rows, classes)) * 2.5
    noise = rng.gumbel(size=logits.shape)
    return logits.astype(np.float32), np.argmax(logits / 1.7 + noise, axis=1)


def line(name: str, value: float, unit: str, limit: float | None = None, note: str = "") -> None:
    """One result and, where there is one, its target."""
    verdict = (
        "" if limit is None else f"  (at most {limit:g}: {'ok' if value <= limit else 'MISSED'})"
    )
    print(f"{name:<58}{value:>10.3f} {unit}{verdict}  {note}".rstrip(), flush=True)


def imagenet_size(unit: float, logits: np.ndarray, labels: np.ndarray) -> None:
    """Profile and fits at 12,500 x 1000."""
    line(
        "profile",
        best_time(lambda: TemperatureProfile.from_logits(logits, labels)) / unit,
        "softmaxes",
        10,
    )
    whole = best_time(lambda: calibrant.PTS().fit(logits, labels), 2)
    line("profile + default PTS", whole / unit, "softmaxes", 45, f"{whole:.2f} s")
    profile = TemperatureProfile.from_logits(logits, labels)
    line("TS from the profile", best_time(lambda: calibrant.TS().fit(profile)) / unit, "softmaxes")
    line(
        "ETS from the profile", best_time(lambda: calibrant.ETS().fit(profile)) / unit, "softmaxes"
    )


def class_independence() -> None:
    """A fit from a profile must not depend on the number of classes."""
    seconds = {}
    for classes in (1_000, 10_000):
        logits, labels = overconfident(4_000, classes)
        profile = TemperatureProfile.from_logits(logits, labels)
        fit = calibrant.PTS(penalty=15.0)
        seconds[classes] = best_time(lambda fit=fit, profile=profile: fit.fit(profile), 5)
    ratio = max(seconds.values()) / min(seconds.values())
    line("PTS from a profile, 10,000 over 1,000 classes", ratio, "times", 1.3)


def paper_recipe(steps: int) -> None:
    """The published algorithm, all steps, which take the same time for any number of classes."""
    for rows, classes in ((5_000, 10), (5_000, 64), (ROWS, CLASSES)):
        profile = TemperatureProfile.from_logits(*overconfident(rows, classes))
        fit = calibrant.PTS(recipe="paper", steps=steps)
        seconds = best_time(lambda fit=fit, profile=profile: fit.fit(profile), 1)
        name = f'recipe="paper", {steps} steps, {rows:,} x {classes}'
        line(name, seconds, "s", 25 * steps / 100_000)


def many_rows() -> None:
    """Fits from the profile, whose choices a sample makes: all rows only move the solutions."""
    for rows, limits in (
        (100_000, {"pts": 3.0}),
        (1_000_000, {"ts": 0.5, "ets": 1.5, "pts": 12.0}),
    ):
        profile = TemperatureProfile.from_logits(*growth.data(rows, 10))
        for name, limit in limits.items():
            fit = calibrant.calibrator(name)
            seconds = best_time(lambda fit=fit, profile=profile: fit.fit(profile), 2)
            line(f"{name} from the profile of {rows:,} x 10", seconds, "s", limit)
    profile = TemperatureProfile()
    for seed in range(10):
        profile.update(*overconfident(10_000, CLASSES, seed))
    seconds = best_time(lambda: calibrant.PTS().fit(profile), 2)
    line("pts from the profile of 100,000 x 1000", seconds, "s", 3.0)


def plain_adam(logits: np.ndarray, labels: np.ndarray, steps: int, seed: int) -> float:
    """The Brier score that minibatch Adam on the logits themselves reaches: no profile at all."""
    rng = np.random.default_rng(seed)
    logits = logits.astype(np.float64)
    inputs = np.clip(-np.sort(-logits, axis=1)[:, :10], -100.0, 100.0)
    target = np.eye(logits.shape[1])[labels]
    weights, _ = _paper_recipe.draw_start(inputs, (5, 5), rng, False)
    moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
    for step, batch in enumerate(_paper_recipe._batches(len(logits), 1000, steps, rng), start=1):
        gradient = _direct_gradient(weights, inputs[batch], logits[batch], target[batch])
        rate = 5e-5 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        for w, g, (m, v) in zip(weights, gradient, moments, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            w -= rate * m / (np.sqrt(v) + 1e-7)
    temperature = np.clip(np.abs(network.forward(weights, inputs)), 1e-12, 1e12)
    return float(((softmax(logits / temperature[:, None], axis=1) - target) ** 2).sum(1).mean())


def _direct_gradient(
    weights: list[np.ndarray], inputs: np.ndarray, logits: np.ndarray, target: np.ndarray
) -> list[np.ndarray]:
    """Back-propagation of Keras' mean squared error through the softmax of all classes."""
    w1, b1, w2, b2, w3, b3 = weights
    h1 = np.maximum(inputs @ w1 + b1, 0.0)
    h2 = np.maximum(h1 @ w2 + b2, 0.0)
    raw = (h2 @ w3 + b3)[:, 0]
    temperature = np.clip(np.abs(raw), 1e-12, 1e12)
    p = np.exp(log_softmax(logits / temperature[:, None], axis=1))
    d_p = 2.0 * (p - target) / p.size
    d_scaled = p * (d_p - (d_p * p).sum(1, keepdims=True))
    moving = temperature == np.abs(raw)
    d_raw = -(d_scaled * logits).sum(1) / temperature**2 * np.sign(raw) * moving
    d3 = d_raw[:, None]
    d2 = (d3 @ w3.T) * (h2 > 0.0)
    d1 = (d2 @ w2.T) * (h1 > 0.0)
    return [inputs.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ d3, d3.sum(0)]


def paper_against_plain(steps: int) -> None:
    """Fitting from the profile must reach what fitting on the logits reaches."""
    logits, labels = overconfident(5_000, 10)
    plain = plain_adam(logits, labels, steps, seed=0)
    fitted = calibrant.PTS(recipe="paper", steps=steps, random_state=0).fit(logits, labels)
    difference = abs(fitted.fit_info_.after / plain - 1.0)
    line(
        f"paper recipe's loss against plain Adam, 5,000 x 10, {steps} steps",
        100 * difference,
        "%",
        1,
        f"{fitted.fit_info_.after:.6f} and {plain:.6f}",
    )


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the paper recipe's steps")
    steps = 10_000 if parser.parse_args().quick else 100_000
    logits, labels = overconfident(ROWS, CLASSES)
    unit = best_time(lambda: softmax(logits, axis=1), 7)
    line(f"scipy.special.softmax, {ROWS} x {CLASSES} float32 (the unit)", 1000 * unit, "ms")
    imagenet_size(unit, logits, labels)
    class_independence()
    paper_recipe(steps)
    many_rows()
    paper_against_plain(steps)
    print("\nPredictions")
    bench_predict.main([])
    print("\nMetrics")
    bench_metrics.main()
    print("\nMethods")
    bench_methods.main([])
    print("\nGrowth with the rows")
    growth.main([])


if __name__ == "__main__":
    main()
