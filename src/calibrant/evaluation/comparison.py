"""Many methods side by side: fitted on the same rows, judged on the same other rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from calibrant.calibrators._choosing import MOST_FOREGONE
from calibrant.common.documents import PlainDocument
from calibrant.common.frames import Backend, frame_of
from calibrant.common.progress import reporter
from calibrant.common.random import generator
from calibrant.common.tables import BEST, TIED, Shown, Table, counted
from calibrant.common.types import InputKind, Progress, RandomState
from calibrant.evaluation.cross_validation import (
    DEFAULT_FOLDS,
    Judged,
    Methods,
    Trial,
    without_numbers,
)
from calibrant.metrics._against_best import Difference, Evidence, differences_to_best
from calibrant.metrics._intervals import (
    DEFAULT_LEVEL,
    DEFAULT_RESAMPLES,
    Estimate,
    check_level,
    check_resamples,
)
from calibrant.metrics._metric import Metric
from calibrant.metrics._notions import RowNotion, row_notion
from calibrant.metrics._readings import DEFAULT_BINS
from calibrant.metrics._registry import METRICS, metrics_named
from calibrant.metrics._report import missing
from calibrant.metrics._tables import interval_text, of_class_1, p_text

DEFAULT_METRICS = ("accuracy", "ece", "classwise_ece", "brier", "nll")
PROPER_SCORES = ("nll", "brier")

__all__ = ["Comparison", "Difference", "Estimate", "MethodResult", "compare"]


@dataclass(frozen=True, repr=False)
class MethodResult(PlainDocument):
    """How one method did on the judged rows; every value is an attribute, too: ``result.ece``.

    Parameters
    ----------
    method : str
        What the method is called: its name in the registry of calibrators, or the caller's.
    accuracy_preserving : bool
        Whether no class can pass the one that the classifier chose.
    values : dict of str to float
        The metrics by name, as fractions.
    estimates : dict of str to Estimate
        What ``evaluate`` tells of them: intervals, values under calibration, p-values.
    differences : dict of str to Difference
        The paired difference to the best method of each metric; metrics whose differences no known
        test judges have none.
    fit_seconds : float
        How long the fit took; under cross-validation the mean of the folds.
    notes : tuple of str
        What the fit warned of; under cross-validation each warning once, with the number of folds.
    """

    method: str
    accuracy_preserving: bool
    values: dict[str, float]
    estimates: dict[str, Estimate]
    differences: dict[str, Difference]
    fit_seconds: float
    notes: tuple[str, ...]

    def __getattr__(self, name: str) -> float:
        values: dict[str, float] = self.__dict__.get("values", {})
        if name not in values:
            raise missing(self, name, values)
        return values[name]

    def __repr__(self) -> str:
        values = (f"{name}={value:.4g}" for name, value in self.values.items())
        return f"MethodResult({self.method!r}: {', '.join(values)})"


@dataclass(frozen=True, repr=False)
class Comparison(Shown, PlainDocument, Sequence[MethodResult]):
    """The results of several methods, as a sequence; ``print`` shows tables.

    A star marks the best of a column only where its lead over every method that gives other
    probabilities is beyond noise; where it is not, "~" marks the best and all that noise may have
    put behind it.

    Parameters
    ----------
    results : tuple of MethodResult
        One result per method.
    metrics : tuple of str
        The names of the metrics.
    n_bins : int
        The number of bins of the metrics that have bins.
    n_val : int
        The rows that the methods were fitted on; under cross-validation all rows.
    n_test : int
        The rows that they were judged on.
    n_folds : int or None
        The number of folds of a cross-validation; None where there were test rows.
    level : float
        The level of the intervals, and of the tests.
    n_resamples : int
        How often rows and labels were drawn.
    notion : {"class-1", "confidence"}
        Whose calibration the errors are, but for those of every class: class 1's of two classes, or
        the confidence's.
    """

    results: tuple[MethodResult, ...]
    metrics: tuple[str, ...]
    n_bins: int
    n_val: int
    n_test: int
    n_folds: int | None
    level: float
    n_resamples: int
    notion: RowNotion

    @overload
    def __getitem__(self, index: int | str) -> MethodResult: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[MethodResult, ...]: ...

    def __getitem__(self, index: int | str | slice) -> MethodResult | tuple[MethodResult, ...]:
        if not isinstance(index, str):
            return self.results[index]
        for result in self.results:
            if result.method == index:
                return result
        raise KeyError(f"{index!r}; compared were {', '.join(self._names())}")

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self._names())} by {', '.join(self.metrics)}: {_rows(self)})"

    def best(self, by: str | None = None) -> MethodResult:
        """Give the method with the best value, be it by luck.

        Parameters
        ----------
        by : str, optional
            One of the metrics; by default the log loss, or the first of them.

        Returns
        -------
        MethodResult
            The first with the best value.
        """
        metric = METRICS[self._metric(by)]
        choose = max if metric.higher_is_better else min
        return choose(self.results, key=lambda result: result.values[metric.name])

    def is_tested(self, by: str | None = None) -> bool:
        """Tell whether the differences of a metric were tested.

        Parameters
        ----------
        by : str, optional
            One of the metrics; by default the log loss, or the first of them.

        Returns
        -------
        bool
            False for errors of which no interval is known that covers, and for all errors where
            nothing was drawn.
        """
        name = self._metric(by)
        return all(name in result.differences for result in self)

    def tied(self, by: str | None = None) -> tuple[MethodResult, ...]:
        """Give the best method and those that noise may have put behind it.

        Parameters
        ----------
        by : str, optional
            One of the metrics; by default the log loss, or the first of them.

        Returns
        -------
        tuple of MethodResult
            In the order of the comparison.

        Raises
        ------
        ValueError
            Where no known test judges the differences of that metric.
        """
        name = self._metric(by)
        if not self.is_tested(name):
            raise ValueError(f"differences of {name} are not tested: {_why_untested(self)}")
        return tuple(result for result in self if not self._is_behind(result, name))

    def recommended(self, by: str | None = None) -> MethodResult:
        """Give the first method that noise may have put behind the best one, in the order given.

        Parameters
        ----------
        by : str, optional
            One of the metrics. By default the log loss, or else the Brier score: both are lowest
            for the true probabilities. A calibration error is low for useless ones, too.

        Returns
        -------
        MethodResult
            The first of ``tied(by)``. The registry's order begins with the simplest methods. "auto"
            comes last: it chooses among the others. Scores as they are ("base") may not lose more
            than 0.1 nats by it, however large the noise.
        """
        name, best = self._metric(by), self.best(by)
        last = sorted(self.tied(by), key=lambda result: result.method == "auto")
        return next(
            result
            for result in last
            if result.method != "base"
            or name != "nll"
            or result.values[name] <= best.values[name] + MOST_FOREGONE
        )

    def starred(self, by: str) -> tuple[str, ...]:
        """Name the methods with a star: the best and those that give the same probabilities.

        Parameters
        ----------
        by : str
            One of the metrics.

        Returns
        -------
        tuple of str
            Nobody where noise explains the lead over any other method.
        """
        name = self._metric(by)
        if not self.is_tested(name):
            return ()
        same = [result.method for result in self if result.differences[name].same]
        ahead = all(r.differences[name].same or self._is_behind(r, name) for r in self)
        return tuple(same) if ahead and len(same) < len(self) else ()

    def details(self, by: str | None = None) -> ComparisonDetails:
        """Show one metric with its intervals and the paired differences to the best method.

        Parameters
        ----------
        by : str, optional
            One of the metrics; by default the log loss, or the first of them.

        Returns
        -------
        ComparisonDetails
            Something to print, or to end a notebook's cell with.
        """
        return ComparisonDetails(self, self._metric(by))

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Convert to a data frame: one row per method and metric, every number as a fraction.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default "pandas"
            The library, which must be installed.

        Returns
        -------
        DataFrame
            The columns ``method``, ``metric``, ``value``, ``low``, ``high``, ``null``, ``p_value``
            and ``std_error``; ``difference``, ``difference_low``, ``difference_high`` and
            ``difference_p_value`` (after Holm's correction) to the best of the metric; ``starred``,
            ``accuracy_preserving`` and ``fit_seconds``. What is not known is missing. One column
            per metric: ``frame.pivot(index="method", columns="metric", values="value")``.
        """
        rows = [_frame_row(self, result, name) for result in self for name in self.metrics]
        return frame_of({key: [row[key] for row in rows] for key in rows[0]}, backend)

    # --- helpers ---

    def _names(self) -> list[str]:
        return [result.method for result in self.results]

    def _metric(self, by: str | None) -> str:
        """A metric that was computed: the one named, a proper score, or the first."""
        if by is None:
            return next((name for name in PROPER_SCORES if name in self.metrics), self.metrics[0])
        if by not in self.metrics:
            raise ValueError(f"by must be one of {', '.join(self.metrics)}, got {by!r}")
        return by

    def _is_behind(self, result: MethodResult, name: str) -> bool:
        """Whether a method is worse than the best one, beyond noise."""
        difference = result.differences[name]
        worse = difference.value < 0.0 if METRICS[name].higher_is_better else difference.value > 0.0
        return worse and difference.adjusted_p_value < 1.0 - self.level

    def _tables(self, by: str | None = None) -> list[Table]:
        if len(self) == 1:
            return [_overview(self)]
        return [_overview(self), _details(self, self._metric(by))]

    def _repr_html_(self) -> str:
        others = [name for name in self.metrics if name != self._metric(None)]
        folded = "".join(
            f"<details><summary>{METRICS[name].label}</summary>"
            f"{_details(self, name).html()}</details>"
            for name in (others if len(self) > 1 else [])
        )
        return super()._repr_html_() + folded


@dataclass(frozen=True, repr=False)
class ComparisonDetails(Shown):
    """One metric of a comparison: values, intervals and paired differences to the best method."""

    comparison: Comparison
    metric: str

    def __repr__(self) -> str:
        return f"ComparisonDetails({self.metric!r} of {', '.join(self.comparison._names())})"

    def _tables(self) -> list[Table]:
        return [_details(self.comparison, self.metric)]


def compare(
    val_scores: Any,
    val_labels: Any,
    test_scores: Any = None,
    test_labels: Any = None,
    *,
    methods: Methods | None = None,
    metrics: Iterable[str] = DEFAULT_METRICS,
    input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
    n_bins: int = DEFAULT_BINS,
    cv: int = DEFAULT_FOLDS,
    level: float = DEFAULT_LEVEL,
    n_resamples: int = DEFAULT_RESAMPLES,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
    val_weight: Any = None,
    test_weight: Any = None,
    ignore_index: int | None = None,
    progress: Progress = False,
) -> Comparison:
    """Fit methods on validation rows and judge them on test rows, or on left-out rows.

    Without test scores the rows are cross-validated: each method is fitted on all folds but one and
    judged on that one, in turn, and the metrics are those of all left-out rows together. That is
    the way to choose a method: one that was chosen on the test rows is no longer judged by them.

    Parameters
    ----------
    val_scores : array of shape (n_val, n_classes) or (n_val,)
        The scores to fit on; 1-D for class 1 of two.
    val_labels : array of shape (n_val,)
        Their true classes.
    test_scores : array of shape (n_test, n_classes) or (n_test,), optional
        The scores to judge on; left out, ``cv`` folds of the validation rows are.
    test_labels : array of shape (n_test,), optional
        Their true classes.
    methods : str, Calibrator, iterable or mapping of them, optional
        Names in the registry of calibrators, or unfitted calibrators, of which copies are fitted; a
        mapping calls them by names of one's own. By default all of the registry, without those for
        two classes where there are more, and without those that would need more memory than is
        available.
    metrics : iterable of str, default ("accuracy", "ece", "classwise_ece", "brier", "nll")
        Names in ``calibrant.metrics.METRICS``.
    input : {"logits", "probs"}, default "logits"
        What the scores are.
    n_bins : int, default 15
        The number of bins.
    cv : int, default 5
        The number of folds where there are no test scores. The folds are random, but follow from
        the content of the rows.
    level : float, default 0.95
        The level of the intervals and tests.
    n_resamples : int, default 200
        How often rows and labels are drawn. 0 leaves out what needs drawing: values under
        calibration, p-values, and the intervals and differences of errors.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws; None is 0. All methods are judged on the same draws.
    notion : {"class-1", "confidence"}, optional
        Whose calibration: class 1's of two classes, or the confidence's. By default class 1's
        with two classes, and the confidence's with more.
    val_weight : array of shape (n_val,), optional
        The weight of each validation row; all 1 by default.
    test_weight : array of shape (n_test,), optional
        The weight of each test row; all 1 by default.
    ignore_index : int, optional
        Rows with this label are left out.
    progress : bool or callable, default False
        True shows a bar on standard error; a function is called with (done, total).

    Returns
    -------
    Comparison
        One result per method.

    Raises
    ------
    ValueError
        Where a name or an array is refused.

    Notes
    -----
    Differences to the best method are paired: those of scores have the standard error of a mean of
    differences, those of errors are made as in ``metrics.compare_paired``. The p-values of a column
    are corrected for the number of methods (Holm). For errors without an interval, such as the
    classwise one, no test is known that holds, and nobody is starred. The folds of a
    cross-validation share rows to fit on, which the standard errors leave out.

    Examples
    --------
    >>> logits, labels = [[3.0, 0.0], [0.0, 3.0], [2.0, 0.0], [0.0, 1.0]], [0, 1, 1, 0]
    >>> comparison = compare(logits, labels, logits, labels, methods=["base", "ts"])
    >>> [result.method for result in comparison]
    ['base', 'ts']
    >>> comparison["ts"].nll < comparison["base"].nll
    True
    """
    check_resamples(n_resamples, 0)
    check_level(level)
    trial = Trial.of(
        val_scores,
        val_labels,
        test_scores,
        test_labels,
        methods=methods,
        input=input,
        val_weight=val_weight,
        test_weight=test_weight,
        ignore_index=ignore_index,
        cv=cv,
    )
    chosen = metrics_named(metrics, weighted=trial.judged.weight is not None)
    with reporter("comparing", progress) as report:
        return compared(
            trial,
            trial.outcomes(report),
            chosen,
            n_bins=n_bins,
            level=level,
            n_resamples=n_resamples,
            random_state=random_state,
            notion=notion,
        )


def compared(
    trial: Trial,
    outcomes: Iterable[Judged],
    metrics: list[Metric],
    *,
    n_bins: int = DEFAULT_BINS,
    level: float = DEFAULT_LEVEL,
    n_resamples: int = DEFAULT_RESAMPLES,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
) -> Comparison:
    """The comparison of methods that a trial has fitted; their probabilities may be forgotten."""
    whose = row_notion(notion, int(trial.judged.scores.shape[1]))
    rng = generator(random_state)
    fits, evidence = {}, {}
    for one in outcomes:
        data = trial.labelled(one, whose)
        evidence[one.method] = Evidence.of(metrics, data, n_bins, n_resamples, level, rng)
        fits[one.method] = one.accuracy_preserving, one.fit_seconds, one.notes
        weight = data.weight
        del one, data  # before the next fit
    differences = {
        metric.name: differences_to_best(metric, evidence, weight, level) for metric in metrics
    }
    return Comparison(
        results=tuple(_results(metrics, fits, evidence, differences)),
        metrics=tuple(metric.name for metric in metrics),
        n_bins=n_bins,
        n_val=trial.n_val,
        n_test=trial.n_test,
        n_folds=len(trial.folds) or None,
        level=level,
        n_resamples=n_resamples,
        notion=whose,
    )


def _results(
    metrics: list[Metric],
    fits: Mapping[str, tuple[bool, float, tuple[str, ...]]],
    evidence: Mapping[str, Evidence],
    differences: Mapping[str, Mapping[str, Difference]],
) -> Iterator[MethodResult]:
    for method, (kept, seconds, notes) in fits.items():
        known = evidence[method].estimates.by_name
        yield MethodResult(
            method=method,
            accuracy_preserving=kept,
            values={metric.name: known[metric.name].value for metric in metrics},
            estimates={metric.name: known[metric.name] for metric in metrics},
            differences={
                name: found[method] for name, found in differences.items() if method in found
            },
            fit_seconds=seconds,
            notes=notes,
        )


def _frame_row(comparison: Comparison, result: MethodResult, name: str) -> dict[str, Any]:
    """One metric of one method."""
    known, found = result.estimates[name], result.differences.get(name)
    return {
        "method": result.method,
        "metric": name,
        "value": known.value,
        "low": known.low,
        "high": known.high,
        "null": known.null,
        "p_value": known.p_value,
        "std_error": known.std_error,
        "difference": None if found is None else found.value,
        "difference_low": None if found is None else found.low,
        "difference_high": None if found is None else found.high,
        "difference_p_value": None if found is None else found.adjusted_p_value,
        "starred": result.method in comparison.starred(name),
        "accuracy_preserving": result.accuracy_preserving,
        "fit_seconds": result.fit_seconds,
    }


# --- tables -----------------------------------------------------------------------------------


def _rows(comparison: Comparison) -> str:
    """Which rows were judged."""
    rows = counted(comparison.n_test, "row")
    if comparison.n_folds:
        return f"{comparison.n_folds}-fold cross-validation of {rows}"
    return f"fitted on {counted(comparison.n_val, 'row')}, judged on {rows}"


def _overview(comparison: Comparison) -> Table:
    """All values, one row per method, with marks."""
    columns = [_marked(comparison, name) for name in comparison.metrics]
    times = [f"{1000.0 * result.fit_seconds:.1f}" for result in comparison]
    header = ["", *(METRICS[name].column_head for name in comparison.metrics), "Fit\n(ms)"]
    rows = list(zip(comparison._names(), *columns, times, strict=True))
    title = (
        f"{_rows(comparison)}, {counted(comparison.n_bins, 'bin')}{of_class_1(comparison.notion)}"
    )
    return Table(header, rows, title, _overview_notes(comparison))


def _marked(comparison: Comparison, name: str) -> list[str]:
    """The values of a metric: the best has a star, or it and its rivals a tilde."""
    show, starred = METRICS[name].format, comparison.starred(name)
    tied = comparison.tied(name) if comparison.is_tested(name) and not starred else ()
    marks = {**{one.method: TIED for one in tied}, **dict.fromkeys(starred, BEST)}
    return [f"{marks.get(one.method, '')}{show(one.values[name])}" for one in comparison]


def _overview_notes(comparison: Comparison) -> list[str]:
    """What the marks mean, which columns cannot have any, and what the fits warned of."""
    lines = []
    untested = [name for name in comparison.metrics if not comparison.is_tested(name)]
    if len(comparison) > 1:
        lines += [
            f"{BEST}the best of its column, beyond noise "
            f"({comparison.level:.0%}, all methods together)",
            f"{TIED}the best, and those that noise may have put behind it",
        ]
        if untested:
            names = ", ".join(METRICS[name].heading for name in untested)
            lines.append(f"not tested: {names} ({_why_untested(comparison)})")
    return lines + [f"{methods}: {note}" for methods, note in notes_by_methods(comparison)]


def notes_by_methods(comparison: Comparison) -> list[tuple[str, str]]:
    """What the fits warned of, with the methods that it is about.

    A warning that several methods gave, but for its numbers, is told once, of the first of them.
    """
    alike: dict[str, list[tuple[str, str]]] = {}
    for result in comparison:
        for note in result.notes:
            alike.setdefault(without_numbers(note), []).append((result.method, note))
    told = []
    for (method, note), *others in alike.values():
        rest = ", ".join(other for other, _ in others)
        told.append((f"{method} (likewise {rest})" if rest else method, note))
    return told


def _why_untested(comparison: Comparison) -> str:
    if comparison.n_resamples == 0:
        return "nothing was drawn"
    return "no test is known that holds"


def _details(comparison: Comparison, name: str) -> Table:
    """Values, intervals and paired differences, the best method first."""
    metric, best = METRICS[name], comparison.best(name)
    ordered = sorted(
        comparison, key=lambda result: result.values[name], reverse=metric.higher_is_better
    )
    rows = []
    for result in ordered:
        known, found = result.estimates[name], result.differences.get(name)
        cells = ["", "", ""]
        if found is not None and result is not best:
            ends = interval_text(metric, found.low, found.high)
            draws = comparison.n_resamples if metric.is_error else None
            p_value = p_text(found.adjusted_p_value, draws)
            cells = [metric.format(found.value), ends, p_value]
        interval = interval_text(metric, known.low, known.high)
        null = "" if known.null is None else metric.format(known.null)
        rows.append([result.method, metric.format(known.value), interval, null, *cells])
    level = f"{comparison.level:.0%} interval"
    header = ["", "value", level, "if calibrated", "difference", level, "p-value"]
    title = f"{metric.label}: paired differences to the best, {best.method}"
    return Table(header, rows, title, _details_notes(comparison, metric)).filled()


def _details_notes(comparison: Comparison, metric: Metric) -> list[str]:
    if not comparison.is_tested(metric.name):
        return [f"differences are not tested: {_why_untested(comparison)}"]
    if len(comparison) == 1:
        return []
    lines = ["p-values are corrected for the number of methods (Holm)"]
    if metric.is_error:
        lines.append("differences are those without the noise that is in the values")
    if metric.name in PROPER_SCORES:
        chosen, best = comparison.recommended(metric.name), comparison.best(metric.name)
        why = (
            "the best"
            if chosen is best
            else f"the first that noise may have put behind {best.method}"
        )
        lines.append(f"recommended: {chosen.method}, {why}")
    return lines
