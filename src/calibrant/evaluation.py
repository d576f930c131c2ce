"""Everything about one set of probabilities: values, how sure they are, what noise would show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape
from typing import Any, get_args

import numpy as np

from calibrant._progress import reporter
from calibrant._random import generator
from calibrant._types import InputKind, Progress, RandomState, Report, RowRule
from calibrant.metrics._intervals import (
    Estimate,
    check_level,
    check_resamples,
    mean_estimate,
    p_value_of,
)
from calibrant.metrics._inversion import inverted_interval, spread
from calibrant.metrics._labelled import Labelled, labelled
from calibrant.metrics._metric import Metric
from calibrant.metrics._readings import (
    DEFAULT_BINS,
    Reads,
    bins_of,
    error_sample,
    read_by,
    row_scores,
)
from calibrant.metrics._registry import METRICS, metrics_named
from calibrant.metrics._report import MetricReport, missing
from calibrant.metrics._resampling import Drawing
from calibrant.metrics._tables import (
    Table,
    estimate_rows,
    interval_cell,
    p_value_cell,
    part_cell,
    value_cell,
)
from calibrant.metrics.decomposition import BrierDecomposition, split_brier
from calibrant.metrics.kernel_test import SKCETest, quick_skce_test
from calibrant.metrics.spiegelhalter import ZTest, promised_brier

DEFAULT_RESAMPLES = 200

__all__ = ["Estimate", "Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation(MetricReport):
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
        The equal-width bins of the top label.
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
        Whose calibration each error is: the confidence's, class 1's of two, or every class'.
    """

    level: float
    n_resamples: int
    skce: SKCETest | None
    spiegelhalter: ZTest | None
    notions: dict[str, str]

    def __getattr__(self, name: str) -> Estimate:
        metrics: dict[str, Estimate] = self.__dict__.get("metrics", {})
        if name not in metrics:
            raise missing(self, name, metrics)
        return metrics[name]

    def __str__(self) -> str:
        return "\n".join([self._headline(), "", _table(self).text(), "", *_notes(self)])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(line)}</p>" for line in _notes(self) if line)
        return _table(self).html() + notes


def evaluate(
    probs: Any,
    labels: Any,
    *,
    metrics: Iterable[str] | None = None,
    n_bins: int = DEFAULT_BINS,
    level: float = 0.95,
    n_resamples: int = DEFAULT_RESAMPLES,
    random_state: RandomState = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
    progress: Progress = False,
) -> Evaluation:
    """Compute metrics, each error beside its value under calibration and its interval.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    metrics : iterable of str, optional
        Names in ``calibrant.metrics.METRICS``; all but the rarer errors by default.
    n_bins : int, default 15
        The number of bins.
    level : float, default 0.95
        The level of the intervals.
    n_resamples : int, default 200
        How often rows and labels are drawn. 0 leaves out what needs drawing: values under
        calibration, p-values and the intervals of errors.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws; None is 0.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    ignore_index : int, optional
        Rows with this label are left out.
    progress : bool or callable, default False
        True shows a bar on standard error; a function is called with (done, total).

    Returns
    -------
    Evaluation
        The metrics by name, the tests and the bins.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

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
    check_resamples(n_resamples, 0)
    check_level(level)
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    chosen = metrics_named(metrics, n_classes=data.n_classes, weighted=data.weighted)
    rng = generator(random_state)
    with reporter("evaluating", progress) as report:
        estimates = _estimates(chosen, data, n_bins, n_resamples, level, rng, report)
    return Evaluation(
        n_rows=data.n_rows,
        n_classes=data.n_classes,
        metrics={metric.name: estimates[metric.name] for metric in chosen},
        brier_decomposition=split_brier(data, generator(random_state)) if metrics is None else None,
        bins=bins_of("equal-width", data, n_bins),
        level=level,
        n_resamples=n_resamples,
        skce=quick_skce_test(data, n_resamples, rng) if metrics is None else None,
        spiegelhalter=promised_brier(data) if metrics is None else None,
        notions={
            metric.name: notion
            for metric in chosen
            if (notion := metric.notion_of(data.n_classes)) is not None
        },
    )


# --- estimates --------------------------------------------------------------------------------


def _estimates(
    metrics: list[Metric],
    data: Labelled,
    n_bins: int,
    n_resamples: int,
    level: float,
    rng: np.random.Generator,
    report: Report,
) -> dict[str, Estimate]:
    """Estimates by name, of all metrics that read the same thing together."""
    kinds: tuple[Reads, ...] = get_args(Reads)
    families = [family for reads in kinds if (family := [m for m in metrics if m.reads == reads])]
    estimates: dict[str, Estimate] = {}
    for done, family in enumerate(families):
        report(done, len(families))
        for metric in family:
            estimates[metric.name] = _plain_estimate(metric, data, n_bins, level)
        drawn = [metric for metric in family if metric.is_error and metric.resampled]
        if drawn and n_resamples:
            estimates |= _error_estimates(drawn, data, n_bins, n_resamples, level, rng)
    report(len(families), len(families))
    return estimates


def _error_estimates(
    errors: list[Metric],
    data: Labelled,
    n_bins: int,
    n_resamples: int,
    level: float,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """Errors of the same bins, each beside what a calibrated model would show."""
    sample = error_sample(errors[0].reads, data, n_bins)
    bins = read_by(errors[0].reads, data, n_bins)
    null = sample.null(Drawing([metric.statistic for metric in errors], n_resamples, rng))
    covered = [metric for metric in errors if metric.has_interval]
    own = np.random.default_rng(rng.integers(2**63))  # whichever metrics there are
    tried = sample.families(Drawing([m.inverted for m in covered], n_resamples, own))
    estimates = {}
    for metric, draws in zip(errors, null.T, strict=True):
        value = metric.from_bins(bins)
        known = Estimate(value, null=float(draws.mean()), p_value=p_value_of(value, draws))
        if metric.has_interval:
            which = covered.index(metric)
            shown = float(np.mean(metric.inverted(bins)))
            low, high = inverted_interval(shown, tried, which, level)
            known = replace(known, low=low, high=high, std_error=spread(tried, which))
        estimates[metric.name] = known
    return estimates


def _plain_estimate(metric: Metric, data: Labelled, n_bins: int, level: float) -> Estimate:
    """What is known without drawing: the value, and for the mean of a score its interval."""
    if metric.is_error or not metric.resampled:
        return Estimate(metric.value(data, n_bins))
    return mean_estimate(row_scores(metric.statistic, data), data.weight, level)


# --- text -------------------------------------------------------------------------------------


def _table(evaluation: Evaluation) -> Table:
    """All metrics, errors by whose calibration they are, and the Brier score with its parts."""
    cells = (value_cell, interval_cell, part_cell("null"), p_value_cell)
    found = estimate_rows(evaluation.metrics, cells)
    rows = []
    for notion, title in (None, ""), *_NOTIONS.items():
        names = [name for name in found if evaluation.notions.get(name) == notion]
        if names and title:
            rows.append([title, "", "", "", ""])
        for name in names:
            rows.append(found[name])
            if name == "brier" and evaluation.brier_decomposition is not None:
                rows += _brier_parts(evaluation.brier_decomposition)
    header = ["", "value", f"{evaluation.level:.0%} interval", "if calibrated", "p-value"]
    return Table(header, rows).filled()


_NOTIONS = {
    "confidence": "of the confidence:",
    "top-label": "of the confidence, by predicted class:",
    "class-1": "of class 1:",
    "classwise": "of every class:",
}


def _brier_parts(parts: BrierDecomposition) -> list[list[str]]:
    """The parts of the Brier score; a calibrated model's calibration is 0 on average."""
    show = METRICS["brier"].format
    return [
        ["  calibration", show(parts.calibration), "", show(0.0), ""],
        ["  refinement", show(parts.refinement), "", "", ""],
    ]


def _notes(evaluation: Evaluation) -> list[str]:
    """The tests, and how to read the table."""
    lines = []
    if evaluation.spiegelhalter is not None:
        z = evaluation.spiegelhalter
        lines.append(f"Spiegelhalter's test: z = {z.z:.2f}, p-value {z.p_value:.3g}")
    if evaluation.skce is not None:
        kernel = evaluation.skce
        test = f"z = {kernel.z:.2f}, p-value {kernel.p_value:.3g} (SKCE {kernel.skce:.2e})"
        lines.append(f"kernel test: {test}")
    if any(estimate.null is not None for estimate in evaluation.metrics.values()):
        lines += [
            "",
            '"if calibrated": what a calibrated model with these predictions would show on '
            "average.",
            "The intervals of errors leave that noise out, so they may lie below the value.",
        ]
    return lines
