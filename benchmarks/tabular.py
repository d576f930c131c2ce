"""Which calibrator wins on tables: scikit-learn's models on its own and on generated data.

    python benchmarks/tabular.py [--methods ts,platt,auto] [--sizes 30,100,300,1000] [--cuts 3]

Every data set is learned by every model on one part of its rows; the rest are scored, and cut at
random into rows to calibrate on (of several sizes) and rows to judge on. Printed are, by size, the
methods' mean rank and win rate against uncalibrated scores in NLL, Brier score and ECE beyond
chance, with standard errors over the score sets (not over the cuts, which share their rows), and
how often a method is more than 2% worse in NLL than leaving the scores alone.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path

# One core a process: the processes are the parallelism here. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.special import log_softmax
from scipy.stats import rankdata
from sklearn.base import ClassifierMixin
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_classification,
    make_moons,
)
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibrant
from calibrant.calibrators import REGISTRY, calibrator
from quality import judge

TEST_ROWS = 4000  # at most, to judge on
TRAIN_ROWS = 1000  # at most, to learn on
FLOOR = 1e-3  # of the uniform distribution, mixed into probabilities
CATASTROPHE = 1.02  # NLL over that of the uncalibrated scores
MULTI = ("base", "ts", "ets", "svs", "sms", "irova", "pts", "mpts", "spts", "auto")
BINARY = (
    "base",
    "ts",
    "platt",
    "beta",
    "quadratic",
    "odds-spline",
    "cir",
    "venn-abers",
    "irova",
    "svs",
    "pts",
    "mpts",
    "auto",
)


def generated(**options: object) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """A data set of scikit-learn's generator."""

    def make() -> tuple[np.ndarray, np.ndarray]:
        settings = {"n_samples": 8000, "n_features": 20, "random_state": 0, **options}
        return make_classification(**settings)

    return make


DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast-cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "moons": lambda: make_moons(8000, noise=0.35, random_state=0),
    "two-classes": generated(n_informative=8, flip_y=0.1, class_sep=0.8),
    "two-easy": generated(n_informative=8, flip_y=0.01, class_sep=2.0),
    "two-rare": generated(n_informative=6, weights=[0.97], flip_y=0.01),
    "three-classes": generated(n_classes=3, n_informative=8, flip_y=0.1),
    "five-uneven": generated(n_classes=5, n_informative=10, weights=[0.5, 0.3, 0.1, 0.07]),
    "ten-classes": generated(n_classes=10, n_informative=12, class_sep=1.2),
}
MODELS: dict[str, Callable[[], ClassifierMixin]] = {
    "forest": lambda: RandomForestClassifier(100, random_state=0),
    "deep-forest-10": lambda: RandomForestClassifier(10, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "naive-bayes": GaussianNB,
    "svm": lambda: make_pipeline(StandardScaler(), SVC(decision_function_shape="ovr")),
    "mlp": lambda: make_pipeline(
        StandardScaler(), MLPClassifier((64,), max_iter=150, random_state=0)
    ),
    "balanced-logistic": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(class_weight="balanced")
    ),
}


@dataclass(frozen=True)
class Row:
    """One method on one cut of one score set; the measures times 100."""

    data: str
    model: str
    classes: int
    size: int
    cut: int
    method: str
    nll: float
    brier: float
    excess: float
    choice: str


def scored(data: str, model: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Scores, labels and what the scores are, of rows that the model has not seen."""
    inputs, labels = DATA[data]()
    order = np.random.default_rng(1).permutation(len(labels))
    learned = min(TRAIN_ROWS, len(labels) // 3)
    train, rest = order[:learned], order[learned:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how well the model learned is not the question here
        fitted = MODELS[model]().fit(inputs[train], labels[train])
    if hasattr(fitted, "decision_function"):
        return fitted.decision_function(inputs[rest]), labels[rest], "logits"
    probs = fitted.predict_proba(inputs[rest])
    mixed = (1.0 - FLOOR) * probs + FLOOR / probs.shape[1]  # forests vote exact zeros
    return mixed, labels[rest], "probs"


def run(task: tuple[str, str, tuple[int, ...], int, tuple[str, ...]]) -> list[Row]:
    """All methods on all cuts of one score set."""
    data, model, sizes, cuts, methods = task
    scores, labels, kind = scored(data, model)
    classes = len(np.unique(labels))
    known = methods or (BINARY if classes == 2 else MULTI)
    usable = [m for m in known if m in REGISTRY]
    rows = []
    for cut in range(cuts):
        order = np.random.default_rng(cut).permutation(len(labels))
        half = len(labels) // 2
        test = order[half:][:TEST_ROWS]
        for size in [s for s in sizes if s <= half] or [half]:
            fit = order[:half][:size]
            for method in usable:
                probs, choice = calibrated(method, kind, scores, labels, fit, test)
                if probs is None:
                    continue
                measures = judge(probs, labels[test], cut)
                kept = {name: measures[name] for name in ("nll", "brier", "excess")}
                rows.append(Row(data, model, classes, size, cut, method, choice=choice, **kept))
    return rows


def calibrated(
    method: str,
    kind: str,
    scores: np.ndarray,
    labels: np.ndarray,
    fit: np.ndarray,
    test: np.ndarray,
) -> tuple[np.ndarray | None, str]:
    """Probabilities of the test rows, and what was chosen; None where a method does not apply."""
    if REGISTRY[method].two_classes_only and scores.ndim == 2 and scores.shape[1] != 2:
        return None, ""
    model = calibrator(method, input=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        model.fit(scores[fit], labels[fit])
    probs = np.asarray(model.predict_proba(scores[test]), np.float64)
    return np.exp(log_softmax(np.log(np.maximum(probs, 1e-15)), axis=1)), getattr(
        model, "method_", ""
    )


def by_set(rows: Sequence[Row], method: str, value: Callable[[Row], float]) -> np.ndarray:
    """One number per score set: the mean over its cuts."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.method == method:
            groups.setdefault((row.data, row.model), []).append(value(row))
    return np.array([np.mean(values) for values in groups.values()])


def show(title: str, rows: Sequence[Row], console: Console) -> None:
    """Ranks, wins against uncalibrated scores and catastrophes of the methods."""
    measures = ("nll", "brier", "excess")
    ranks: dict[tuple[object, ...], float] = {}
    base: dict[tuple[object, ...], Row] = {}
    cases: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        cases.setdefault((row.data, row.model, row.size, row.cut), []).append(row)
    for case, found in cases.items():
        for measure in measures:
            order = rankdata([getattr(row, measure) for row in found])
            for row, rank in zip(found, order, strict=True):
                ranks[*case, row.method, measure] = float(rank)
        base[case] = next(row for row in found if row.method == "base")

    def case_of(row: Row) -> tuple[object, ...]:
        return row.data, row.model, row.size, row.cut

    table = Table(title=f"{title}: {len(cases)} cuts", title_justify="left")
    columns = ["method", *(f"rank {m}" for m in measures), *(f"wins {m}" for m in measures)]
    for column in [*columns, "NLL ratio", "worst", f"> {CATASTROPHE:g}"]:
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method]
        cells = []
        for measure in measures:
            values = by_set(own, method, lambda r, m=measure: ranks[*case_of(r), r.method, m])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            cells.append(f"{values.mean():.2f} ± {error:.2f}")
        for measure in measures:
            won = [getattr(r, measure) < getattr(base[case_of(r)], measure) for r in own]
            cells.append(f"{np.mean(won):.0%}")
        ratio = np.array([r.nll / base[case_of(r)].nll for r in own])
        cells += [f"{np.exp(np.log(ratio).mean()):.3f}", f"{ratio.max():.2f}"]
        table.add_row(method, *cells, f"{np.mean(ratio > CATASTROPHE):.1%}")
    console.print(table)


def report(rows: Sequence[Row], console: Console) -> None:
    """Two classes and more, by size."""
    for title, chosen in (
        ("two classes", [r for r in rows if r.classes == 2]),
        ("more classes", [r for r in rows if r.classes > 2]),
    ):
        for size in sorted({row.size for row in chosen}):
            show(f"{title}, {size} rows", [r for r in chosen if r.size == size], console)


def main() -> None:
    """Score, calibrate, judge, rank."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--methods", default="", help="comma-separated (default: all that apply)")
    parser.add_argument("--sizes", default="20,30,50,100,300,1000,3000")
    parser.add_argument("--cuts", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", default="tabular.csv")
    arguments = parser.parse_args()
    sizes = tuple(int(size) for size in arguments.sizes.split(","))
    methods = tuple(m for m in arguments.methods.split(",") if m)
    work = [(d, m, sizes, arguments.cuts, methods) for d in DATA for m in MODELS]
    console = Console(width=150)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = list(track(pool.map(run, work), total=len(work), description="score sets"))
    rows = [row for result in results for row in result]
    with Path(arguments.out).open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    report(rows, console)
    console.print(f"{len(rows)} rows in {arguments.out}")


if __name__ == "__main__":
    main()
