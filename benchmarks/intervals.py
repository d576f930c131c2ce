"""What intervals of calibration errors cover, and how often equal errors are told apart.

Sections of ``benchmarks/statistical.py``: `make statistics` runs them.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from calibrant import metrics
from calibrant.data.binning import bin_index, equal_mass_edges, equal_width_edges

ERRORS = ("ece", "rms_ece", "adaptive_ece", "debiased_ece")
MANY = 400_000  # rows that stand for all
TRUE_SHARE = 0.1 + 0.9 * 6.0 / 6.8  # the mean confidence of the sharp model
FAULTS = {
    "none": lambda c: c,
    "temperature 0.8": lambda c: _warmer(c, 0.8),
    "temperature 0.55": lambda c: _warmer(c, 0.55),
    "6% too sure": lambda c: np.clip(c - 0.06, 0.0, 1.0),
    "a wave": lambda c: np.clip(c + 0.084 * np.sin(12.0 * c), 0.0, 1.0),
}


def _warmer(confidence: np.ndarray, inverse_temperature: float) -> np.ndarray:
    log_odds = np.log(confidence) - np.log1p(-np.minimum(confidence, 1.0 - 1e-12))
    return 1.0 / (1.0 + np.exp(-inverse_temperature * log_odds))


@dataclass(frozen=True)
class Model:
    """How sure a model is, and how often it is right then."""

    name: str
    fault: str

    def confidence(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Confidences of the top label."""
        shape = (6.0, 0.8) if self.name == "sharp" else (1.5, 1.0)
        return 0.1 + 0.9 * rng.beta(*shape, rows)

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of ten classes, the first of them on top, and labels."""
        confidence = self.confidence(rows, rng)
        others = np.repeat((1.0 - confidence)[:, None] / 9.0, 9, axis=1)
        hit = rng.random(rows) < FAULTS[self.fault](confidence)
        return np.column_stack([confidence, others]), np.where(hit, 0, 1)

    def true(self, error: str) -> float:
        """The error of all rows, without noise."""
        confidence = self.confidence(MANY, np.random.default_rng(0))
        masses = error in ("adaptive_ece", "debiased_ece")
        edges = equal_mass_edges(confidence, 15) if masses else equal_width_edges(15)
        index = bin_index(confidence, edges)
        count = np.bincount(index, minlength=len(edges) - 1)
        gap = np.bincount(index, FAULTS[self.fault](confidence) - confidence, len(count))
        gap, share = gap / np.maximum(count, 1), count / MANY
        squared = error in ("rms_ece", "debiased_ece")
        return float(np.sqrt(share @ gap**2) if squared else share @ np.abs(gap))


# --- coverage ---------------------------------------------------------------------------------


def covered(task: tuple[Model, str, int, int]) -> tuple[float, float, float]:
    """The true error, the share of intervals that hold it, and their mean width."""
    model, error, rows, simulations = task
    true, holding, width = model.true(error), 0, 0.0
    for seed in range(simulations):
        rng = np.random.default_rng([seed, rows])
        probs, labels = model.draw(rows, rng)
        got = metrics.bootstrap_ci(probs, labels, error, n_resamples=50, random_state=seed)
        holding += got.low - 1e-9 <= true <= got.high + 1e-9
        width += got.high - got.low
    return true, holding / simulations, width / simulations


def coverage(console: Console, simulations: int, quick: bool, jobs: int) -> None:
    """How many 95% intervals hold the true error."""
    sizes = (500,) if quick else (500, 2000, 10_000)
    cases = [
        (Model(n, f), e, r) for e in ERRORS for n in ("sharp", "mid") for f in FAULTS for r in sizes
    ]
    with ProcessPoolExecutor(jobs) as pool:
        work = pool.map(covered, [(*case, simulations) for case in cases])
        found = list(track(work, total=len(cases), description="coverage"))
    table = Table(title=f"Coverage of 95% intervals, {simulations} sets each", title_justify="left")
    for column in ("error", "model", "fault", "rows", "true %", "covered %", "mean width %"):
        table.add_column(
            column, justify="left" if column in ("error", "model", "fault") else "right"
        )
    for (model, error, rows), (true, share, width) in zip(cases, found, strict=True):
        numbers = f"{100 * true:.2f}", f"{100 * share:.1f}", f"{100 * width:.2f}"
        table.add_row(error, model.name, model.fault, f"{rows:,}", *numbers)
    console.print(table)


# --- pairs ------------------------------------------------------------------------------------


def told_apart(task: tuple[str, int, int]) -> float:
    """How often two calibrated models, one of them sharper, differ at the 5% level."""
    error, rows, simulations = task
    rejected = 0
    for seed in range(simulations):
        rng = np.random.default_rng([seed, rows])
        sharp = Model("sharp", "none").confidence(rows, rng)
        labels = (rng.random(rows) >= sharp).astype(int)
        share = TRUE_SHARE  # what a model says that knows nothing but how often class 0 comes
        given = np.stack([sharp, 1.0 - sharp], axis=1), np.full((rows, 2), [share, 1.0 - share])
        pair = metrics.compare_paired(*given, labels, error, n_resamples=100, random_state=seed)
        rejected += pair.p_value < 0.05
    return rejected / simulations


def paired(console: Console, simulations: int, quick: bool, jobs: int) -> None:
    """The size of the paired comparison of calibration errors."""
    cases = [(error, rows) for error in ERRORS for rows in ((500,) if quick else (500, 2000))]
    with ProcessPoolExecutor(jobs) as pool:
        work = pool.map(told_apart, [(*case, simulations) for case in cases])
        found = list(track(work, total=len(cases), description="pairs"))
    table = Table(title="Two calibrated models told apart at 5%", title_justify="left")
    for column in ("error", "rows", "rejected %"):
        table.add_column(column, justify="left" if column == "error" else "right")
    for (error, rows), share in zip(cases, found, strict=True):
        table.add_row(error, f"{rows:,}", f"{100 * share:.1f}")
    console.print(table)
