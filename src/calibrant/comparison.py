"""Many methods side by side: fitted on the same validation rows, judged on the same test rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from calibrant._errors import noted, warn
from calibrant._memory import lacks_memory
from calibrant._progress import reporter
from calibrant._types import InputKind, Progress
from calibrant.calibrators import REGISTRY, acronym, calibrator
from calibrant.metrics._labelled import accepted, labelled
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
    test_scores: Any,
    test_labels: Any,
    *,
    methods: Iterable[str] | None = None,
    metrics: Iterable[str] = DEFAULT_METRICS,
    input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
    n_bins: int = DEFAULT_BINS,
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
    fitted = accepted(val_scores, val_labels, val_weight, input, ignore_index)
    n_classes = fitted[0].shape[1]
    judged = accepted(test_scores, test_labels, test_weight, input, ignore_index, n_classes)
    if judged[0].shape[1] != n_classes:
        raise ValueError(
            "validation and test scores must have the same classes, got "
            f"{n_classes} and {judged[0].shape[1]}"
        )
    chosen = metrics_named(metrics, weighted=test_weight is not None)
    names = _methods_named(methods, *fitted[0].shape)
    results = []
    with reporter("comparing", progress) as report:
        for done, name in enumerate(names):
            report(done, len(names))
            model = calibrator(name, input=input)
            seconds, notes = timed_fit(model, *fitted)
            values = _judge(chosen, model.predict_proba(judged[0]), *judged[1:], n_bins)
            kept = bool(model.accuracy_preserving)
            results.append(MethodResult(name, kept, values, seconds, notes))
        report(len(names), len(names))
    shown = tuple(metric.name for metric in chosen)
    return Comparison(tuple(results), shown, n_bins, len(fitted[0]), len(judged[0]))


def timed_fit(
    model: Any, scores: Any, labels: Any, sample_weight: Any = None
) -> tuple[float, tuple[str, ...]]:
    """Fit a calibrator, and catch what it warns of.

    Parameters
    ----------
    model : Calibrator
        The calibrator to fit.
    scores : array of shape (n_rows, n_classes)
        The scores to fit on.
    labels : array of shape (n_rows,)
        Their true classes.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.

    Returns
    -------
    seconds : float
        How long the fit took.
    notes : tuple of str
        What calibrant would have warned of. Warnings of others pass.

    Examples
    --------
    >>> import calibrant
    >>> seconds, notes = timed_fit(calibrant.TS(), [[2.0, 0.0], [1.0, 0.0]], [0, 1])
    >>> seconds > 0.0, len(notes)
    (True, 0)
    """
    with noted() as notes:
        started = time.perf_counter()
        model.fit(scores, labels, sample_weight=sample_weight)
        seconds = time.perf_counter() - started
    return seconds, tuple(notes)


def _judge(
    metrics: list[Metric], probs: Any, labels: Any, weight: Any, n_bins: int
) -> dict[str, float]:
    """The values by name; the arrays are checked once for all of them."""
    data = labelled(probs, labels, weight)
    return {metric.name: metric.value(data, n_bins) for metric in metrics}


def _methods_named(methods: Iterable[str] | None, n_rows: int, n_classes: int) -> list[str]:
    """Methods by their names, each once; None is all that take so many rows and classes."""
    if methods is None:
        return _fitting(n_rows, n_classes)
    names = [methods] if isinstance(methods, str) else list(methods)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"methods must be names such as 'ts', got {names!r}")
    names = list(dict.fromkeys(map(acronym, names)))  # refuses what is none
    if not names:
        raise ValueError(f"methods must name at least one of {', '.join(REGISTRY)}, got none")
    for name in names:
        cls = REGISTRY[name]
        if cls.two_classes_only and n_classes != 2:
            raise ValueError(f"{cls.__name__} is for two classes, got {n_classes}")
    return names


def _fitting(n_rows: int, n_classes: int) -> list[str]:
    """The methods that take scores of this size; that some would need too much memory is told."""
    names = [name for name, cls in REGISTRY.items() if n_classes == 2 or not cls.two_classes_only]
    needs = {name: calibrator(name)._memory_needed(n_rows, n_classes) for name in names}
    too_large = [name for name, needed in needs.items() if lacks_memory(needed)]
    if too_large:
        warn(f"left out, since they need more memory than is available: {', '.join(too_large)}")
    return [name for name in names if name not in too_large]
