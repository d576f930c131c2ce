"""Diagrams of calibrators: what rows and parameters bring, and the temperatures that rows get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators import Calibrator, TemperatureScaling
from calibrant.calibrators import calibrator as make
from calibrant.common.arrays import to_numpy
from calibrant.common.docstrings import documented
from calibrant.common.errors import noted
from calibrant.common.json import PlainDocument
from calibrant.common.progress import reporter
from calibrant.common.tables import counted
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.binning import check_count
from calibrant.data.checks import as_scores
from calibrant.data.rows import Rows
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._labelled import labelled
from calibrant.metrics._metric import Metric
from calibrant.metrics._registry import METRICS, metrics_named

FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_HIDDEN_UNITS = (1, 2, 3, 5, 8, 12, 20)


# --- curves over fits -------------------------------------------------------------------------


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


@documented
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
    {val_scores}
    {val_labels}
    {test_scores}
    {test_labels}
    methods : iterable of str, default ("ts", "ets", "pts")
        Names in the registry of calibrators.
    fractions : iterable of float, default (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
        The shares of the validation rows, drawn anew for every seed. Those of a seed are nested.
    n_seeds : int, default 5
        How often rows are drawn.
    metric : str, default "ece"
        A name in ``calibrant.metrics.METRICS``.
    {n_bins}
    {input_logits}
    {progress}

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
    models = {name: make(name, input=input) for name in names}
    rows = Rows.of(val_scores, val_labels, input=input)
    rows = rows.with_scores(to_numpy(rows.scores), input)
    test = _TestRows.of(test_scores, test_labels, metric, n_bins, input)
    sizes = list(dict.fromkeys(max(1, round(share * len(rows))) for share in shares))
    orders = [np.random.default_rng(seed).permutation(len(rows)) for seed in range(n_seeds)]
    values = {name: np.empty((n_seeds, len(sizes))) for name in names}
    with reporter("fitting", progress) as report:
        done = 0
        for place, size in enumerate(sizes):
            for seed, order in enumerate(orders):
                part = rows.take(np.sort(order[:size]))
                for name, model in models.items():
                    values[name][seed, place] = test.value_after_fit(model, part)
                    report(done := done + 1, len(sizes) * n_seeds * len(names))
    at = {name: np.array(sizes) for name in names}
    return LearningCurves(metric, "rows", at, values, test.uncalibrated)


@documented
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
    {val_scores}
    {val_labels}
    {test_scores}
    {test_labels}
    families : mapping of str to mapping of int to Calibrator, optional
        The calibrators of each curve by their number of parameters. By default ``ts`` (1), ``ets``
        (4), and ``pts`` with two hidden layers of 1 to 20 units (counting one of its networks).
    n_seeds : int, default 3
        How many ``random_state`` each calibrator that has one is fitted with.
    metric : str, default "ece"
        A name in ``calibrant.metrics.METRICS``.
    {n_bins}
    {input_logits}
    {progress}

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
    rows = Rows.of(val_scores, val_labels, input=input)
    test = _TestRows.of(test_scores, test_labels, metric, n_bins, input)
    if families is None:
        inputs, pts = min(10, rows.n_classes), {}
        for width in _HIDDEN_UNITS:
            parameters = inputs * width + width + width * width + width + width + 1
            pts[parameters] = make("pts", hidden=(width, width), input=input)
        ts, ets = make("ts", input=input), make("ets", input=input)
        families = {"ts": {1: ts}, "ets": {4: ets}, "pts": pts}
    total = n_seeds * sum(map(len, families.values()))
    values: dict[str, Floats] = {}
    with reporter("fitting", progress) as report:
        done = 0
        for name, family in families.items():
            values[name] = np.empty((n_seeds, len(family)))
            for place, model in enumerate(family.values()):
                for seed in range(n_seeds):
                    values[name][seed, place] = test.value_after_fit(model, rows, seed)
                    report(done := done + 1, total)
    at = {name: np.array(list(family)) for name, family in families.items()}
    return LearningCurves(metric, "parameters", at, values, test.uncalibrated)


@dataclass(frozen=True)
class _TestRows:
    """Test rows, a metric, and its value before calibration."""

    rows: Rows
    metric: Metric
    n_bins: int
    uncalibrated: float

    @classmethod
    def of(cls, scores: Any, labels: Any, metric: str, n_bins: int, kind: InputKind) -> _TestRows:
        metrics_named([metric])
        rows = Rows.of(scores, labels, input=kind)
        data = labelled(rows.scores, rows.labels, input=kind)
        return cls(rows, METRICS[metric], n_bins, METRICS[metric].value(data, n_bins))

    def value_after_fit(self, model: Calibrator, train: Rows, seed: int | None = None) -> float:
        """The metric of a copy of the model that is fitted on other rows."""
        from sklearn.base import clone  # a second to import

        fresh = clone(model)
        if seed is not None and "random_state" in fresh.get_params():
            fresh.set_params(random_state=seed)
        with noted():  # small parts and small networks are meant
            probs = fresh.fit(train).predict_proba(self.rows)
        return self.metric.value(labelled(probs, self.rows.labels), self.n_bins)


# --- temperatures -----------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Temperatures(PlainDocument):
    """One temperature per row, beside what the scores themselves say of the row.

    Parameters
    ----------
    temperature : ndarray of shape (n_rows,)
        The temperature of each row.
    confidence : ndarray of shape (n_rows,)
        The largest probability of the row before calibration.
    margin : ndarray of shape (n_rows,)
        The distance of its two largest logits.
    entropy : ndarray of shape (n_rows,)
        The entropy of its probabilities before calibration, over that of equal ones: from 0 to 1.
    reference : float or None
        One temperature for all rows, to compare with: that of temperature scaling.
    method : str
        The calibrator's class.
    """

    temperature: Floats
    confidence: Floats
    margin: Floats
    entropy: Floats
    reference: float | None
    method: str

    def __repr__(self) -> str:
        low, middle, high = np.quantile(self.temperature, [0.05, 0.5, 0.95])
        rows = counted(len(self.temperature), "row")
        return f"Temperatures of {rows}: median {middle:.3g}, 90% within {low:.3g} to {high:.3g}"


def temperatures(
    calibrator: Calibrator, logits: Any, *, reference: Calibrator | float | None = None
) -> Temperatures:
    """Compute the temperature of every row.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator of the temperature family, such as ``PTS`` or ``TS``.
    logits : array of shape (n_rows, n_classes)
        Scores of the kind that it was fitted on.
    reference : Calibrator or float, optional
        A fitted ``TS``, or its temperature, to compare with.

    Returns
    -------
    Temperatures
        One temperature per row, with the row's confidence, margin and entropy.

    Raises
    ------
    ValueError
        Where the calibrator has no temperatures.

    Examples
    --------
    >>> import calibrant
    >>> ts = calibrant.TS().fit([[2.0, 0.0], [3.0, 0.0], [0.0, 4.0], [0.0, 1.0]], [0, 1, 1, 0])
    >>> shown = temperatures(ts, [[2.0, 0.0], [0.0, 1.0]])
    >>> shown.confidence.round(2).tolist()
    [0.88, 0.73]
    """
    if not hasattr(calibrator, "temperature"):
        raise ValueError(f"{type(calibrator).__name__} gives no temperatures: PTS and its kin do")
    found = to_numpy(calibrator.temperature(logits)).astype(np.float64)
    scores = to_numpy(as_scores(logits, calibrator.input_)).astype(np.float64)
    if calibrator.input_ == "probs":
        with np.errstate(divide="ignore"):
            scores = np.log(scores)
    gaps = scores - scores.max(axis=1, keepdims=True)
    weights = np.exp(gaps)
    total = weights.sum(axis=1)
    finite = np.where(np.isfinite(gaps), gaps, 0.0)  # a masked class (-inf) has no probability
    entropy = np.log(total) - (weights * finite).sum(axis=1) / total
    if isinstance(reference, TemperatureScaling):
        reference = reference.temperature_
    elif not (reference is None or isinstance(reference, int | float)):
        raise ValueError(
            "reference must be a fitted TS or a number, got " + type(reference).__name__
        )
    return Temperatures(
        temperature=found,
        confidence=1.0 / total,
        margin=-np.partition(gaps, -2, axis=1)[:, -2],
        entropy=entropy / np.log(scores.shape[1]),
        reference=None if reference is None else float(reference),
        method=type(calibrator).__name__,
    )
