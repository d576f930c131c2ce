"""Our PTS beside the authors' own trained networks.

    python benchmarks/official_runs.py --runs official_runs.json --data FOLDER [--seeds 3]

`official_runs.json` holds the weights, losses and temperatures of the authors' code, trained for
all 100,000 steps on probabilities of five networks (its `about` entry says how); FOLDER holds the
`*_probs.npz` files. Prints how far our temperatures are from theirs with their weights, and how
the paper's recipe trained here ends, with the time of both.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import calibrant

SPLIT_SEED, FITTING_ROWS = 0, 5_000


def halves(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fitting probabilities and labels, and test probabilities, cut as in the authors' runs."""
    with np.load(path, allow_pickle=False) as arrays:
        probs, labels = arrays["probs"], arrays["labels"]
    order = np.random.default_rng(SPLIT_SEED).permutation(len(probs))
    fit = order[:FITTING_ROWS]
    return probs[fit], labels[fit], probs[order[FITTING_ROWS:]]


def train(job: tuple[str, int, int]) -> tuple[float, float]:
    """The fitted Brier score and the seconds of one seed of the paper's recipe."""
    path, seed, steps = job
    probs, labels, _ = halves(Path(path))
    started = time.perf_counter()
    pts = calibrant.PTS(recipe="paper", input="probs", random_state=seed, steps=steps)
    with warnings.catch_warnings():  # class priors that no temperature repairs are no news here
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        pts.fit(probs, labels)
    return pts.fit_info_.after, time.perf_counter() - started


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    runs = json.loads(Path(arguments.runs).read_text())["runs"]
    paths = {name: Path(arguments.data) / f"{name}.npz" for name in runs}
    jobs = [
        (str(p), seed, arguments.steps) for p in paths.values() for seed in range(arguments.seeds)
    ]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = dict(zip(jobs, pool.map(train, jobs), strict=True))
    print(
        f"{'network':<32} {'max |dT|':>9} {'official':>9} {'ours, by seed':>27} "
        f"{'worst diff':>10} {'official s':>10} {'ours s':>7}"
    )
    for name, run in runs.items():
        _, _, test = halves(paths[name])
        ours = calibrant.PTS.from_weights(run["weights"], input="probs").temperature(test[:5])
        distance = np.abs(ours - run["first5_test_rows_T"]).max()
        own = [results[job] for job in jobs if job[0] == str(paths[name])]
        losses = np.array([loss for loss, _ in own])
        worst = np.abs(losses - run["fit_brier"]).max()
        print(
            f"{name:<32} {distance:>9.1e} {run['fit_brier']:>9.5f} "
            f"{' '.join(f'{x:.5f}' for x in losses):>27} {worst:>10.5f} "
            f"{run['seconds_on_two_shared_cores']:>10.0f} {np.mean([s for _, s in own]):>7.0f}"
        )


if __name__ == "__main__":
    main()
