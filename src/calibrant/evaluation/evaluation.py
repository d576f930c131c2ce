"""Everything about one set of probabilities: values, how sure they are, what noise would show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from calibrant.common.docstrings import documented
from calibrant.common.progress import reporter
from calibrant.common.tables import Table
from calibrant.common.types import InputKind, Progress, RandomState, RowRule, generator
from calibrant.metrics import _intervals as intervals
from calibrant.metrics import _reports as reports
from calibrant.metrics._bins import DEFAULT_BINS, bins_of
from calibrant.metrics._intervals import Estimate
from calibrant.metrics._labelled import labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._registry import METRICS, default_metrics, metrics_named
from calibrant.metrics.decomposition import split_brier
from calibrant.metrics.kernel import SKCETest, quick_skce_test
from calibrant.metrics.spiegelhalter import ZTest, promised_brier

__all__ = ["Estimate", "Evaluation", "evaluate"]

_NOTIONS: dict[str | None, str] = {
    "confidence": "of the confidence:",
    "top-label": "of the confidence, by predicted class:",
    "class-1": "of class 1:",
    "classwise": "of every class:",
}


@dataclass(frozen=True, repr=False)
class Evaluation(reports.MetricReport):
    """Metrics of one set of probabilities, as fractions; ``print`` shows a table.

    Every metric that was computed is an attribute, too: ``evaluation.ece`` is
    ``evaluation.metrics["ece"]``. The interval of a calibration error is that of the true error, to
    which the noise of the labels adds nothing: it may lie below the value, as ``null`` (the mean
    value of a calibrated model with the same predictions) may lie far above 0.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_classes : int
        The number of classes.
    metrics : dict of str to Estimate
        The metrics by name.
    brier_decomposition : BrierDecomposition or None
        The Brier score as calibration and refinement; None where metrics were named.
    bins : BinStats
        The equal-width bins of the judged probability.
    notion : {"class-1", "confidence"}
        Whose calibration the errors are unless ``notions`` says otherwise.
    level : float
        The level of the intervals.
    n_resamples : int
        How often rows and labels were drawn.
    skce : SKCETest or None
        The kernel test of all classes, of 1,000 rows at most; None where metrics were named, where
        nothing is drawn, and with fewer than two rows.
    spiegelhalter : ZTest or None
        The test of the Brier score; None where metrics were named.
    notions : dict of str to str
        Whose calibration each error is: class 1's of two, the confidence's, or every class'.
    """

    level: float
    n_resamples: int
    skce: SKCETest | None
    spiegelhalter: ZTest | None
    notions: dict[str, str]

    def __getattr__(self, name: str) -> Estimate:
        metrics: dict[str, Estimate] = self.__dict__.get("metrics", {})
        if name not in metrics:
            raise reports.missing(self, name, metrics)
        return metrics[name]

    def _columns(self) -> dict[str, list[Any]]:
        notions = [self.notions.get(name) for name in self.metrics]
        return {**super()._columns(), "notion": notions}

    def _tables(self) -> list[Table]:
        """All metrics, errors by whose calibration they are, and the Brier score with its parts."""
        p_value = reports.p_value_cell(self.n_resamples)
        null = reports.part_cell("null")
        cells = (reports.value_cell, reports.interval_cell, null, p_value)
        found = reports.estimate_rows(self.metrics, cells)
        rows, parts = [], self.brier_decomposition
        titles = {None: "", self.notion: "", **_NOTIONS}  # the judged notion first
        for notion, title in titles.items():
            names = [name for name in found if self.notions.get(name) == notion]
            if names and title:
                rows.append([title, "", "", "", ""])
            for name in names:
                rows.append(found[name])
                if name == "brier" and parts is not None:
                    # a calibrated model's calibration is 0 on average
                    show = METRICS["brier"].format
                    rows.append(["  calibration", show(parts.calibration), "", show(0.0), ""])
                    rows.append(["  refinement", show(parts.refinement), "", "", ""])
        header = ["", "value", f"{self.level:.0%} interval", "if calibrated", "p-value"]
        return [Table(header, rows, self._headline(), self._notes()).filled()]

    def _notes(self) -> list[str]:
        """The tests, and how to read the table."""
        lines = []
        if self.spiegelhalter is not None:
            z, p_value = self.spiegelhalter.z, reports.p_text(self.spiegelhalter.p_value)
            lines.append(f"Spiegelhalter's test: z = {z:.2f}, p-value {p_value}")
        if self.skce is not None:
            p_value = reports.p_text(self.skce.p_value, self.skce.n_resamples)
            test = f"z = {self.skce.z:.2f}, p-value {p_value} (SKCE {self.skce.skce:.2e})"
            lines.append(f"kernel test: {test}")
        if any(estimate.null is not None for estimate in self.metrics.values()):
            lines += [
                "",
                '"if calibrated": what a calibrated model with these predictions would show on '
                "average.",
                "The intervals of errors leave that noise out, so they may lie below the value.",
            ]
        return lines


@documented
def evaluate(
    probs: Any,
    labels: Any,
    *,
    metrics: Iterable[str] | None = None,
    n_bins: int = DEFAULT_BINS,
    level: float = intervals.DEFAULT_LEVEL,
    n_resamples: int = intervals.DEFAULT_RESAMPLES,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
    progress: Progress = False,
) -> Evaluation:
    """Compute metrics, each error beside its value under calibration and its interval.

    Parameters
    ----------
    {probs}
    {labels}
    metrics : iterable of str, optional
        Names in ``calibrant.metrics.METRICS``; all but the rarer errors by default. With two
        classes the default has the ECE of the other notion, too.
    {n_bins}
    level : float, default 0.95
        The level of the intervals.
    n_resamples : int, default 200
        How often rows and labels are drawn. 0 leaves out what needs drawing: values under
        calibration, p-values and the intervals of errors.
    {random_state}
    {notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}
    {progress}

    Returns
    -------
    Evaluation
        The metrics by name, the tests and the bins.

    Raises
    ------
    {refused}

    Notes
    -----
    Metrics that read the same bins share their draws, which follow one another from one stream of
    random numbers: with other metrics named, the draws are others, too, of the same distribution.
    The classwise error costs time proportional to rows x classes x resamples.

    Examples
    --------
    >>> evaluation = evaluate([[0.8, 0.2]] * 50, [0, 0, 1, 0, 1] * 10, metrics=["accuracy", "ece"])
    >>> round(evaluation.ece.value, 4)
    0.2
    >>> evaluation.ece.p_value < 0.05
    True
    """
    intervals.check_resamples(n_resamples, 0)
    intervals.check_level(level)
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    chosen = (
        default_metrics(data.n_classes, data.notion, weighted=data.weighted)
        if metrics is None
        else metrics_named(metrics, weighted=data.weighted)
    )
    rng = generator(random_state)
    with reporter("evaluating", progress) as report:
        found = intervals.estimates_of(chosen, data, n_bins, n_resamples, level, rng, report)
    return Evaluation(
        n_rows=data.n_rows,
        n_classes=data.n_classes,
        metrics={metric.name: found.by_name[metric.name] for metric in chosen},
        brier_decomposition=split_brier(data, generator(random_state)) if metrics is None else None,
        bins=bins_of("equal-width", data, n_bins),
        notion=data.notion,
        level=level,
        n_resamples=n_resamples,
        skce=quick_skce_test(data, n_resamples, rng) if metrics is None else None,
        spiegelhalter=promised_brier(data) if metrics is None else None,
        notions={
            metric.name: whose
            for metric in chosen
            if (whose := metric.notion_of(data.n_classes, data.notion)) is not None
        },
    )
