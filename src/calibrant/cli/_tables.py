"""Tables on standard output: metrics are named, written and compared as the registry says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from calibrant._errors import printable

if TYPE_CHECKING:
    from rich.table import Table

    from calibrant.comparison import Comparison


def print_table(table: Table) -> None:
    """Print a table, fitted to the width of the terminal as far as its columns allow."""
    from rich.console import Console

    console = Console()
    unlimited = console.options.update(max_width=10_000)
    console.width = max(console.width, console.measure(table, options=unlimited).minimum)
    console.print(table)


def metric_table(
    title: str,
    judged: Mapping[str, Mapping[str, float]],
    n_bins: int,
    fit_ms: Sequence[float] = (),
) -> Table:
    """One row per set of probabilities; the best value of each metric is marked."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from calibrant.metrics import METRICS
    from calibrant.metrics._tables import counted, marked_column, unit_note

    title = printable(title)
    names = list(next(iter(judged.values())))
    mark = "; * the best of its column" if len(judged) > 1 else ""
    caption = f"Metrics: {unit_note(names)}; {counted(n_bins, 'bin')}{mark}."
    table = Table(
        title=Text(title, style="table.title"),  # no markup: a file's name may hold [brackets]
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        min_width=max(len(title), len(caption)) + 1,
        collapse_padding=True,
        pad_edge=False,
    )
    columns = {
        METRICS[name].heading: marked_column(METRICS[name], [row[name] for row in judged.values()])
        for name in names
    }
    if fit_ms:
        columns["Fit (ms)"] = [f"{milliseconds:.1f}" for milliseconds in fit_ms]
    table.add_column("")
    for heading, cells in columns.items():
        widest = max(map(len, [heading, *cells]))
        table.add_column(heading, justify="right", min_width=widest, no_wrap=True)
    for row in zip(judged, *columns.values(), strict=True):
        table.add_row(*(f"[bold green]{cell}[/]" if "*" in cell else cell for cell in row))
    return table


def comparison_table(title: str, results: Comparison, names: Sequence[str] = ()) -> Table:
    """One row per method, called by these names in place of its acronym."""
    judged = {
        name: result.values
        for name, result in zip(names or [r.method for r in results], results, strict=True)
    }
    times = [1000.0 * result.fit_seconds for result in results]
    return metric_table(title, judged, results.n_bins, times)
