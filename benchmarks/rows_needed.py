"""How many validation rows does a calibrator need? Real logits, more and more rows of them.

    python benchmarks/rows_needed.py [--methods ts,pts,auto] [--sizes 30,100,300] [--cuts 5]

Every calibrator is fitted on random parts of the validation rows of the networks of the package and
of ``data/``, and judged on all their test rows. ``benchmarks/results/rows_needed.json`` keeps, for
each network, size and method, the NLL, the Brier score and the ECE beyond chance, as means over the
cuts; docs/guide/rows-needed.md draws them.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# One core a process: the processes are the parallelism here. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import calibrant
from calibrant.calibrators import calibrator
from quality import judge

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "rows_needed.json"
METHODS = "base,ts,ets,vector,irova,pts,mpts,monotone,auto"
SIZES = "30,100,300,1000,3000,10000"
MEASURES = ("nll", "brier", "excess")


@dataclass(frozen=True)
class Task:
    """One part of the validation rows of one network."""

    network: str
    size: int
    cut: int
    methods: tuple[str, ...]


def networks() -> dict[str, Path | None]:
    """The networks by name; None for those of the package."""
    embedded: dict[str, Path | None] = dict.fromkeys(calibrant.datasets.names())
    return embedded | {path.stem: path for path in sorted((ROOT / "data").glob("*.npz"))}


def load(network: str) -> calibrant.datasets.LogitData:
    """The logits of one network."""
    path = networks()[network]
    return calibrant.datasets.load(network) if path is None else calibrant.datasets.read(path)


def run(task: Task) -> dict[str, dict[str, float]]:
    """The measures of every method, fitted on this part and judged on all test rows."""
    data = load(task.network)
    rows = np.random.default_rng(task.cut).permutation(len(data.val_labels))[: task.size]
    found = {}
    for method in task.methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", calibrant.CalibrationWarning)
            fitted = calibrator(method).fit(data.val_logits[rows], data.val_labels[rows])
        judged = judge(fitted.predict_proba(data.test_logits), data.test_labels, seed=0)
        found[method] = {measure: judged[measure] for measure in MEASURES}
    return found


def summary(tasks: list[Task], found: list[dict[str, dict[str, float]]]) -> list[dict[str, object]]:
    """One record for each network, size and method: means over the cuts."""
    groups: dict[tuple[str, int, str], list[dict[str, float]]] = {}
    for task, methods in zip(tasks, found, strict=True):
        for method, measures in methods.items():
            groups.setdefault((task.network, task.size, method), []).append(measures)
    return [
        {"network": network, "rows": size, "method": method, "cuts": len(cuts)}
        | {name: mean([cut[name] for cut in cuts]) for name in MEASURES}
        for (network, size, method), cuts in groups.items()
    ]


def mean(values: list[float]) -> float | None:
    """The mean, rounded; None where a value is infinite: a class came that had been given 0."""
    found = float(np.mean(values))
    return round(found, 4) if np.isfinite(found) else None


def show(records: list[dict[str, object]], methods: list[str], sizes: list[int]) -> None:
    """Print the means over the networks."""
    for measure in MEASURES:
        table = Table(title=f"{measure} x 100, mean over the networks with that many rows")
        for heading in ("rows", "networks", *methods):
            table.add_column(heading, justify="right")
        for size in sizes:
            of_size = [record for record in records if record["rows"] == size]
            count = len({record["network"] for record in of_size})
            cells = [
                cell([record[measure] for record in of_size if record["method"] == method])
                for method in methods
            ]
            table.add_row(f"{size:,}", str(count), *cells)
        Console(width=100).print(table)


def cell(values: list[float | None]) -> str:
    """The mean over the networks, as text."""
    known = [value for value in values if value is not None]
    return f"{np.mean(known):.2f}" if len(known) == len(values) else "inf"


def main() -> None:
    """Fit, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--cuts", type=int, default=5, help="random parts of each size")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    methods = options.methods.split(",")
    sizes = [int(size) for size in options.sizes.split(",")]
    tasks = [
        Task(network, size, cut, tuple(methods))
        for network in networks()
        for size in sizes
        if size <= len(load(network).val_labels)
        for cut in range(options.cuts)
    ]
    with ProcessPoolExecutor(options.workers) as pool:
        found = list(track(pool.map(run, tasks), "fitting", len(tasks)))
    records = summary(tasks, found)
    show(records, methods, sizes)
    lines = ",\n".join(json.dumps(record) for record in records)
    options.out.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
