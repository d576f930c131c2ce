"""Many methods side by side: fitted on the same rows, judged on the same other rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from calibrant.calibrators._choosing import MOST_FOREGONE
from calibrant.common.docstrings import documented
from calibrant.common.json import PlainDocument
from calibrant.common.progress import reporter
from calibrant.common.tables import BEST, TIED, Backend, Shown, Table, counted, frame_of
from calibrant.common.types import InputKind, Progress, RandomState, generator
from calibrant.evaluation import cross_validation
from calibrant.evaluation.cross_validation import Experiment, HeldOutPredictions, Methods
from calibrant.metrics import _intervals as intervals
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._differences import ComparedModel, Difference, differences_to_best
from calibrant.metrics._intervals import Estimate
from calibrant.metrics._labelled import labelled_rows
from calibrant.metrics._metric import Metric
from calibrant.metrics._notions import RowNotion, row_notion
from calibrant.metrics._registry import METRICS, metrics_named
from calibrant.metrics._reports import interval_text, missing, of_class_1, p_text

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
        names, metrics = ", ".join(self._names()), ", ".join(self.metrics)
        return f"Comparison({names} by {metrics}: {self._rows()})"

    @documented
    def best(self, by: str | None = None) -> MethodResult:
        """Give the method with the best value, be it by luck.

        Parameters
        ----------
        {by_metric}

        Returns
        -------
        MethodResult
            The first with the best value.
        """
        metric = METRICS[self._metric(by)]
        choose = max if metric.higher_is_better else min
        return choose(self.results, key=lambda result: result.values[metric.name])

    @documented
    def is_tested(self, by: str | None = None) -> bool:
        """Tell whether the differences of a metric were tested.

        Parameters
        ----------
        {by_metric}

        Returns
        -------
        bool
            False for errors of which no interval is known that covers, and for all errors where
            nothing was drawn.
        """
        name = self._metric(by)
        return all(name in result.differences for result in self)

    @documented
    def tied(self, by: str | None = None) -> tuple[MethodResult, ...]:
        """Give the best method and those that noise may have put behind it.

        Parameters
        ----------
        {by_metric}

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
            raise ValueError(f"differences of {name} are not tested: {self._why_untested()}")
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

    @documented
    def details(self, by: str | None = None) -> ComparisonDetails:
        """Show one metric with its intervals and the paired differences to the best method.

        Parameters
        ----------
        {by_metric}

        Returns
        -------
        ComparisonDetails
            Something to print, or to end a notebook's cell with.
        """
        return ComparisonDetails(self, self._metric(by))

    @documented
    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Convert to a data frame: one row per method and metric, every number as a fraction.

        Parameters
        ----------
        {backend}

        Returns
        -------
        DataFrame
            The columns ``method``, ``metric``, ``value``, ``low``, ``high``, ``null``, ``p_value``
            and ``std_error``; ``difference``, ``difference_low``, ``difference_high`` and
            ``difference_p_value`` (after Holm's correction) to the best of the metric; ``starred``,
            ``accuracy_preserving`` and ``fit_seconds``. What is not known is missing. One column
            per metric: ``frame.pivot(index="method", columns="metric", values="value")``.
        """
        columns: dict[str, list[Any]] = {}
        for result in self:
            for name in self.metrics:
                known, found = result.estimates[name], result.differences.get(name)
                row: dict[str, Any] = {"method": result.method, "metric": name}
                for key in ("value", "low", "high", "null", "p_value", "std_error"):
                    row[key] = getattr(known, key)
                row |= {
                    "difference": None if found is None else found.value,
                    "difference_low": None if found is None else found.low,
                    "difference_high": None if found is None else found.high,
                    "difference_p_value": None if found is None else found.adjusted_p_value,
                    "starred": result.method in self.starred(name),
                    "accuracy_preserving": result.accuracy_preserving,
                    "fit_seconds": result.fit_seconds,
                }
                for key, value in row.items():
                    columns.setdefault(key, []).append(value)
        return frame_of(columns, backend)

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

    def _rows(self) -> str:
        """Which rows were fitted on and judged, in words."""
        rows = counted(self.n_test, "row")
        if self.n_folds:
            return f"{self.n_folds}-fold cross-validation of {rows}"
        return f"fitted on {counted(self.n_val, 'row')}, judged on {rows}"

    def _why_untested(self) -> str:
        return "no test is known that holds" if self.n_resamples else "nothing was drawn"

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


@documented
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
    cv: int = cross_validation.DEFAULT_FOLDS,
    level: float = intervals.DEFAULT_LEVEL,
    n_resamples: int = intervals.DEFAULT_RESAMPLES,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
    val_weight: Any = None,
    test_weight: Any = None,
    ignore_index: int | None = None,
    covariates: Any = None,
    test_covariates: Any = None,
    progress: Progress = False,
) -> Comparison:
    """Fit methods on validation rows and judge them on test rows, or on held-out rows.

    Without test scores the rows are cross-validated: each method is fitted on all folds but one and
    judged on that one, in turn, and the metrics are those of all held-out rows together. That is
    the way to choose a method: one that was chosen on the test rows is no longer judged by them.

    Parameters
    ----------
    {val_scores}
    {val_labels}
    test_scores : array of shape (n_test, n_classes) or (n_test,), optional
        The scores to judge on; by default ``cv`` folds of the validation rows, held out in turn.
    test_labels : array of shape (n_test,), optional
        Their true classes.
    methods : str, Calibrator, iterable or mapping of them, optional
        Names of methods, or unfitted calibrators, which are copied before they are fitted; the keys
        of a mapping are the names to show. By default all methods of the registry, except those for
        two classes if there are more, and those that need more memory than is available.
    metrics : iterable of str, default ("accuracy", "ece", "classwise_ece", "brier", "nll")
        Names in ``calibrant.metrics.METRICS``.
    {input_logits}
    {n_bins}
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
    {notion}
    {val_weight}
    {test_weight}
    {ignore_index}
    covariates : array of shape (n_val, columns), data frame or dict, optional
        What else is known of each validation row. Methods that use covariates are fitted with them;
        the others do not see them.
    test_covariates : array of shape (n_test, columns), data frame or dict, optional
        The same of each test row.
    {progress}

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
    options = MetricOptions(n_bins, level, n_resamples, random_state, notion)
    experiment = Experiment.of(
        (val_scores, val_labels, val_weight, covariates),
        (test_scores, test_labels, test_weight, test_covariates),
        methods,
        input=input,
        ignore_index=ignore_index,
        cv=cv,
    )
    weighted = experiment.held_out.sample_weight is not None
    chosen = metrics_named(metrics, weighted=weighted)
    with reporter("comparing", progress) as report:
        return compare_predictions(experiment, experiment.run(report), chosen, options)


@dataclass(frozen=True)
class MetricOptions:
    """How metrics are computed; the fields are parameters of ``compare``."""

    n_bins: int = DEFAULT_BINS
    level: float = intervals.DEFAULT_LEVEL
    n_resamples: int = intervals.DEFAULT_RESAMPLES
    random_state: RandomState = None
    notion: RowNotion | None = None

    def __post_init__(self) -> None:
        intervals.check_resamples(self.n_resamples, 0)
        intervals.check_level(self.level)


def compare_predictions(
    experiment: Experiment,
    predictions: Iterable[HeldOutPredictions],
    metrics: list[Metric],
    options: MetricOptions,
) -> Comparison:
    """Judge the methods of an experiment, one after the other; none is held in memory."""
    n_bins, level, n_resamples = options.n_bins, options.level, options.n_resamples
    notion = row_notion(options.notion, experiment.held_out.n_classes)
    rng = generator(options.random_state)
    fits, evidence = {}, {}
    for one in predictions:
        data = labelled_rows(one.rows, notion=notion)
        evidence[one.method] = ComparedModel.of(metrics, data, n_bins, n_resamples, level, rng)
        fits[one.method] = one.accuracy_preserving, one.fit_seconds, one.warnings
        weight = data.weight
        del one, data  # before the next fit
    names = tuple(metric.name for metric in metrics)
    differences = {
        metric.name: differences_to_best(metric, evidence, weight, level) for metric in metrics
    }
    results = []
    for method, (keeps_arg_max, seconds, notes) in fits.items():
        known = {name: evidence[method].estimates.by_name[name] for name in names}
        found = {name: by[method] for name, by in differences.items() if method in by}
        values = {name: estimate.value for name, estimate in known.items()}
        result = MethodResult(method, keeps_arg_max, values, known, found, seconds, notes)
        results.append(result)
    return Comparison(
        results=tuple(results),
        metrics=names,
        n_bins=n_bins,
        n_val=experiment.n_rows or len(experiment.train),
        n_test=experiment.n_rows or len(experiment.held_out),
        n_folds=None if experiment.folds is None else len(experiment.folds.parts),
        level=level,
        n_resamples=n_resamples,
        notion=notion,
    )


# --- tables -----------------------------------------------------------------------------------


def _overview(comparison: Comparison) -> Table:
    """All values, one row per method: the best has a star, or it and its rivals a tilde."""
    columns, untested = [], []
    for name in comparison.metrics:
        starred = comparison.starred(name)
        marks = dict.fromkeys(starred, BEST)
        if not comparison.is_tested(name):
            untested.append(METRICS[name].heading)
        elif not starred:
            marks = {one.method: TIED for one in comparison.tied(name)}
        show = METRICS[name].format
        columns.append([f"{marks.get(r.method, '')}{show(r.values[name])}" for r in comparison])
    times = [f"{1000.0 * result.fit_seconds:.1f}" for result in comparison]
    header = ["", *(METRICS[name].column_head for name in comparison.metrics), "Fit\n(ms)"]
    rows = list(zip(comparison._names(), *columns, times, strict=True))
    bins = f"{counted(comparison.n_bins, 'bin')}{of_class_1(comparison.notion)}"
    notes = []
    if len(comparison) > 1:
        notes += [
            f"{BEST}the best of its column, beyond noise "
            f"({comparison.level:.0%}, all methods together)",
            f"{TIED}the best, and those that noise may have put behind it",
        ]
        if untested:
            notes.append(f"not tested: {', '.join(untested)} ({comparison._why_untested()})")
    notes += [f"{methods}: {message}" for methods, message in warnings_by_methods(comparison)]
    return Table(header, rows, f"{comparison._rows()}, {bins}", notes)


def warnings_by_methods(comparison: Comparison) -> list[tuple[str, str]]:
    """What the fits warned of, with the methods that it is about.

    A warning that several methods gave, but for its numbers, is told once, of the first of them.
    """
    alike: dict[str, list[tuple[str, str]]] = {}
    for result in comparison:
        for message in result.notes:
            kind = cross_validation.without_numbers(message)
            alike.setdefault(kind, []).append((result.method, message))
    found = []
    for (method, message), *others in alike.values():
        rest = ", ".join(other for other, _ in others)
        found.append((f"{method} (likewise {rest})" if rest else method, message))
    return found


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
            cells = [metric.format(found.value), ends, p_text(found.adjusted_p_value, draws)]
        interval = interval_text(metric, known.low, known.high)
        null = "" if known.null is None else metric.format(known.null)
        rows.append([result.method, metric.format(known.value), interval, null, *cells])
    notes = []
    if not comparison.is_tested(name):
        notes.append(f"differences are not tested: {comparison._why_untested()}")
    elif len(comparison) > 1:
        notes.append("p-values are corrected for the number of methods (Holm)")
        if metric.is_error:
            notes.append("differences are those without the noise that is in the values")
        if name in PROPER_SCORES:
            chosen = comparison.recommended(name)
            first = f"the first that noise may have put behind {best.method}"
            notes.append(f"recommended: {chosen.method}, {'the best' if chosen is best else first}")
    level = f"{comparison.level:.0%} interval"
    header = ["", "value", level, "if calibrated", "difference", level, "p-value"]
    title = f"{metric.label}: paired differences to the best, {best.method}"
    return Table(header, rows, title, notes).filled()
