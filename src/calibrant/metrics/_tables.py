"""Metrics in tables: every one is named and printed the same way, everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calibrant.metrics._intervals import Estimate
from calibrant.metrics._metric import Metric
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


def p_text(p_value: float) -> str:
    """A p-value; none is 0."""
    return "<0.001" if p_value < 0.0005 else f"{p_value:.3f}"


def p_value_cell(metric: Metric, estimate: Estimate) -> str:
    """The p-value, where there is one."""
    return "" if estimate.p_value is None else p_text(estimate.p_value)


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
