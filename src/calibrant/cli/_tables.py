"""Tables on standard output: by rich in a terminal, as plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from calibrant.common.tables import Shown


def show(result: Shown, about: str = "") -> None:
    """Print a result, with what it is about before the title of its first table."""
    from calibrant.common.tables import Tables

    first, *others = result._tables()
    if about:
        first = replace(first, title=f"{about}: {first.title}")
    result = Tables([first, *others])
    if sys.stdout.isatty():
        print_table(result.__rich__())
    else:
        typer.echo(str(result))


def print_table(table: RenderableType) -> None:
    """Print by rich, fitted to the width of the terminal as far as its columns allow."""
    from rich.console import Console

    console = Console()
    unlimited = console.options.update(max_width=10_000)
    console.width = max(console.width, console.measure(table, options=unlimited).minimum)
    console.print(table)


def metric_table(title: str, judged: Mapping[str, Mapping[str, float]]) -> Shown:
    """One row per set of probabilities; there is no best one, since nothing here tells noise."""
    from calibrant.common.tables import Table, Tables
    from calibrant.metrics import METRICS

    names = list(next(iter(judged.values())))
    rows = [
        [subject, *(METRICS[name].format(values[name]) for name in names)]
        for subject, values in judged.items()
    ]
    return Tables([Table(["", *(METRICS[name].column_head for name in names)], rows, title)])
