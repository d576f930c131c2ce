"""Curves over fits: against the validation rows used, and against what a model can express."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.calibrators import Calibrator, calibrator
from calibrant.common.arrays import to_numpy
from calibrant.common.documents import PlainDocument
from calibrant.common.errors import noted
from calibrant.common.progress import reporter
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.binning import check_count
from calibrant.metrics._labelled import Labelled, accepted, labelled
from calibrant.metrics._readings import DEFAULT_BINS
from calibrant.metrics._registry import METRICS, metrics_named

FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)


@dataclass(frozen=True, repr=False)
class LearningCurves(PlainDocument):
    """A metric of several methods, at several places and with several seeds.

    Parameters
    ----------
    metric : str
        The name of the metric.
    over : {"rows", "parameters"}
        What the places are.
    at : dict of str to ndarray of shape (n_places,)
        The places, by method.
    values : dict of str to ndarray of shape (n_seeds, n_places)
        The values as fractions, by method.
    uncalibrated : float
        The value of the scores as they are.
    """

    metric: str
    over: str
    at: dict[str, NDArray[Any]]
    values: dict[str, Floats]
    uncalibrated: float

    def __repr__(self) -> str:
        return f"LearningCurves of the {self.metric} over {self.over}: {', '.join(self.values)}"

    def mean(self, method: str) -> Floats:
        """Compute the mean over the seeds.

        Parameters
        ----------
        method : str
            The method.

        Returns
        -------
        ndarray of shape (n_places,)
            The means.
        """
        return np.asarray(self.values[method].mean(axis=0))

    def spread(self, method: str) -> Floats:
        """Compute the standard deviation over the seeds; NaN of one seed.

        Parameters
        ----------
        method : str
            The method.

        Returns
        -------
        ndarray of shape (n_places,)
            The standard deviations.
        """
        values = self.values[method]
        if len(values) < 2:
            return np.full(values.shape[1], np.nan)
        return np.asarray(values.std(axis=0, ddof=1))


def learning_curves(
    val_scores: Any,
    val_labels: Any,
    test_scores: Any,
    test_labels: Any,
    *,
    methods: Iterable[str] = ("ts", "ets", "pts"),
    fractions: Iterable[float] = FRACTIONS,
    n_seeds: int = 5,
    metric: str = "ece",
    n_bins: int = DEFAULT_BINS,
    input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
    progress: Progress = False,
) -> LearningCurves:
    """Fit methods on growing parts of the validation rows, to see how many each needs.

    Parameters
    ----------
    val_scores : array of shape (n_val, n_classes)
        The scores to fit on.
    val_labels : array of shape (n_val,)
        Their true classes.
    test_scores : array of shape (n_test, n_classes)
        The scores to judge on.
    test_labels : array of shape (n_test,)
        Their true classes.
    methods : iterable of str, default ("ts", "ets", "pts")
        Names in the registry of calibrators.
    fractions : iterable of float, default (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
        The shares of the validation rows, drawn anew for every seed. Those of a seed are nested.
    n_seeds : int, default 5
        How often rows are drawn.
    metric : str, default "ece"
        A name in ``calibrant.metrics.METRICS``.
    n_bins : int, default 15
        The number of bins.
    input : {"logits", "probs"}, default "logits"
        What the scores are.
    progress : bool or callable, default False
        True shows a bar on standard error; a function is called with (done, total).

    Returns
    -------
    LearningCurves
        The metric over the numbers of rows.

    Raises
    ------
    ValueError
        Where a name or an array is refused.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> curves = learning_curves(
    ...     data.val_logits[:400], data.val_labels[:400], data.test_logits, data.test_labels,
    ...     methods=["ts"], fractions=[0.25, 1.0], n_seeds=2,
    ... )
    >>> curves.at["ts"].tolist(), curves.values["ts"].shape
    ([100, 400], (2, 2))
    """
    names, shares = list(methods), sorted(set(fractions))
    if not names:
        raise ValueError("methods must name at least one method, got none")
    if not shares or not all(0.0 < share <= 1.0 for share in shares):
        raise ValueError(f"fractions must lie in (0, 1], got {shares}")
    check_count(n_seeds, "n_seeds")
    fits = {name: calibrator(name, input=input) for name in names}
    rows, labels, _ = accepted(val_scores, val_labels, None, input, None)
    rows, labels = to_numpy(rows), np.asarray(labels)
    judge = _Judge.of(test_scores, test_labels, metric, n_bins, input)
    sizes = list(dict.fromkeys(max(1, round(share * len(rows))) for share in shares))
    orders = [np.random.default_rng(seed).permutation(len(rows)) for seed in range(n_seeds)]
    values = {name: np.empty((n_seeds, len(sizes))) for name in names}
    with reporter("fitting", progress) as report:
        done = 0
        for place, size in enumerate(sizes):
            for seed, order in enumerate(orders):
                part = np.sort(order[:size])
                for name, model in fits.items():
                    values[name][seed, place] = judge.fitted(model, rows[part], labels[part])
                    report(done := done + 1, len(sizes) * n_seeds * len(names))
    at = {name: np.array(sizes) for name in names}
    return LearningCurves(metric, "rows", at, values, judge.uncalibrated())


def capacity_curves(
    val_scores: Any,
    val_labels: Any,
    test_scores: Any,
    test_labels: Any,
    *,
    families: Mapping[str, Mapping[int, Calibrator]] | None = None,
    n_seeds: int = 3,
    metric: str = "ece",
    n_bins: int = DEFAULT_BINS,
    input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
    progress: Progress = False,
) -> LearningCurves:
    """Fit models of growing expressive power on the same rows.

    Parameters
    ----------
    val_scores : array of shape (n_val, n_classes)
        The scores to fit on.
    val_labels : array of shape (n_val,)
        Their true classes.
    test_scores : array of shape (n_test, n_classes)
        The scores to judge on.
    test_labels : array of shape (n_test,)
        Their true classes.
    families : mapping of str to mapping of int to Calibrator, optional
        The calibrators of each curve by their number of parameters. By default ``ts`` (1), ``ets``
        (4), and ``pts`` with two hidden layers of 1 to 20 units (counting one of its networks).
    n_seeds : int, default 3
        How many ``random_state`` each calibrator that has one is fitted with.
    metric : str, default "ece"
        A name in ``calibrant.metrics.METRICS``.
    n_bins : int, default 15
        The number of bins.
    input : {"logits", "probs"}, default "logits"
        What the scores are.
    progress : bool or callable, default False
        True shows a bar on standard error; a function is called with (done, total).

    Returns
    -------
    LearningCurves
        The metric over the numbers of parameters.

    Raises
    ------
    ValueError
        Where a name or an array is refused.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> curves = capacity_curves(
    ...     data.val_logits[:400], data.val_labels[:400], data.test_logits, data.test_labels,
    ...     families={"ts": {1: calibrant.TS()}, "ets": {4: calibrant.ETS()}}, n_seeds=1,
    ... )
    >>> {name: at.tolist() for name, at in curves.at.items()}
    {'ts': [1], 'ets': [4]}
    """
    check_count(n_seeds, "n_seeds")
    rows, labels, _ = accepted(val_scores, val_labels, None, input, None)
    judge = _Judge.of(test_scores, test_labels, metric, n_bins, input)
    if families is None:
        families = _usual_families(input, rows.shape[1])
    total = n_seeds * sum(map(len, families.values()))
    values: dict[str, Floats] = {}
    with reporter("fitting", progress) as report:
        done = 0
        for name, family in families.items():
            values[name] = np.empty((n_seeds, len(family)))
            for place, model in enumerate(family.values()):
                for seed in range(n_seeds):
                    values[name][seed, place] = judge.fitted(model, rows, labels, seed)
                    report(done := done + 1, total)
    at = {name: np.array(list(family)) for name, family in families.items()}
    return LearningCurves(metric, "parameters", at, values, judge.uncalibrated())


_WIDTHS = (1, 2, 3, 5, 8, 12, 20)


def _usual_families(kind: InputKind, n_classes: int) -> dict[str, dict[int, Calibrator]]:
    inputs = min(10, n_classes)
    by_size = {
        inputs * width + width + width * width + width + width + 1: calibrator(
            "pts", hidden=(width, width), input=kind
        )
        for width in _WIDTHS
    }
    return {
        "ts": {1: calibrator("ts", input=kind)},
        "ets": {4: calibrator("ets", input=kind)},
        "pts": by_size,
    }


@dataclass(frozen=True)
class _Judge:
    """Test rows and a metric."""

    data: Labelled
    scores: Any
    metric: str
    n_bins: int

    @classmethod
    def of(cls, scores: Any, labels: Any, metric: str, n_bins: int, kind: InputKind) -> _Judge:
        metrics_named([metric])
        return cls(labelled(scores, labels, input=kind), scores, metric, n_bins)

    def fitted(self, model: Calibrator, rows: Any, labels: Any, seed: int | None = None) -> float:
        """The metric after a fit on these rows."""
        fresh = clone(model)
        if seed is not None and "random_state" in fresh.get_params():
            fresh.set_params(random_state=seed)
        with noted():  # small parts and small networks are meant
            probs = fresh.fit(rows, labels).predict_proba(self.scores)
        return METRICS[self.metric].value(labelled(probs, self.data.labels), self.n_bins)

    def uncalibrated(self) -> float:
        """The metric of the scores as they are."""
        return METRICS[self.metric].value(self.data, self.n_bins)
