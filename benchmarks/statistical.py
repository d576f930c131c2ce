"""Do tests of calibration keep their level, and what do they find? Simulations with known truth.

    python benchmarks/statistical.py [--only power] [--quick] [--simulations 100] [--jobs 2]

Section "power": how often each test rejects at the 1% and the 5% level. The first rows are
calibrated models, where the share should be the level; the others have a known fault.
Section "parts": what scores are made of, of calibrated models and others. Section "coverage": how
many 95% intervals of calibration errors hold the true error. Section "paired": how often two
calibrated models are told apart at the 5% level.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

# One core a process: the processes are the parallelism here. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.special import softmax

from calibrant import decompose, metrics
from intervals import coverage, paired

DRAWS = 199
LEVELS = (0.01, 0.05)
SHARPNESS = {2: 1.5, 10: 2.0, 100: 3.0}  # the deviation of the logits
SHIFT = {2: 0.3, 10: 0.6, 100: 1.5}  # of class 1's logit
SCATTER = {2: 0.25, 10: 0.3, 100: 0.5}  # of all classes' logits


# --- problems ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """A kind of model, and how many classes and rows it is judged on."""

    fault: str
    classes: int
    rows: int

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities and labels."""
        rng = np.random.default_rng([seed, self.classes, self.rows])
        true = SHARPNESS[self.classes] * rng.normal(size=(self.rows, self.classes))
        if self.fault == "calibrated, rare":  # class 1 has about 1% of the rows
            true[:, 1] = true[:, 0] + rng.normal(-5.3, 1.2, self.rows)
        labels = (true + rng.gumbel(size=true.shape)).argmax(axis=1)
        return softmax(FAULTS[self.fault](true), axis=1), labels


def _same(logits: np.ndarray) -> np.ndarray:
    return logits


def _times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda logits: logits * factor


def _shifted(logits: np.ndarray) -> np.ndarray:
    """Class 1 promised too often."""
    offset = np.zeros(logits.shape[1])
    offset[1] = SHIFT[logits.shape[1]]
    return logits + offset


def _scattered(logits: np.ndarray) -> np.ndarray:
    """Some classes promised too often, others not often enough."""
    classes = logits.shape[1]
    return logits + SCATTER[classes] * np.random.default_rng(5).normal(size=classes)


def _wavy(logits: np.ndarray) -> np.ndarray:
    """The top label promised too much and too little, by turns of 0.1 of its confidence."""
    turn = (softmax(logits, axis=1).max(axis=1) * 10.0).astype(int) % 2
    wrong = logits.copy()
    wrong[np.arange(len(logits)), logits.argmax(axis=1)] += np.where(turn == 0, 0.5, -0.5)
    return wrong


FAULTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "calibrated": _same,
    "calibrated, rare": _same,
    "temperature 0.8": _times(1.0 / 0.8),
    "temperature 1.25": _times(1.0 / 1.25),
    "class 1 shifted": _shifted,
    "classes scattered": _scattered,
    "local": _wavy,
}


# --- size and power ---------------------------------------------------------------------------

Judge = Callable[[np.ndarray, np.ndarray, int], float]


def _resampled(name: str) -> Judge:
    """The consistency test of a calibration error."""
    return lambda p, y, seed: (
        metrics.calibration_test(p, y, name, n_resamples=DRAWS, random_state=seed).p_value
    )


TESTS: dict[str, Judge] = {
    "omnibus": lambda p, y, s: (
        metrics.omnibus_test(p, y, n_resamples=DRAWS, random_state=s).p_value
    ),
    "omnibus, conf.": lambda p, y, s: (
        metrics.omnibus_test(p, y, notion="confidence", n_resamples=DRAWS, random_state=s).p_value
    ),
    "SKCE": lambda p, y, s: metrics.skce_test(p, y, n_resamples=DRAWS, random_state=s).p_value,
    "Spiegelhalter": lambda p, y, _: metrics.spiegelhalter_test(p, y).p_value,
    "Kuiper": lambda p, y, _: metrics.kuiper_test(p, y).p_value,
    "KS": lambda p, y, _: metrics.ks_test(p, y).p_value,
    "Cox": lambda p, y, _: metrics.cox_test(p, y).p_value,
    "Kuiper, classwise": lambda p, y, _: metrics.kuiper_test(p, y, notion="classwise").p_value,
    "ECE": _resampled("ece"),
    "MCE": _resampled("mce"),
}


def _p_values(task: tuple[Problem, int]) -> list[float]:
    """The p-value of every test on one drawn set."""
    problem, seed = task
    probs, labels = problem.draw(seed)
    return [test(probs, labels, seed) for test in TESTS.values()]


def power(console: Console, simulations: int, quick: bool, jobs: int) -> None:
    """Print how often each test rejects, at 1% / 5%, in percent."""
    sizes = [(2, 300), (10, 300)] if quick else [(c, n) for c in (2, 10, 100) for n in (300, 2000)]
    problems = [
        Problem(fault, classes, rows)
        for classes, rows in sizes
        for fault in FAULTS
        if classes == 2 or fault != "calibrated, rare"
    ]
    number = {300: simulations, 2000: max(1, simulations // 2)}  # the larger ones take longer
    tasks = [(problem, seed) for problem in problems for seed in range(number[problem.rows])]
    with ProcessPoolExecutor(jobs) as pool:
        found = pool.map(_p_values, tasks, chunksize=5)
        values = list(track(found, "simulating", len(tasks), console=Console(stderr=True)))
    table = Table(title=f"rejected at 1% / 5%, in percent of {simulations} simulations")
    if not quick:
        table.caption = f"with 2,000 rows {number[2000]} simulations"
    for heading in ("model", "classes", "rows", *TESTS):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for problem in problems:
        part = [p for p, (of, _) in zip(values, tasks, strict=True) if of == problem]
        shares = [100.0 * (np.array(part) <= level).mean(axis=0) for level in LEVELS]
        cells = [f"{one:.0f} / {five:.0f}" for one, five in zip(*shares, strict=True)]
        table.add_row(problem.fault, str(problem.classes), str(problem.rows), *cells)
    console.print(table)


# --- parts of scores --------------------------------------------------------------------------


def _parts(task: tuple[int, float, int]) -> list[float]:
    """The calibration parts of one drawn set, times 100."""
    classes, temperature, seed = task
    rng = np.random.default_rng([seed, classes])
    logits = SHARPNESS[classes] * rng.normal(size=(1000, classes))
    labels = (logits / temperature + rng.gumbel(size=logits.shape)).argmax(axis=1)
    probs = softmax(logits, axis=1)
    ours = metrics.brier_decomposition(probs, labels)
    left_out = decompose(logits, labels, method="ts")
    chance = softmax(logits / temperature, axis=1)
    true_brier = np.square(probs - chance).sum(axis=1).mean()
    true_nll = (chance * np.log(chance / probs)).sum(axis=1).mean()
    found = (true_brier, ours.calibration + ours.noise, ours.calibration)
    both = (left_out.brier.calibration, true_nll, left_out.nll.calibration)
    return [100.0 * value for value in (*found, *both)]


def parts(console: Console, simulations: int, quick: bool, jobs: int) -> None:
    """Print the calibration parts of models with 1,000 rows, mean and deviation."""
    cases = [(c, t) for c in (2, 10, 100) for t in (1.0, 1.5)]
    number = max(2, simulations // (10 if quick else 2))
    tasks = [(*case, seed) for case in cases for seed in range(number)]
    with ProcessPoolExecutor(jobs) as pool:
        done = pool.map(_parts, tasks)
        found = list(track(done, "splitting", len(tasks), console=Console(stderr=True)))
    table = Table(title=f"calibration parts times 100, 1,000 rows, {number} sets")
    brier = ("true", "in the rows", "brier_decomposition", "decompose")
    headings = [f"Brier: {name}" for name in brier] + ["NLL: true", "NLL: decompose"]
    for heading in ("classes", "temperature", *headings):
        table.add_column(heading, justify="right")
    for case in cases:
        own = np.array([f for f, (*of, _) in zip(found, tasks, strict=True) if tuple(of) == case])
        cells = [f"{m:.2f} ± {s:.2f}" for m, s in zip(own.mean(0), own.std(0), strict=True)]
        table.add_row(str(case[0]), str(case[1]), *cells)
    console.print(table)


# --- all sections -----------------------------------------------------------------------------

SECTIONS: dict[str, Callable[[Console, int, bool, int], None]] = {
    "power": power,
    "parts": parts,
    "coverage": coverage,
    "paired": paired,
}


def main() -> None:
    """Run the sections."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SECTIONS, help="one section")
    parser.add_argument("--quick", action="store_true", help="fewer problems, for about a minute")
    parser.add_argument("--simulations", type=int, default=100, help="drawn sets per problem")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args()
    console = Console(width=200)
    for name, section in SECTIONS.items():
        if options.only in (None, name):
            section(console, options.simulations, options.quick, options.jobs)


if __name__ == "__main__":
    main()
