"""Evidence that the defaults do not lose: a fixed protocol on a folder of logit files.

    python benchmarks/quality.py [--data FOLDER] [--methods ts,ets,pts] [--out quality.csv]

Every file (.npz with `logits` or `probs`, and `labels`) is cut into random halves, one to fit on
and one to judge on, for several seeds; smaller fractions of the fitting half show what little data
does. Without a folder, the embedded data sets are used, their validation and test rows pooled.
All values are times 100. Differences are means over the cuts of a file first: cuts of one file
share rows, so the p-values are those of a t-test over the files. `worse` counts the cuts in which
the NLL is above that of no calibration. `null` is the 15-bin ECE that the same confidences would
show, on as many rows, if they were perfectly calibrated; `excess` is what the ECE shows beyond it.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterator, Sequence
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
from scipy.stats import ttest_1samp

import calibrant
from calibrant.calibrators import REGISTRY, calibrator
from calibrant.metrics import BinStats, accuracy, brier, nll

METHODS: dict[str, tuple[str, dict[str, str]]] = {name: (name, {}) for name in REGISTRY}
METHODS["pts-paper"] = ("pts", {"recipe": "paper"})
METHODS["histogram-top"] = ("histogram", {"mode": "top-label"})
DEFAULT = "base,ts,ets,svs,diag,pts,mpts,spts,auto"
NULL_DRAWS = 200
MEASURES = ("ece15", "ece10", "null", "excess", "brier", "nll")


@dataclass(frozen=True)
class Task:
    """One cut of one data set."""

    path: str  # "" for an embedded set
    name: str
    seed: int
    fraction: float
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One method on one cut; all measures times 100."""

    group: str
    dataset: str
    seed: int
    fraction: float
    rows: int
    method: str
    accuracy: float
    ece15: float
    ece10: float
    null: float
    excess: float
    brier: float
    nll: float
    seconds: float


def load(task: Task) -> tuple[np.ndarray, np.ndarray, str]:
    """Scores, labels and what the scores are."""
    if not task.path:
        data = calibrant.datasets.load(task.name)
        logits = np.concatenate([data.val_logits, data.test_logits])
        return logits, np.concatenate([data.val_labels, data.test_labels]), "logits"
    with np.load(task.path, allow_pickle=False) as arrays:
        kind = "logits" if "logits" in arrays else "probs"
        return arrays[kind], arrays["labels"], kind


def perfect_ece(confidence: np.ndarray, seed: int) -> float:
    """The mean 15-bin ECE of these confidences were they right."""
    rng = np.random.default_rng(seed)
    draws = (rng.random(len(confidence)) < confidence for _ in range(NULL_DRAWS))
    return float(np.mean([BinStats.from_confidence(confidence, hit).error() for hit in draws]))


def judge(probs: np.ndarray, labels: np.ndarray, seed: int) -> dict[str, float]:
    """All measures of one set of probabilities, times 100."""
    confidence = probs.max(axis=1).astype(np.float64)
    hit = probs.argmax(axis=1) == labels
    ece15, ece10 = (BinStats.from_confidence(confidence, hit, bins).error() for bins in (15, 10))
    null = perfect_ece(confidence, seed)
    measures = {
        "accuracy": accuracy(probs, labels),
        "ece15": ece15,
        "ece10": ece10,
        "null": null,
        "excess": ece15 - null,
        "brier": brier(probs, labels),
        "nll": nll(probs, labels),
    }
    return {name: 100.0 * value for name, value in measures.items()}


def run(task: Task) -> list[Row]:
    """Fit and judge every method on one cut."""
    scores, labels, kind = load(task)
    order = np.random.default_rng(task.seed).permutation(len(scores))
    half = len(scores) // 2
    fit, test = order[: round(half * task.fraction)], order[half:]
    rows = []
    for method in task.methods:
        name, parameters = METHODS[method]
        model = calibrator(name, input=kind, **parameters)
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", calibrant.CalibrationWarning)
            model.fit(scores[fit], labels[fit])
        seconds = time.perf_counter() - started
        measures = judge(model.predict_proba(scores[test]), labels[test], task.seed)
        group = task.name.split("_")[0]
        rows.append(
            Row(
                group,
                task.name,
                task.seed,
                task.fraction,
                len(fit),
                method,
                seconds=seconds,
                **measures,
            )
        )
    return rows


def tasks(arguments: argparse.Namespace) -> Iterator[Task]:
    """Every data set, seed and fraction."""
    methods = tuple(arguments.methods.split(","))
    unknown = set(methods) - set(METHODS)
    if unknown:
        raise SystemExit(f"methods must be among {', '.join(METHODS)}, got {', '.join(unknown)}")
    if arguments.data:
        paths = [(str(p), p.stem) for p in sorted(Path(arguments.data).glob("*.npz"))]
        if not paths:
            raise SystemExit(f"there are no .npz files in {arguments.data}")
    else:
        paths = [("", name) for name in calibrant.datasets.names()]
    for path, name in paths:
        for fraction in (float(f) for f in arguments.fractions.split(",")):
            for seed in range(arguments.seeds):
                yield Task(path, name, seed, fraction, methods)


def mean_of(rows: Sequence[Row], measure: str) -> float:
    """The mean over cuts of one measure."""
    return float(np.mean([getattr(row, measure) for row in rows]))


def show(title: str, rows: Sequence[Row], console: Console) -> None:
    """A table of means over the seeds (and files) with paired tests against TS and ETS."""
    table = Table(title=title, title_justify="left")
    for column in ("method", *MEASURES, "worse", "fit s", "Brier - TS (p)", "Brier - ETS (p)"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method]
        values = [f"{mean_of(own, measure):.3f}" for measure in MEASURES]
        against = [paired(rows, method, other) for other in ("ts", "ets")]
        seconds = f"{mean_of(own, 'seconds'):.2f}"
        table.add_row(method, *values, worse_than_none(rows, method), seconds, *against)
    console.print(table)


def differences(
    rows: Sequence[Row], method: str, other: str, measure: str
) -> dict[str, list[float]]:
    """By file, how much more one method shows than another on the same cuts."""
    of_other = {(r.dataset, r.seed, r.fraction): r for r in rows if r.method == other}
    found: dict[str, list[float]] = {}
    for row in rows:
        twin = of_other.get((row.dataset, row.seed, row.fraction))
        if row.method == method and twin is not None:
            more = getattr(row, measure) - getattr(twin, measure)
            found.setdefault(row.dataset, []).append(more)
    return found


def paired(rows: Sequence[Row], method: str, other: str) -> str:
    """The mean difference in Brier over the files, and the p-value of a t-test over them."""
    means = [np.mean(cuts) for cuts in differences(rows, method, other, "brier").values()]
    if method == other or not means:
        return "-"
    p = f" ({ttest_1samp(means, 0.0).pvalue:.1g})" if len(means) > 2 else ""
    return f"{np.mean(means):+.3f}{p}"


def worse_than_none(rows: Sequence[Row], method: str) -> str:
    """In how many of the cuts the NLL is above that of no calibration."""
    cuts = [cut for part in differences(rows, method, "base", "nll").values() for cut in part]
    return f"{sum(cut > 0.0 for cut in cuts)}/{len(cuts)}" if cuts and method != "base" else "-"


def report(rows: Sequence[Row], console: Console) -> None:
    """Per data set at the full fitting half, then group means at every fraction."""
    for name in dict.fromkeys(row.dataset for row in rows):
        whole = [r for r in rows if r.dataset == name and r.fraction == 1.0]
        if whole:
            show(f"{name}, all of the fitting half", whole, console)
    for group in dict.fromkeys(row.group for row in rows):
        for fraction in sorted({row.fraction for row in rows}):
            chosen = [r for r in rows if r.group == group and r.fraction == fraction]
            title = f"MEAN of {group}: {fraction:.0%} of the fitting half ({chosen[0].rows} rows)"
            show(title, chosen, console)
    for fraction in sorted({row.fraction for row in rows}):
        chosen = [r for r in rows if r.fraction == fraction]
        show(f"MEAN of all files: {fraction:.0%} of the fitting half", chosen, console)


def main() -> None:
    """Run the protocol."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", help="folder of .npz files (default: the embedded data sets)")
    parser.add_argument(
        "--methods", default=DEFAULT, help=f"comma-separated, of {', '.join(METHODS)}"
    )
    parser.add_argument("--fractions", default="0.1,0.2,0.4,1.0", help="of the fitting half")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", default="quality.csv")
    arguments = parser.parse_args()
    console = Console(width=130)
    work = list(tasks(arguments))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = list(track(pool.map(run, work), total=len(work), description="cuts"))
    rows = [row for result in results for row in result]
    with Path(arguments.out).open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    report(rows, console)
    console.print(f"{len(rows)} rows in {arguments.out}")


if __name__ == "__main__":
    main()
