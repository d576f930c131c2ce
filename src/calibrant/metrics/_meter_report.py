"""What a meter tells: every metric that its sums determine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from calibrant.common.tables import Table
from calibrant.data.binning import BinStats
from calibrant.metrics._intervals import Estimate
from calibrant.metrics._meter_state import MeterState
from calibrant.metrics._metric import Merging, Metric
from calibrant.metrics._readings import Reads
from calibrant.metrics._registry import METRICS
from calibrant.metrics._report import MetricReport, missing
from calibrant.metrics._tables import estimate_rows, of_class_1, part_cell, value_cell
from calibrant.metrics.binned import merged_equal_mass
from calibrant.metrics.decomposition import BrierDecomposition, binned_saving, decomposed

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
    means = _means(state)
    stats = cache(lambda reads: _merged_bins(state, reads))
    metrics: dict[str, Estimate] = {}
    for metric in METRICS.values():
        if metric.merging is None or (state.weighted and not metric.weighted):
            continue
        if metric.is_error:
            estimate = _error(metric, metric.merging, state, stats)
        else:
            estimate = means.get(metric.name)
        if estimate is not None:
            metrics[metric.name] = estimate
    bins = state.stats("equal-width")
    return MeterReport(
        n_rows=int(state.count("rows")),
        n_classes=state.layout.n_classes,
        metrics=metrics,
        brier_decomposition=_decomposition(state, means.get("brier")),
        bins=BinStats(bins.edges, *(column.copy() for column in bins.columns)),
        notion=state.layout.notion,
    )


def _merged_bins(state: MeterState, reads: Reads) -> BinStats:
    """The bins that the sums have, or that its cells make up."""
    if reads == "equal-mass":
        return merged_equal_mass(state.stats("cells"), state.layout.n_bins)
    return state.stats(reads)


def _error(
    metric: Metric, merging: Merging, state: MeterState, stats: Callable[[Reads], BinStats]
) -> Estimate | None:
    """A calibration error; None where the meter does not keep what it reads."""
    reads = merging.reads or metric.reads
    if reads == "classes" and not state.layout.classwise:
        return None
    null = max_error = None
    if merging.null is not None:
        null = merging.null(state.sum("null_variance"), float(state.sum("weight")))
    if merging.max_error is not None:
        max_error = merging.max_error(stats("cells"), state.layout.n_bins)
    return Estimate(metric.from_bins(stats(reads)), null=null, max_error=max_error)


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


def _decomposition(state: MeterState, brier: Estimate | None) -> BrierDecomposition | None:
    """The parts of the Brier score, from the bins of the classes."""
    if brier is None or not state.layout.classwise:
        return None
    shares = state.sum("label_weight") / float(state.sum("weight"))
    return decomposed(brier.value, binned_saving(state.stats("classes")), shares)
