"""Tables on standard output."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = {
    "accuracy": "Accuracy",
    "ece": "ECE",
    "classwise_ece": "Classwise",
    "brier": "Brier",
    "nll": "NLL",
}


def print_table(table: Table) -> None:
    """Print a table, fitted to the width of the terminal."""
    from rich.console import Console

    Console().print(table)


def metric_table(title: str, judged: Mapping[str, Mapping[str, float]], bins: int) -> Table:
    """One row a set of probabilities; the best value of each metric is marked."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    timed = any("fit_ms" in values for values in judged.values())
    mark = "; * the best of its column" if len(judged) > 1 else ""
    table = Table(
        title=escape(title),  # a file's name may hold [brackets]
        title_justify="left",
        caption=f"Metrics times 100; ECE in {bins} bins{mark}.",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        min_width=64,
    )
    table.add_column("")
    shown = [metric for metric in HEADINGS if all(metric in values for values in judged.values())]
    for heading in [*(HEADINGS[metric] for metric in shown), *(["Fit (ms)"] if timed else [])]:
        table.add_column(heading, justify="right")
    columns = [_marked(judged, metric) for metric in shown]
    if timed:
        columns.append([f"{values['fit_ms']:.1f}" for values in judged.values()])
    for row in zip(judged, *columns, strict=True):
        table.add_row(*row)
    return table


def _marked(judged: Mapping[str, Mapping[str, float]], metric: str) -> list[str]:
    """A column as text; nothing is marked where all values read the same."""
    shown = [round(100.0 * values[metric], 2) for values in judged.values()]
    best = max(shown) if metric == "accuracy" else min(shown)
    if len(set(shown)) == 1:
        best = math.nan
    return [f"[bold green]* {x:.2f}[/]" if x == best else f"{x:.2f}" for x in shown]
