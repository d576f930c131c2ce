"""How often does a calibrator do harm with few rows? A thousand random small problems.

    python benchmarks/small.py [--problems 1000] [--methods ts,pts,auto] [--rows 20,1000]

Every problem has its own number of classes, accuracy, rare classes, miscalibration (over- or
under-confident, a wrong prior, noise per row, or none at all) and rows to fit on; it is judged on
20,000 rows of its own. Printed are the mean ratio of the NLL to that of the uncalibrated scores,
the worst one, how many are more than 2% and 5% above it, how many are more than 0.02 nats above it,
and the most that one is above it, in thousandths of a nat.
"""

from __future__ import annotations

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

# One core a process: the processes are the parallelism here. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.special import log_softmax

import calibrant
from calibrant.calibrators import REGISTRY, calibrator

TEST_ROWS = 20_000
METHODS = "ts,ets,svs,pts,mpts,auto"
HARM = (1.02, 1.05)  # NLL over that of the uncalibrated scores
HARM_NATS = 0.02  # and less that of the uncalibrated scores


@dataclass(frozen=True)
class Outcome:
    """One method on one problem."""

    problem: int
    rows: int
    classes: int
    method: str
    ratio: float
    more: float  # in nats
    choice: str


def problem(seed: int, smallest: int, largest: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Logits, labels and how many rows to fit on."""
    rng = np.random.default_rng(seed)
    rows = int(np.exp(rng.uniform(np.log(smallest), np.log(largest))))
    classes = int(rng.choice([2, 2, 3, 5, 10, 30]))
    size = (rows + TEST_ROWS, classes)
    prior = np.log(rng.dirichlet(np.full(classes, rng.choice([1.0, 10.0]))) + 1e-3)
    true = rng.uniform(0.5, 4.0) * rng.normal(size=size) + prior
    labels = (true + rng.gumbel(size=size)).argmax(axis=1)
    kind = rng.choice(["calibrated", "temperature", "prior", "noise"])
    logits = true
    if kind == "temperature":
        logits = true * np.exp(rng.normal(0.3, 0.5))
    elif kind == "prior":  # as class weights do
        logits = (true - prior) * np.exp(rng.normal(0.0, 0.3))
    elif kind == "noise":
        logits = true + rng.uniform(0.2, 1.5) * rng.normal(size=size)
    return logits, labels, rows


def nll(log_probs: np.ndarray, labels: np.ndarray) -> float:
    """The mean negative log likelihood."""
    return float(-log_probs[np.arange(len(labels)), labels].mean())


def run(task: tuple[int, int, int, tuple[str, ...]]) -> list[Outcome]:
    """All methods on one problem."""
    seed, smallest, largest, methods = task
    logits, labels, rows = problem(seed, smallest, largest)
    plain = nll(log_softmax(logits[rows:], axis=1), labels[rows:])
    found = []
    for method in methods:
        if REGISTRY[method].two_classes_only and logits.shape[1] != 2:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", calibrant.CalibrationWarning)
            model = calibrator(method).fit(logits[:rows], labels[:rows])
        loss = nll(np.asarray(model.predict_log_proba(logits[rows:])), labels[rows:])
        choice, classes = getattr(model, "method_", ""), logits.shape[1]
        found.append(Outcome(seed, rows, classes, method, loss / plain, loss - plain, choice))
    return found


def show(title: str, found: list[Outcome], console: Console) -> None:
    """A line per method."""
    table = Table(title=title, title_justify="left")
    limits = (f"> {limit:g}" for limit in HARM)
    for column in ("method", "mean ratio", "worst", *limits, "> 20 mnat", "worst mnat"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in dict.fromkeys(one.method for one in found):
        ratio = np.array([one.ratio for one in found if one.method == method])
        more = np.array([one.more for one in found if one.method == method])
        harmed = [f"{(ratio > limit).sum()} of {len(ratio)}" for limit in HARM]
        harmed += [f"{np.mean(more > HARM_NATS):.1%}", f"{1000.0 * more.max():+.0f}"]
        table.add_row(method, f"{np.exp(np.log(ratio).mean()):.3f}", f"{ratio.max():.2f}", *harmed)
    console.print(table)


def main() -> None:
    """Make the problems, fit, count the harm."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--methods", default=METHODS, help="comma-separated")
    parser.add_argument("--rows", default="20,1000", help="the fewest and the most to fit on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    smallest, largest = (int(part) for part in arguments.rows.split(","))
    methods = tuple(arguments.methods.split(","))
    work = [(seed, smallest, largest, methods) for seed in range(arguments.problems)]
    console = Console(width=110)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = list(track(pool.map(run, work), total=len(work), description="problems"))
    found = [one for result in results for one in result]
    for low, high in ((0, 50), (50, 200), (200, 10**9)):
        part = [one for one in found if low <= one.rows < high]
        if part:
            show(f"{low} to {high} rows" if high < 10**9 else f"from {low} rows", part, console)
    show("all problems", found, console)


if __name__ == "__main__":
    main()
