"""Many methods side by side: fitted on the same validation rows, judged on the same test rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from calibrant._progress import reporter
from calibrant._trials import DEFAULT_FOLDS, Judged, Methods, Trial
from calibrant._types import InputKind, Progress
from calibrant.metrics._metric import Metric
from calibrant.metrics._readings import DEFAULT_BINS
from calibrant.metrics._registry import METRICS, metrics_named
from calibrant.metrics._report import PlainDocument, missing
from calibrant.metrics._tables import Table, counted, marked_column, unit_note

DEFAULT_METRICS = ("accuracy", "ece", "classwise_ece", "brier", "nll")


@dataclass(frozen=True)
class MethodResult(PlainDocument):
    """How one method did on the test rows; every value is an attribute, too: ``result.ece``.

    Parameters
    ----------
    method : str
        The name in the registry of calibrators.
    accuracy_preserving : bool
        Whether no class can pass the one that the classifier chose.
    values : dict of str to float
        The metrics by name, as fractions.
    fit_seconds : float
        How long the fit took.
    notes : tuple of str
        What the fit warned of.
    """

    method: str
    accuracy_preserving: bool
    values: dict[str, float]
    fit_seconds: float
    notes: tuple[str, ...]

    def __getattr__(self, name: str) -> float:
        values: dict[str, float] = self.__dict__.get("values", {})
        if name not in values:
            raise missing(self, name, values)
        return values[name]


@dataclass(frozen=True, repr=False)
class Comparison(PlainDocument, Sequence[MethodResult]):
    """The results of several methods, as a sequence; ``print`` shows a table.

    Parameters
    ----------
    results : tuple of MethodResult
        One result per method.
    metrics : tuple of str
        The names of the metrics.
    n_bins : int
        The number of bins of the metrics that have bins.
    n_val : int
        The rows that the methods were fitted on.
    n_test : int
        The rows that they were judged on.
    """

    results: tuple[MethodResult, ...]
    metrics: tuple[str, ...]
    n_bins: int
    n_val: int
    n_test: int

    @overload
    def __getitem__(self, index: int) -> MethodResult: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[MethodResult, ...]: ...

    def __getitem__(self, index: int | slice) -> MethodResult | tuple[MethodResult, ...]:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        methods = ", ".join(result.method for result in self)
        return f"Comparison of {methods} by {', '.join(self.metrics)}"

    def __str__(self) -> str:
        sizes = f"fitted on {counted(self.n_val, 'row')}, judged on {counted(self.n_test, 'row')}"
        reading = f"{counted(self.n_bins, 'bin')}; {unit_note(self.metrics)}"
        mark = "; * the best of its column" if len(self) > 1 else ""
        notes = [f"{result.method}: {note}" for result in self for note in result.notes]
        return "\n".join([sizes, f"{reading}{mark}", "", self._table().text(), *notes])

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        """One row per method; the best value of each metric is marked."""
        columns = [
            marked_column(METRICS[name], [result.values[name] for result in self])
            for name in self.metrics
        ]
        times = [f"{1000.0 * result.fit_seconds:.1f}" for result in self]
        methods = [result.method for result in self]
        header = ["", *(METRICS[name].heading for name in self.metrics), "Fit (ms)"]
        return Table(header, list(zip(methods, *columns, times, strict=True)))


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
    val_weight: Any = None,
    test_weight: Any = None,
    ignore_index: int | None = None,
    progress: Progress = False,
) -> Comparison:
    """Fit methods on validation rows and judge them on test rows.

    Parameters
    ----------
    val_scores : array of shape (n_val, n_classes) or (n_val,)
        The scores to fit on; 1-D for class 1 of two.
    val_labels : array of shape (n_val,)
        Their true classes.
    test_scores : array of shape (n_test, n_classes) or (n_test,)
        The scores to judge on.
    test_labels : array of shape (n_test,)
        Their true classes.
    methods : iterable of str, optional
        Names in the registry of calibrators. By default all of them, without those for two classes
        where there are more, and without those that would need more memory than is available.
    metrics : iterable of str, default ("accuracy", "ece", "classwise_ece", "brier", "nll")
        Names in ``calibrant.metrics.METRICS``.
    input : {"logits", "probs"}, default "logits"
        What the scores are.
    n_bins : int, default 15
        The number of bins.
    cv : int, default 5
        The number of folds where there are no test scores.
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

    Examples
    --------
    >>> logits, labels = [[3.0, 0.0], [0.0, 3.0], [2.0, 0.0], [0.0, 1.0]], [0, 1, 1, 0]
    >>> comparison = compare(logits, labels, logits, labels, methods=["base", "ts"])
    >>> [result.method for result in comparison]
    ['base', 'ts']
    >>> comparison[1].nll < comparison[0].nll
    True
    """
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
        return compared(trial, trial.outcomes(report), chosen, n_bins)


def compared(
    trial: Trial, outcomes: Iterable[Judged], metrics: list[Metric], n_bins: int
) -> Comparison:
    """The comparison of methods that a trial has fitted."""
    results = []
    for one in outcomes:
        data = trial.labelled(one)
        values = {metric.name: metric.value(data, n_bins) for metric in metrics}
        results.append(
            MethodResult(one.method, one.accuracy_preserving, values, one.fit_seconds, one.notes)
        )
    names = tuple(metric.name for metric in metrics)
    return Comparison(tuple(results), names, n_bins, trial.n_val, trial.n_test)
