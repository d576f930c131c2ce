"""Metrics in tables: every one is named and printed the same way, everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from calibrant.metrics._intervals import Estimate
from calibrant.metrics._metric import Metric
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._registry import METRICS

Cell = Callable[[Metric, Estimate], str]


def value_cell(metric: Metric, estimate: Estimate) -> str:
    """The value."""
    return metric.format(estimate.value)


def interval_text(metric: Metric, low: float | None, high: float | None) -> str:
    """Both ends, where there are some."""
    return "" if low is None or high is None else f"{metric.format(low)} .. {metric.format(high)}"


def interval_cell(metric: Metric, estimate: Estimate) -> str:
    """The confidence interval, where there is one."""
    return interval_text(metric, estimate.low, estimate.high)


def p_text(p_value: float, n_resamples: int | None = None) -> str:
    """A p-value, as a bound where it is too small to be known or to be printed.

    The rank among ``n_resamples`` draws is never below 1 / (1 + draws), however strong the evidence
    is: at that floor the p-value is only known to be at most that.

    >>> p_text(0.0049751, 200), p_text(0.0312, 200), p_text(1e-9)
    ('<= 0.005', '0.031', '< 0.001')
    """
    floor = 0.0 if n_resamples is None else 1.0 / (1.0 + n_resamples)
    if floor >= 0.001 and p_value <= floor * (1.0 + 1e-9):
        return f"<= {ceil(1000.0 * floor - 1e-9) / 1000.0:.3f}"
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def p_value_cell(n_resamples: int) -> Cell:
    """The p-value from so many draws, where there is one."""

    def cell(metric: Metric, estimate: Estimate) -> str:
        return "" if estimate.p_value is None else p_text(estimate.p_value, n_resamples)

    return cell


def of_class_1(notion: RowNotion) -> str:
    """What the title of a table adds where class 1 is judged."""
    return ", calibration of class 1" if notion == "class-1" else ""


def part_cell(name: str) -> Cell:
    """Another part of the estimate, printed like the value, where there is one."""

    def cell(metric: Metric, estimate: Estimate) -> str:
        value: float | None = getattr(estimate, name)
        return "" if value is None else metric.format(value)

    return cell


def estimate_rows(estimates: Mapping[str, Estimate], cells: Sequence[Cell]) -> dict[str, list[str]]:
    """The rows of a table of estimates, by the metrics' names."""
    return {
        name: [METRICS[name].label, *(cell(METRICS[name], estimate) for cell in cells)]
        for name, estimate in estimates.items()
    }


def estimate_columns(estimates: Mapping[str, Estimate]) -> dict[str, list[Any]]:
    """The columns of a frame of estimates, one row per metric; ``max_error`` where one has it."""
    parts = ("value", "low", "high", "null", "p_value", "std_error", "max_error")
    columns: dict[str, list[Any]] = {"metric": list(estimates)}
    for part in parts:
        values = [getattr(estimate, part) for estimate in estimates.values()]
        if part != "max_error" or any(value is not None for value in values):
            columns[part] = values
    return columns
