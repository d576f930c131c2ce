"""The published recipe of PTS by machine code and by NumPy, one after the other in one run.

    python benchmarks/published_recipe.py [--steps 20000] [--repeats 3]

Prints the seconds of both for 100,000 steps (what a fit takes), their ratio, and how far the losses
of the two fits are apart. A profile of 10 classes keeps gaps, one of more than 64 classes nodes.
Both are timed from the profile on, by the processor's time of one thread, the best of all repeats.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import calibrant
from calibrant.backends.numba.compiler import has_machine_code
from calibrant.calibrators.temperature._paper_recipe import MUCH_WORK

PUBLISHED_STEPS = 100_000
ROWS = 12_500


def rows(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of rows of different spread, with labels drawn from them at a temperature of 1.7."""
    rng = np.random.default_rng(classes)
    logits = rng.normal(size=(ROWS, classes)) * rng.uniform(2.0, 5.0, (ROWS, 1))
    scaled = logits / 1.7
    labels = np.argmax(scaled + rng.gumbel(size=logits.shape), axis=1)
    return logits.astype(np.float32), labels


def timed(profile: calibrant.TemperatureProfile, steps: int, kernels: str) -> tuple[float, float]:
    """The seconds of a fit and the loss that it reached."""
    os.environ["CALIBRANT_KERNELS"] = kernels
    started = time.process_time()
    fitted = calibrant.PTS(recipe="paper", random_state=0, steps=steps).fit(profile)
    return time.process_time() - started, float(fitted.fit_info_.after)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if not has_machine_code() or options.steps * 1000 < MUCH_WORK:
        parser.error(
            "this needs Numba, and as many steps as are worth machine code (4,200 or more)"
        )
    print(f"{'classes':>8} {'NumPy s':>8} {'code s':>8} {'ratio':>6} {'losses apart by':>16}")
    for classes in (10, 100, 1000):
        profile = calibrant.TemperatureProfile.from_logits(*rows(classes))
        timed(profile, options.steps, "1")  # compile, or load what was compiled
        pairs = [
            [timed(profile, options.steps, kernels) for kernels in ("0", "1")]
            for _ in range(options.repeats)
        ]
        numpy, code = (min(pair[side][0] for pair in pairs) for side in (0, 1))
        apart = abs(pairs[0][0][1] - pairs[0][1][1])
        scale = PUBLISHED_STEPS / options.steps
        line = f"{classes:>8} {scale * numpy:>8.1f} {scale * code:>8.1f} {numpy / code:>6.2f}"
        print(f"{line} {apart:>16.1e}", flush=True)


if __name__ == "__main__":
    main()
