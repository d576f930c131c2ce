"""Rows of experiments as tables: means and spreads over seeds, beside the published numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant_papers.experiments import FRACTIONS, METHODS
from calibrant_papers.logit_sets import IMAGENET, ON_CIFAR, PAPER_ROWS, STAND_INS, of_the_paper

Row = dict[str, Any]
PERCENT = 100.0


@cache
def published() -> dict[str, dict[str, dict[str, float | None]]]:
    """The paper's Tables 1-5: {table: {row: {column: number}}}."""
    text = (files("calibrant_papers") / "published.json").read_text()
    return dict(json.loads(text))


@dataclass(frozen=True)
class Cell:
    """Our values over seeds, and the paper's number."""

    values: tuple[float, ...]
    published: float | None = None
    infinite: int = 0  # seeds whose value is: there is no mean, then

    @property
    def mean(self) -> float:
        """NaN where nothing was run."""
        return float(np.mean(self.values)) if self.values else float("nan")

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; NaN for fewer than two."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else float("nan")


@dataclass(frozen=True)
class Table:
    """Cells by row and column."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: dict[str, list[Cell]]
    best: Callable[[Sequence[float]], float] | None = min  # what a good value of a row is


class Results:
    """The rows of all experiments."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        _add_gains(self.rows)
        self._index: dict[tuple[Any, ...], dict[int, Row]] = {}
        for row in self.rows:
            key = (row["data"], row["method"], row["fraction"], row["width"], row.get("top_k"))
            self._index.setdefault(key, {})[row["seed"]] = row
        self.names = list(dict.fromkeys(row["data"] for row in self.rows))
        self.seeds = sorted({row["seed"] for row in self.rows})
        self.drawn: dict[tuple[Any, ...], NDArray[np.float64]] = {}  # what ``inference`` made

    def by_seed(
        self,
        data: str,
        method: str,
        fraction: float = 1.0,
        width: int | None = None,
        top_k: int | None = None,
    ) -> dict[int, Row]:
        """The rows of one method on one set."""
        return self._index.get((data, method, fraction, width, top_k), {})

    def values(self, metric: str, data: str, method: str, **where: Any) -> tuple[float, ...]:
        """A metric over the seeds, times 100."""
        found = self.by_seed(data, method, **where).values()
        return tuple(PERCENT * row[metric] for row in found if row[metric] is not None)

    def paired(
        self, metric: str, data: str, methods: Sequence[str], **where: Any
    ) -> NDArray[np.float64]:
        """(methods, seeds): a metric times 100 over the seeds that all the methods have."""
        found = [self.by_seed(data, method, **where) for method in methods]
        seeds = sorted(set.intersection(*(set(rows) for rows in found)))
        return PERCENT * np.array([[rows[seed][metric] for seed in seeds] for rows in found])

    def mean(self, metric: str, data: str, method: str, **where: Any) -> float:
        """The mean over the seeds, times 100."""
        return Cell(self.values(metric, data, method, **where)).mean


def _add_gains(rows: Sequence[Row]) -> None:
    """How much lower the Brier score is than that of the same split's uncalibrated network."""
    base = {(row["data"], row["seed"]): row["brier"] for row in rows if row["method"] == "base"}
    for row in rows:
        row["gain"] = base.get((row["data"], row["seed"]), np.nan) - row["brier"]


STAND_IN = "architecture stand-in on CIFAR-100"


def row_label(name: str) -> str:
    """A set's name, and what it stands in for."""
    return f"{name} ({STAND_IN})" if name in STAND_INS else name


def metric_table(
    results: Results,
    metric: str,
    methods: Sequence[str],
    title: str,
    note: str = "",
    best: Callable[[Sequence[float]], float] = min,
) -> Table:
    """Tables 1-3: one metric of all methods on the paper's networks, stand-ins by their name.

    The paper's ImageNet networks keep their rows where they were not run.
    """
    names = of_the_paper(results.names)
    rows = {row_label(name): _cells(results, metric, methods, name) for name in names}
    for name in IMAGENET:
        paper = published().get(metric, {})
        if name not in results.names and paper and set(names) & {*PAPER_ROWS, *STAND_INS}:
            known = paper[PAPER_ROWS[name]]
            rows[PAPER_ROWS[name]] = [Cell((), known.get(METHODS[m].published)) for m in methods]
    shared = [name for name in names if name in ON_CIFAR]
    if shared:
        rows[f"mean of the paper's {len(shared)} on CIFAR"] = [
            _column_mean(results, shared, metric, key, _published_mean(shared, metric, key))
            for key in methods
        ]
    stand_ins = sum(name in STAND_INS for name in names)
    whose = f", {stand_ins} of them stand-ins" if stand_ins else ""
    rows[f"mean of all {len(names)}{whose}"] = [
        _column_mean(results, names, metric, key) for key in methods
    ]
    labels = tuple(METHODS[key].label for key in methods)
    return Table(title, note, labels, rows, best)


def others_table(results: Results, methods: Sequence[str], title: str) -> Table | None:
    """The ECE on the sets that are in no table of the paper; None where there are none."""
    names = [name for name in results.names if name not in of_the_paper(results.names)]
    rows = {row_label(name): _cells(results, "ece", methods, name) for name in names}
    return Table(title, "", tuple(METHODS[key].label for key in methods), rows) if rows else None


def _cells(results: Results, metric: str, methods: Sequence[str], name: str) -> list[Cell]:
    known = published().get(metric, {}).get(PAPER_ROWS.get(name, ""), {})
    return [
        _cell(
            [row[metric] for row in results.by_seed(name, key).values()],
            known.get(METHODS[key].published),
        )
        for key in methods
    ]


def _cell(values: Sequence[float | None], theirs: float | None = None) -> Cell:
    """A metric over the seeds, times 100; None is a value that is infinite."""
    infinite = sum(value is None for value in values)
    finite = tuple(PERCENT * value for value in values if value is not None)
    return Cell(() if infinite else finite, theirs, infinite)


def _column_mean(
    results: Results, names: Sequence[str], metric: str, method: str, theirs: float | None = None
) -> Cell:
    """The mean over the sets for each seed; only seeds that every set has."""
    by_set = [results.by_seed(name, method) for name in names]
    seeds = set.intersection(*(set(rows) for rows in by_set)) if by_set else set()
    columns = [[rows[seed][metric] for rows in by_set] for seed in sorted(seeds)]
    return _cell([None if None in one else float(np.mean(one)) for one in columns], theirs)


def _published_mean(names: Sequence[str], metric: str, method: str) -> float | None:
    """The paper's mean over these networks."""
    column = METHODS[method].published
    rows = [published().get(metric, {}).get(PAPER_ROWS[name], {}) for name in names]
    values = [row.get(column) for row in rows] if column else []
    kept = [value for value in values if value is not None]
    return float(np.mean(kept)) if kept else None


def normalised_table(
    results: Results, group: Sequence[str], over: str, methods: Sequence[str]
) -> Table:
    """Table 4: ECE divided by that of PTS at the same size, mean over the sets.

    The paper's numbers are of ImageNet: beside those of stand-ins they have rows of their own.
    """
    real = set(group) <= set(IMAGENET)
    rows, theirs = {}, {}
    for fraction in FRACTIONS:
        percent = f"{100 * fraction:.0f}%"
        known = published()["normalised_ece"].get(f"{100 * fraction:.0f}", {})
        paper = [known.get(METHODS[key].published) for key in methods]
        ratios = [_ratios(results, group, key, over, fraction) for key in methods]
        pairs = zip(ratios, paper if real else [None] * len(methods), strict=True)
        rows[percent if real else f"{percent}, stand-ins"] = [Cell(*pair) for pair in pairs]
        theirs[f"{percent}, ImageNet"] = [Cell((), number) for number in paper]
    labels = tuple(METHODS[key].label for key in methods)
    title = f"ECE divided by that of {METHODS[over].label}, by part of the validation rows"
    return Table(title, "", labels, rows if real else rows | theirs, None)


def _ratios(
    results: Results, group: Sequence[str], method: str, over: str, fraction: float
) -> tuple[float, ...]:
    """The mean ratio over the sets, for each seed that both methods have."""
    pairs = [
        (results.by_seed(name, method, fraction), results.by_seed(name, over, fraction))
        for name in group
    ]
    seeds = set.intersection(*(set(a) & set(b) for a, b in pairs)) if pairs else set()
    return tuple(
        float(np.mean([_ratio(a[seed]["ece"], b[seed]["ece"]) for a, b in pairs]))
        for seed in sorted(seeds)
    )


def _ratio(one: float, other: float) -> float:
    """NaN where nothing can be divided: a set without a single error has an ECE of 0."""
    return one / other if other else float("nan")


def linear_table(results: Results, group: Sequence[str]) -> Table:
    """Table 5: a network without a nonlinearity against PTS, under either recipe."""
    columns = ("linear-paper", "pts-paper", "linear", "pts")
    rows = {}
    for name in group:
        known = published()["linear"].get(PAPER_ROWS.get(name, ""), {})
        pairs = [results.paired("ece", name, columns[i : i + 2]) for i in (0, 2)]
        rows[row_label(name)] = [
            Cell(tuple(values.tolist()), known.get(METHODS[key].published))
            for key, values in zip(columns, [row for pair in pairs for row in pair], strict=True)
        ]
    means = [[cell.mean for cell in column] for column in zip(*rows.values(), strict=True)]
    rows[f"mean of all {len(group)}"] = [
        Cell((float(np.mean(column)),) if column else ()) for column in means
    ]
    if not set(group) <= set(IMAGENET):
        for row, known in published()["linear"].items():
            rows[row] = [Cell((), known[METHODS[key].published]) for key in columns]
    return Table(
        "ECE of the linear model and of PTS", "", tuple(METHODS[k].label for k in columns), rows
    )
