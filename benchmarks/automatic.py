"""Is `auto` better than it was, than any single method, and than probmetrics' default?

    python benchmarks/automatic.py [--sizes 30,100,300,1000,3000] [--cuts 2] [--before REVISION]
        [--data FOLDER] [--jobs 2] [--out automatic.json]
    python benchmarks/automatic.py --times

Score sets are the networks of the package and of ``data/`` (and of a folder of .npz files with
`logits` or `probs`, and `labels`), scikit-learn's models on tables, and those on tables of two
classes, among them models that saw four rows of each class. A set is cut at random into rows to fit
on and rows to judge on. `before` is `auto` of another revision, checked out for the time of the
run. `best` is the single candidate of `auto` with the lowest NLL on the judged rows: no method can
know it. `peer` is probmetrics' default. Differences are in thousandths (of a nat, of the Brier
score), with standard errors over the score sets, each of which is a mean over its cuts. ECE beyond
chance is in percent. Probabilities below 1e-15 count as 1e-15. `harm` is the share of cuts with
an NLL more than 20 thousandths above that of the uncalibrated scores. ``--times`` prints the CPU
time of a fit beside that of probmetrics' default in the same process, on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

# One core a process: the processes are the parallelism here. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant
import tabular
from calibrant.calibrators import calibrator
from quality import judge
from rows_needed import networks

ROOT = Path(__file__).resolve().parents[1]
BEFORE = "8ba4537"  # the last revision whose `auto` takes a single method
SIZES = "30,100,300,1000,3000"
MOST_TEST_ROWS = {10: 3000, 100: 1500, 1000: 500}  # by the most classes
FEW_SHOTS = 4  # rows of each class that the worst models learn from
MEASURES = ("nll", "brier", "excess")
HARM = 2.0  # NLL times 100
SMALLEST = 1e-15  # probability that is judged
TIMED = (
    ("table:two-classes:boosting", 3000),
    ("network:cifar10-vgg19", 300),
    ("network:cifar10-vgg19", 1000),
    ("network:cifar10-vgg19", 5000),
    ("network:cifar10-vgg19", 10_000),
    ("network:cifar100-vgg19", 1000),
    ("network:cifar100-vgg19", 5000),
    ("network:cifar100-vgg19", 10_000),
    ("network:imagenet5k-mobilenetv2", 2500),
)
TIMED_RUNS = 3
SHOWN = ("base", "ts", "before", "auto", "best", "peer")

Cut = tuple[str, int, int]  # a score set, how many rows to fit on, and the seed of the cut


def set_names(folder: str | None) -> list[str]:
    """The score sets: a network's name, a file's path, or a table and a model."""
    files = (
        [] if folder is None else [f"file:{path}" for path in sorted(Path(folder).glob("*.npz"))]
    )
    models = [*tabular.MODELS, "few-shot"]
    tables = [f"table:{data}:{model}" for data in tabular.DATA for model in models]
    return [*(f"network:{name}" for name in networks()), *files, *tables]


@lru_cache(2)
def load(name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Scores, labels and what the scores are."""
    kind, _, rest = name.partition(":")
    if kind == "table":
        scores, labels, scale = scored(*rest.split(":"))
        scores = np.asarray(scores)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return scores, np.asarray(labels), scale
    if kind == "file":
        with np.load(rest, allow_pickle=False) as arrays:
            scale = "logits" if "logits" in arrays else "probs"
            return arrays[scale].astype(np.float32), arrays["labels"].astype(np.int64), scale
    path = networks()[rest]
    data = calibrant.datasets.load(rest) if path is None else calibrant.datasets.read(path)
    logits = np.concatenate([data.val_logits, data.test_logits]).astype(np.float32)
    return logits, np.concatenate([data.val_labels, data.test_labels]).astype(np.int64), "logits"


def scored(data: str, model: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Scores of rows that a model has not seen; "few-shot" is a model that saw very few."""
    if model != "few-shot":
        return tabular.scored(data, model)
    inputs, labels = tabular.DATA[data]()
    order = np.random.default_rng(2).permutation(len(labels))
    seen = [order[labels[order] == label][:FEW_SHOTS] for label in np.unique(labels)]
    rest = np.setdiff1d(order, np.concatenate(seen))
    fitted = make_pipeline(StandardScaler(), LogisticRegression(C=10.0))
    fitted.fit(inputs[np.concatenate(seen)], labels[np.concatenate(seen)])
    return fitted.decision_function(inputs[rest]), labels[rest], "logits"


def group_of(name: str, classes: int) -> str:
    """Which table a score set belongs to."""
    if not name.startswith("table:"):
        return "images"
    return "two classes" if classes == 2 else "tables"


def cuts(names: Sequence[str], sizes: Sequence[int], count: int) -> Iterator[Cut]:
    """Every score set with rows enough, at every size."""
    for name in names:
        most = len(load(name)[1]) // 2
        for size in sizes:
            if size <= 1.2 * most:
                yield from ((name, size, seed) for seed in range(count))


def run(task: tuple[Cut, bool]) -> dict[str, Any]:
    """The measures of every method on one cut; of `auto` alone, or of all."""
    (name, size, seed), alone = task
    scores, labels, kind = load(name)
    order, half = np.random.default_rng(seed).permutation(len(labels)), len(labels) // 2
    classes = scores.shape[1]
    most = next(rows for limit, rows in MOST_TEST_ROWS.items() if classes <= limit)
    fit, test = order[:half][:size], order[half:][:most]
    result: dict[str, Any] = {"set": name, "size": size, "seed": seed, "classes": classes}

    def measured(method: str, probs: Any) -> None:
        found = judge(floored(probs), labels[test], seed)
        result[method] = [found[measure] for measure in MEASURES]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auto = calibrator("auto", input=kind).fit(scores[fit], labels[fit])
        measured("auto", auto.predict_proba(scores[test]))
        result["choice"] = auto.method_
        if alone:
            return result
        for method in ("base", "ts"):
            model = calibrator(method, input=kind).fit(scores[fit], labels[fit])
            measured(method, model.predict_proba(scores[test]))
        result["best"] = best_single(auto, (scores, labels, kind), fit, test, seed)
        peer = peer_fit(scores[fit], labels[fit], kind)
        measured("peer", peer.predict_proba(as_probabilities(scores[test], kind)))
    return result


def floored(probs: Any) -> np.ndarray:
    """Probabilities of at least 1e-15: a log loss without an end has no mean."""
    return np.maximum(np.asarray(probs, np.float64), SMALLEST)


def best_single(
    auto: Any, data: tuple[np.ndarray, np.ndarray, str], fit: Any, test: Any, seed: int
) -> list[float]:
    """The measures of the candidate with the lowest NLL on the judged rows."""
    scores, labels, kind = data
    found = []
    for tried in auto.fit_info_.details["tried"]:
        if tried["candidate"] not in calibrant.calibrators.REGISTRY:
            continue  # class frequencies are no method
        settings = {"prior_rows": "auto"} if tried["candidate"] == "ts" else {}
        model = calibrator(tried["candidate"], input=kind, **settings)
        probs = model.fit(scores[fit], labels[fit]).predict_proba(scores[test])
        measures = judge(floored(probs), labels[test], seed)
        found.append([measures[measure] for measure in MEASURES])
    return min(found)


def peer_fit(scores: np.ndarray, labels: np.ndarray, kind: str) -> Any:
    """Probmetrics' default, fitted; it reads probabilities."""
    import torch
    from probmetrics.calibrators import get_calibrator

    torch.set_num_threads(1)
    model = get_calibrator("logistic")
    model.fit(as_probabilities(scores, kind), labels)
    return model


def as_probabilities(scores: np.ndarray, kind: str) -> np.ndarray:
    """The softmax of logits in float64; probabilities as they are."""
    values = np.asarray(scores, np.float64)
    if kind == "logits":
        values = np.exp(values - values.max(axis=1, keepdims=True))
        values /= values.sum(axis=1, keepdims=True)
    return values


def times(console: Console) -> None:
    """CPU seconds of a fit, the best of a few, and how many times that of the peer."""
    table = Table(title="CPU seconds of one fit on one core", title_justify="left")
    for column in ("scores", "rows", "probmetrics", "auto", "ratio", "chosen"):
        table.add_column(column, justify="right")
    for name, size in TIMED:
        scores, labels, kind = load(name)
        some = np.random.default_rng(0).permutation(len(labels))[:size]
        given = scores[some], labels[some]
        fitted: list[Any] = []

        def ours(given: Any = given, kind: str = kind, fitted: list[Any] = fitted) -> None:
            fitted.append(calibrator("auto", input=kind).fit(*given))

        peer = cpu_seconds(lambda given=given, kind=kind: peer_fit(*given, kind))
        own = cpu_seconds(ours)
        cells = f"{size:,}", f"{peer:.3f}", f"{own:.3f}", f"{own / peer:.1f}", fitted[0].method_
        table.add_row(name.partition(":")[2], *cells)
    console.print(table)


def cpu_seconds(work: Callable[[], Any]) -> float:
    """The least of a few runs."""
    found = []
    for _ in range(TIMED_RUNS):
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work()
        found.append(time.process_time() - began)
    return min(found)


def all_of(tasks: list[Cut], alone: bool, jobs: int, label: str) -> list[dict[str, Any]]:
    """The results of all cuts."""
    with ProcessPoolExecutor(jobs) as pool:
        work = [(task, alone) for task in tasks]
        return list(track(pool.map(run, work), label, len(work), console=Console(stderr=True)))


def before(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The measures of `auto` of another revision, by this program in another process."""
    with tempfile.TemporaryDirectory() as folder:
        tree, out = Path(folder) / "tree", Path(folder) / "before.json"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", tree, arguments.before], check=True)
        try:
            command = [sys.executable, __file__, *sys.argv[1:], "--alone", "--out", str(out)]
            environment = os.environ | {"PYTHONPATH": str(tree / "src")}
            subprocess.run(command, check=True, env=environment)
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)
        return json.loads(out.read_text())


def by_set(rows: Sequence[dict[str, Any]], method: str, other: str | None) -> np.ndarray:
    """(score sets, measures): means over the cuts, or over those of the differences to another."""
    groups: dict[str, list[np.ndarray]] = {}
    for row in rows:
        value = np.array(row[method])
        groups.setdefault(row["set"], []).append(value if other is None else value - row[other])
    return np.array([np.mean(values, axis=0) for values in groups.values()])


def show(rows: Sequence[dict[str, Any]], console: Console) -> None:
    """A table for each group and size."""
    for group in ("images", "tables", "two classes", "all"):
        own = [r for r in rows if group in ("all", group_of(r["set"], r["classes"]))]
        for size in sorted({row["size"] for row in own}):
            some = [row for row in own if row["size"] == size]
            console.print(table_of(f"{group}, {size} rows to fit on", some))


def table_of(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """One line per method: differences of `auto` to it, ECE beyond chance, and harm."""
    sets = len({row["set"] for row in rows})
    table = Table(title=f"{title} ({sets} sets)", title_justify="left")
    for column in ("", "NLL - before", "NLL - peer", "Brier - before", "ECE beyond chance", "harm"):
        table.add_column(column, justify="left" if column == "" else "right")
    for method in SHOWN:
        cells = [method]
        for other, measure, unit in (("before", 0, 10.0), ("peer", 0, 10.0), ("before", 1, 10.0)):
            values = unit * by_set(rows, method, other)[:, measure]
            cells.append("-" if method == other else with_error(values, "+.1f"))
        cells.append(with_error(by_set(rows, method, None)[:, 2], ".2f"))
        harm = np.array([row[method][0] - row["base"][0] for row in rows])
        cells.append(f"{np.mean(harm > HARM):.1%}, worst {10.0 * harm.max():+.0f}")
        table.add_row(*cells)
    return table


def with_error(values: np.ndarray, how: str) -> str:
    """The mean over the score sets, and its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return (
        f"{values.mean():{how}} ± {error:.1f}"
        if how[0] == "+"
        else (f"{values.mean():{how}} ± {error:.2f}")
    )


def main() -> None:
    """Cut, fit, judge, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--cuts", type=int, default=2, help="of each set and size")
    parser.add_argument("--before", default=BEFORE, help="the revision to compare with")
    parser.add_argument("--data", help="a folder of further .npz files")
    parser.add_argument("--only", default="", help="only sets whose names hold this text")
    parser.add_argument("--times", action="store_true", help="time fits, and nothing else")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("automatic.json"))
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.times:
        times(Console(width=100))
        return
    names = [name for name in set_names(arguments.data) if arguments.only in name]
    tasks = list(cuts(names, [int(size) for size in arguments.sizes.split(",")], arguments.cuts))
    if arguments.alone:
        rows = all_of(tasks, True, arguments.jobs, "auto before")
    else:
        earlier = before(arguments)
        rows = all_of(tasks, False, arguments.jobs, "all methods")
        rows = [{**row, "before": one["auto"]} for row, one in zip(rows, earlier, strict=True)]
        show(rows, Console(width=130))
    arguments.out.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
