"""Which weights should `auto` give its methods? Rules compared on the same held-out losses.

    python benchmarks/pool_rules.py [--sizes 30,100] [--cuts 2] [--data FOLDER] [--jobs 2]

The score sets and cuts are those of ``automatic.py``. Every method is fitted once on a cut and
judged by the same held-out rows; a rule makes weights of the held-out losses. Printed are, for each
rule, the mean NLL of the average less that of no calibration (thousandths of a nat), the ECE beyond
chance (percent), the share of cuts with an NLL more than 0.02 nats above that of no calibration,
and the worst. Below is the bias of the reported held-out loss, with and without its correction.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

# One core a process: the processes are the parallelism here. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from automatic import MOST_TEST_ROWS, Cut, cuts, floored, group_of, load, set_names
from calibrant.calibrators import AutoCalibrator, _pooling, automatic
from calibrant.common.errors import noted
from calibrant.data.folds import folds_of
from calibrant.data.rows import Rows
from calibrant.data.weights import shares
from calibrant.formulas import FormulaRows
from calibrant.formulas._array_operations import NUMPY
from quality import judge

STEPS = 300  # of expectation maximisation
Rule = Callable[[_pooling.Judged], np.ndarray]


def gibbs(rate: float, prior: float) -> Rule:
    """exp(-rate n d), the scores as they are with a prior weight."""

    def weights(judged: _pooling.Judged) -> np.ndarray:
        base = np.array([name == _pooling.UNCALIBRATED for name in judged.names])
        logs = np.log(np.where(base, prior, 1.0)) - rate * judged.rows * judged.means
        found = np.exp(logs - logs.max())
        return found / found.sum()

    return weights


def stacked(prior_rows: float) -> Rule:
    """Weights of largest likelihood, with a prior worth so many rows."""

    def weights(judged: _pooling.Judged) -> np.ndarray:
        likely = np.exp(judged.losses.min(axis=0) - judged.losses)
        found = np.full(len(likely), 1.0 / len(likely))
        number = judged.rows * shares(judged.weight)
        for _ in range(STEPS):
            joint = found[:, None] * likely
            found = (joint / joint.sum(axis=0)) @ number + prior_rows / len(likely)
            found /= found.sum()
        return found

    return weights


def lowest(judged: _pooling.Judged) -> np.ndarray:
    """All weight to the lowest held-out loss."""
    return np.eye(len(judged.losses))[int(np.argmin(judged.means))]


RULES: dict[str, Rule] = {
    "lowest held-out loss": lowest,
    **{f"exp(-{rate:g} n d)": gibbs(rate, 1.0) for rate in (1.0, 0.5, 0.25, 0.125)},
    **{f"stacking, prior of {rows:g} rows": stacked(rows) for rows in (1.0, 10.0)},
    **{f"exp(-n d / 2), base x {prior:g}": gibbs(0.5, prior) for prior in (2.0, 3.0, 4.0)},
    "as it is": lambda judged: judged.chosen(),
}


def run(task: Cut) -> dict[str, Any]:
    """NLL and ECE beyond chance of every rule on one cut."""
    name, size, seed = task
    scores, labels, kind = load(name)
    order, half = np.random.default_rng(seed).permutation(len(labels)), len(labels) // 2
    most = next(rows for limit, rows in MOST_TEST_ROWS.items() if scores.shape[1] <= limit)
    fit, test = order[:half][:size], order[half:][:most]
    auto = AutoCalibrator(input=kind)
    with warnings.catch_warnings(), noted():
        warnings.simplefilter("ignore")
        data = auto._labelled_logits(Rows.of(scores[fit], labels[fit], input=kind))
        data = data.in_canonical_order()
        folds = folds_of(data)
        names = ["base", automatic.SHARES, *automatic._suitable(data)]
        candidates = list(auto._candidates(names, data, data, folds))
        held_out = np.stack([one.held_out for one in candidates])
        judged = _pooling.Judged([one.name for one in candidates], held_out, folds.weight)
        logits = np.ascontiguousarray(Rows.unlabelled(scores[test], kind, None).as_logits())
        rows = FormulaRows(logits.astype(np.float64))
        probs = np.stack([one.fit()[0].probabilities(rows, NUMPY) for one in candidates])
    result: dict[str, Any] = {"set": name, "size": size, "classes": scores.shape[1]}
    for rule, weights_of in {"base": lambda _: np.eye(len(probs))[0], **RULES}.items():
        pooled = floored(np.tensordot(weights_of(judged), probs, 1))
        found = judge(pooled, labels[test], seed)
        result[rule] = 10.0 * found["nll"], found["excess"]
    told = float(shares(judged.weight) @ judged.pooled(judged.chosen()))
    plain = float(judged.means[0]) * 1000.0 - result["base"][0]  # the luck of these rows
    result["bias"] = 1000.0 * told - result["as it is"][0] - plain
    result["corrected"] = result["bias"] + 1000.0 * judged.optimism()
    result["agreement"] = judged.agreement()
    return result


def show(rows: list[dict[str, Any]], console: Console) -> None:
    """A table for each size."""
    for size in sorted({row["size"] for row in rows}):
        for group in ("all", "images"):
            some = [
                r
                for r in rows
                if r["size"] == size and group in ("all", group_of(r["set"], r["classes"]))
            ]
            if not some:
                continue
            console.print(table_of(f"{group}, {size} rows", some))
            told = [np.mean([row[name] for row in some]) for name in ("bias", "corrected")]
            agreement = np.mean([row["agreement"] for row in some])
            console.print(
                f"held-out loss less that of the judged rows: {told[0]:+.1f}, corrected "
                f"{told[1]:+.1f}; halves agree in {agreement:.0%}\n"
            )


def table_of(title: str, rows: list[dict[str, Any]]) -> Table:
    """A line per rule."""
    table = Table(title=f"{title} ({len(rows)} cuts)", title_justify="left")
    for column in ("rule", "NLL - base", "ECE beyond chance", "harm", "worst"):
        table.add_column(column, justify="left" if column == "rule" else "right")
    for rule in RULES:
        more = np.array([row[rule][0] - row["base"][0] for row in rows])
        error = np.mean([row[rule][1] for row in rows])
        table.add_row(
            rule, f"{more.mean():+.1f}", f"{error:.2f}", f"{np.mean(more > 20.0):.1%}",
            f"{more.max():+.0f}",
        )  # fmt: skip
    return table


def main() -> None:
    """Cut, fit, weigh, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", default="30,100,300")
    parser.add_argument("--cuts", type=int, default=2, help="of each set and size")
    parser.add_argument("--data", help="a folder of further .npz files")
    parser.add_argument("--only", default="", help="only sets whose names hold this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    names = [name for name in set_names(arguments.data) if arguments.only in name]
    tasks = list(cuts(names, [int(size) for size in arguments.sizes.split(",")], arguments.cuts))
    console = Console(width=110)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        rows = list(track(pool.map(run, tasks), "cuts", len(tasks), console=Console(stderr=True)))
    show(rows, console)


if __name__ == "__main__":
    main()
