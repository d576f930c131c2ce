"""Metrics in tables and reports: every one is named and printed the same way, everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Any

import numpy as np

from calibrant.common.json import PlainDocument
from calibrant.common.tables import Backend, Shown, Table, counted, frame_of
from calibrant.data.binning import BinStats
from calibrant.metrics._bins import Reads
from calibrant.metrics._intervals import Estimate
from calibrant.metrics._meter_state import MeterState
from calibrant.metrics._metric import Metric
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._registry import METRICS
from calibrant.metrics.binned import merged_equal_mass
from calibrant.metrics.decomposition import BrierDecomposition, binned_saving, decomposed

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


# --- reports ----------------------------------------------------------------------------------


def missing(owner: object, name: str, computed: Iterable[str]) -> AttributeError:
    """The error for a name that is no attribute and was not computed."""
    return AttributeError(
        f"{type(owner).__name__} has no {name!r}; computed were {', '.join(computed)}"
    )


@dataclass(frozen=True, repr=False)
class MetricReport(Shown, PlainDocument):
    """Metrics of one set of probabilities; the base of ``Evaluation`` and ``MeterReport``."""

    n_rows: int
    n_classes: int
    metrics: dict[str, Estimate]
    brier_decomposition: BrierDecomposition | None
    bins: BinStats
    notion: RowNotion

    def __repr__(self) -> str:
        found = (f"{name}={known.value:.4g}" for name, known in self.metrics.items())
        return f"{type(self).__name__}({self._sizes()}: {', '.join(found)})"

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Convert to a data frame: one row per metric, every number as a fraction.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default "pandas"
            The library, which must be installed.

        Returns
        -------
        DataFrame
            The columns ``metric``, ``value``, ``low``, ``high``, ``null``, ``p_value`` and
            ``std_error``; what is not known is missing.
        """
        return frame_of(self._columns(), backend)

    def _columns(self) -> dict[str, list[Any]]:
        """One row per metric; ``max_error`` where one has it."""
        parts = ("value", "low", "high", "null", "p_value", "std_error", "max_error")
        columns: dict[str, list[Any]] = {"metric": list(self.metrics)}
        for part in parts:
            values = [getattr(estimate, part) for estimate in self.metrics.values()]
            if part != "max_error" or any(value is not None for value in values):
                columns[part] = values
        return columns

    def _sizes(self) -> str:
        return f"{counted(self.n_rows, 'row')}, {counted(self.n_classes, 'class')}"

    def _headline(self) -> str:
        return f"{self._sizes()}, {counted(len(self.bins.weight), 'bin')}"


# --- of meters --------------------------------------------------------------------------------


_PARTS = {"_std_error": "std_error", "_null": "null", "_error": "max_error"}
_COLUMNS = {
    "value": value_cell,
    "std. error": part_cell("std_error"),
    "if calibrated": part_cell("null"),
    "max. error": part_cell("max_error"),
}


@dataclass(frozen=True, repr=False)
class MeterReport(MetricReport):
    """Metrics of all rows that a meter has seen, as fractions; ``print`` shows a table.

    The values are attributes, too: ``report.ece`` is the number ``report.metrics["ece"].value``,
    and ``report.ece_null``, ``report.nll_std_error`` and ``report.adaptive_ece_error`` are the
    other numbers of their estimates.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_classes : int
        The number of classes.
    metrics : dict of str to Estimate
        The metrics by name. Scores have the standard error of their mean. The ECE has as ``null``
        the mean ECE of a calibrated model with these confidences, by a normal approximation in
        each bin. The adaptive ECE comes from cells 2^-14 wide: the value from the rows themselves
        lies within ``max_error`` of it.
    brier_decomposition : BrierDecomposition or None
        The parts of the Brier score, by shifting the bins of the classes; None where the meter
        was told not to keep them.
    bins : BinStats
        The equal-width bins of the judged probability.
    notion : {"class-1", "confidence"}
        Whose calibration the errors are: class 1's of two classes, or the confidence's.
    n_unlabelled : int, default 0
        The rows of a stream that were left out because they have no label.
    """

    n_unlabelled: int = 0

    def __getattr__(self, name: str) -> float:
        metrics: dict[str, Estimate] = self.__dict__.get("metrics", {})
        if name in metrics:
            return metrics[name].value
        for ending, part in _PARTS.items():
            estimate = metrics.get(name.removesuffix(ending)) if name.endswith(ending) else None
            value = None if estimate is None else getattr(estimate, part)
            if value is not None:
                return float(value)
        raise missing(self, name, metrics)

    def _tables(self) -> list[Table]:
        rows = estimate_rows(self.metrics, list(_COLUMNS.values()))
        table = Table(
            ["", *_COLUMNS], list(rows.values()), title=self._headline() + of_class_1(self.notion)
        )
        return [table.filled()]


def report(state: MeterState) -> MeterReport:
    """Everything that the sums determine."""
    layout, total = state.layout, float(state.sum("weight"))

    @cache
    def stats(reads: Reads) -> BinStats:
        """The bins that the sums have, or that the cells make up."""
        if reads == "equal-mass":
            return merged_equal_mass(stats("cells"), layout.n_bins)
        return state.stats(reads)

    means = _means(state)
    metrics: dict[str, Estimate] = {}
    for metric in METRICS.values():
        merging = metric.merging
        if merging is None or (state.weighted and not metric.weighted):
            continue
        reads = merging.reads or metric.reads
        if not metric.is_error:
            if metric.name in means:
                metrics[metric.name] = means[metric.name]
        elif reads != "classes" or layout.classwise:
            null = max_error = None
            if merging.null is not None:
                null = merging.null(state.sum("null_variance"), total)
            if merging.max_error is not None:
                max_error = merging.max_error(stats("cells"), layout.n_bins)
            value = metric.from_bins(stats(reads))
            metrics[metric.name] = Estimate(value, null=null, max_error=max_error)
    decomposition = None
    if "brier" in means and layout.classwise:
        shares = state.sum("label_weight") / total
        saving = binned_saving(stats("classes"))
        decomposition = decomposed(means["brier"].value, saving, shares)
    bins = stats("equal-width")
    return MeterReport(
        n_rows=state.n_rows,
        n_classes=layout.n_classes,
        metrics=metrics,
        brier_decomposition=decomposition,
        bins=BinStats(bins.edges, *(column.copy() for column in bins.columns)),
        notion=layout.notion,
    )


def _means(state: MeterState) -> dict[str, Estimate]:
    """Means of the scores and their standard errors, sqrt(sum w^2 (s - mean)^2) / sum w."""
    total = float(state.sum("weight"))
    first, weighted, squares = state.sum("moments").T
    means = first / total
    # by shares of the weight, so that no product of extreme weights and scores overflows
    even = float(state.sum("weight_squares")) / total**2
    variance = squares / total**2 - 2.0 * means * (weighted / total**2) + means**2 * even
    errors = np.sqrt(np.maximum(variance, 0.0))
    infinite = state.count("infinite") > 0
    means, errors = (np.where(infinite, np.inf, column) for column in (means, errors))
    return {
        name: Estimate(float(mean), std_error=float(error))
        for name, mean, error in zip(state.layout.scores, means, errors, strict=True)
    }
