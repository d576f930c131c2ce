"""May the rows that stopped the training calibrate, too? Small models, stopped and calibrated anew.

    python benchmarks/early_stopping.py [--repeats 60] [--methods ts,pts,auto]

A model is trained round by round and the round with the lowest log loss on n held-out rows is kept.
Then it is calibrated on

    same      the n rows that stopped it
    fresh     n further rows that neither training nor stopping has seen
    halves    n/2 rows, when the other n/2 alone have stopped it
    training  n of the rows that it was trained on: what one must not do

and judged on rows of their own. ``benchmarks/results/early_stopping.json`` keeps the mean
difference of each to ``fresh`` in the log loss, the Brier score and the ECE beyond chance, with its
standard error over the repeats; docs/guide/early-stopping.md shows it.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

# One core a process: the processes are the parallelism here. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neural_network import MLPClassifier

import calibrant
from calibrant.calibrators import calibrator
from quality import judge

RESULTS = Path(__file__).resolve().parent / "results" / "early_stopping.json"
TRAIN_ROWS = 1000
TEST_ROWS = 10_000
ROUNDS = 60
SIZES = (100, 300, 1000)
MEASURES = ("nll", "brier", "excess")
WAYS = ("same", "fresh", "halves", "training")

Scores = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Task:
    """One model of one data set."""

    model: str
    classes: int
    size: int
    repeat: int
    methods: tuple[str, ...]


def boosted(inputs: np.ndarray, labels: np.ndarray, seed: int) -> Iterator[Scores]:
    """Gradient boosting, a function from inputs to probabilities after every round."""
    model = HistGradientBoostingClassifier(
        max_iter=ROUNDS, early_stopping=False, random_state=seed
    ).fit(inputs, labels)
    for used in range(ROUNDS):

        def scores(rows: np.ndarray, used: int = used) -> np.ndarray:
            staged = model.staged_predict_proba(rows)
            return next(probs for done, probs in enumerate(staged) if done == used)

        yield scores


def network(inputs: np.ndarray, labels: np.ndarray, seed: int) -> Iterator[Scores]:
    """A network with one hidden layer, such a function after every epoch."""
    model = MLPClassifier((64,), learning_rate_init=0.005, batch_size=50, random_state=seed)
    for _ in range(ROUNDS):
        model.partial_fit(inputs, labels, classes=np.unique(labels))
        yield deepcopy(model).predict_proba


MODELS = {"boosting": boosted, "network": network}


def stopped(rounds: list[Scores], inputs: np.ndarray, labels: np.ndarray) -> Scores:
    """The round with the lowest log loss on these rows."""
    losses = [calibrant.metrics.nll(scores(inputs), labels) for scores in rounds]
    return rounds[int(np.argmin(losses))]


def run(task: Task) -> dict[str, dict[str, dict[str, float]]]:
    """The measures of every way to calibrate and every method."""
    inputs, labels = make_classification(
        TRAIN_ROWS + 2 * task.size + TEST_ROWS,
        n_features=20,
        n_informative=10,
        n_classes=task.classes,
        flip_y=0.05,
        random_state=task.repeat,
    )
    cuts = np.cumsum([TRAIN_ROWS, task.size, task.size])
    train, first, second, test = np.split(np.arange(len(labels)), cuts)
    half = task.size // 2
    rounds = list(MODELS[task.model](inputs[train], labels[train], task.repeat))
    whole = stopped(rounds, inputs[first], labels[first])
    by_half = stopped(rounds, inputs[first[:half]], labels[first[:half]])
    ways = {
        "same": (whole, first),
        "fresh": (whole, second),
        "halves": (by_half, first[half:]),
        "training": (whole, train[: task.size]),
    }
    found: dict[str, dict[str, dict[str, float]]] = {}
    for way, (scores, rows) in ways.items():
        judged_scores, fitted_scores = scores(inputs[test]), scores(inputs[rows])
        for method in task.methods:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", calibrant.CalibrationWarning)
                fitted = calibrator(method, input="probs").fit(fitted_scores, labels[rows])
                judged = judge(fitted.predict_proba(judged_scores), labels[test], seed=0)
            found.setdefault(method, {})[way] = {name: judged[name] for name in MEASURES}
    return found


def summary(
    tasks: list[Task], found: list[dict[str, dict[str, dict[str, float]]]]
) -> list[dict[str, object]]:
    """One record for each model, size, method and way: its mean difference to fresh rows."""
    groups: dict[tuple[str, int, str, str], list[dict[str, dict[str, float]]]] = {}
    for task, methods in zip(tasks, found, strict=True):
        for method, ways in methods.items():
            for way in WAYS:
                key = (task.model, task.size, method, way)
                groups.setdefault(key, []).append({"of": ways[way], "fresh": ways["fresh"]})
    records = []
    for (model, size, method, way), repeats in groups.items():
        record: dict[str, object] = {"model": model, "rows": size, "method": method, "way": way}
        record["repeats"] = len(repeats)
        for name in MEASURES:
            values = np.array([repeat["of"][name] for repeat in repeats])
            gaps = values - np.array([repeat["fresh"][name] for repeat in repeats])
            record[name] = rounded(values.mean())
            record[f"{name}_difference"] = rounded(gaps.mean())
            with np.errstate(invalid="ignore"):  # of an infinite gap
                record[f"{name}_error"] = rounded(gaps.std(ddof=1) / np.sqrt(len(gaps)))
        records.append(record)
    return records


def rounded(value: float) -> float | None:
    """Four digits; None where it is infinite: a class came that had been given 0."""
    return round(float(value), 4) if np.isfinite(value) else None


def show(records: list[dict[str, object]]) -> None:
    """Print the differences to fresh rows."""
    table = Table(title="x 100: of fresh rows, and the difference to them ± its standard error")
    for heading in ("model", "rows", "method", "measure", "fresh", "same", "halves", "training"):
        table.add_column(heading, justify="right")
    known = {(r["model"], r["rows"], r["method"], r["way"]): r for r in records}
    for model, size, method, _ in [key for key in known if key[-1] == "fresh"]:
        for name in MEASURES:
            cells = [
                cell(known[model, size, method, way], name)
                for way in ("same", "halves", "training")
            ]
            fresh = f"{known[model, size, method, 'fresh'][name]:.2f}"
            table.add_row(str(model), str(size), str(method), name, fresh, *cells)
    Console(width=120).print(table)


def cell(record: dict[str, object], name: str) -> str:
    """A difference with its error, as text."""
    if record[f"{name}_difference"] is None:
        return "inf"
    return f"{record[f'{name}_difference']:+.2f} ± {record[f'{name}_error']:.2f}"


def main() -> None:
    """Train, stop, calibrate, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--methods", default="ts,pts,auto")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    tasks = [
        Task(model, (2, 5)[repeat % 2], size, repeat, tuple(options.methods.split(",")))
        for model in MODELS
        for size in SIZES
        for repeat in range(options.repeats)
    ]
    with ProcessPoolExecutor(options.workers) as pool:
        found = list(track(pool.map(run, tasks), "training", len(tasks)))
    records = summary(tasks, found)
    show(records)
    lines = ",\n".join(json.dumps(record) for record in records)
    options.out.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
