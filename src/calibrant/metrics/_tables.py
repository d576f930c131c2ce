"""Tables of metrics as text and as HTML: every metric is printed the same way, everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from calibrant.metrics._intervals import Estimate
from calibrant.metrics._metric import Metric
from calibrant.metrics._registry import METRICS

_MARK = "* "  # before the best value of a column


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column says what a row is."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def filled(self) -> Table:
        """The same table without columns in which no row has anything."""
        kept = [i for i in range(len(self.header)) if i == 0 or any(row[i] for row in self.rows)]
        return Table([self.header[i] for i in kept], [[row[i] for i in kept] for row in self.rows])

    def text(self) -> str:
        """Aligned text: the first column to the left, numbers to the right."""
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if index == 0 else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def html(self) -> str:
        """A table for notebooks; marked cells are bold."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in self.header)
        body = "".join(f"<tr>{_html_row(row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html_row(row: Sequence[str]) -> str:
    cells = [f"<th>{escape(row[0])}</th>"]
    for cell in row[1:]:
        text = escape(cell.removeprefix(_MARK))
        cells.append(f"<td><b>{text}</b></td>" if cell.startswith(_MARK) else f"<td>{text}</td>")
    return "".join(cells)


# --- metrics in tables ------------------------------------------------------------------------

Cell = Callable[[Metric, Estimate], str]


def value_cell(metric: Metric, estimate: Estimate) -> str:
    """The value."""
    return metric.format(estimate.value)


def interval_cell(metric: Metric, estimate: Estimate) -> str:
    """The confidence interval, where there is one."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{metric.format(estimate.low)} .. {metric.format(estimate.high)}"


def p_value_cell(metric: Metric, estimate: Estimate) -> str:
    """The p-value, where there is one."""
    return "" if estimate.p_value is None else f"{estimate.p_value:.3f}"


def part_cell(name: str) -> Cell:
    """Another part of the estimate, printed like the value, where there is one."""

    def cell(metric: Metric, estimate: Estimate) -> str:
        value: float | None = getattr(estimate, name)
        return "" if value is None else metric.format(value)

    return cell


def estimate_rows(estimates: Mapping[str, Estimate], cells: Sequence[Cell]) -> dict[str, list[str]]:
    """The rows of a table of estimates, by the metrics' names."""
    return {
        name: [METRICS[name].heading, *(cell(METRICS[name], estimate) for cell in cells)]
        for name, estimate in estimates.items()
    }


def marked_column(metric: Metric, values: Sequence[float]) -> list[str]:
    """The values of one metric; the best of them is marked, unless all read the same."""
    best = metric.best(values)
    return [
        f"{_MARK}{metric.format(value)}" if mark else metric.format(value)
        for value, mark in zip(values, best, strict=True)
    ]


def unit_note(names: Iterable[str]) -> str:
    """How to read the numbers: "all but the NLL times 100"."""
    names = list(names)
    plain = [METRICS[name].heading for name in names if METRICS[name].unit == "plain"]
    if len(plain) == len(names):
        return "as they are"
    return f"all but the {' and the '.join(plain)} times 100" if plain else "all times 100"


def counted(number: int, word: str) -> str:
    """A number and its noun: "1 row", "2,000 rows", "10 classes"."""
    plural = f"{word}es" if word.endswith("s") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"
