"""The log loss and the Brier score in parts: what calibration would save, and what would remain.

Calibration is what a calibrator saves on rows that it was not fitted on. So nothing is won by
following the noise of the labels, and the part of a calibrated model is 0, or a little below it by
what the fit costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import count
from reprlib import repr as shown
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from calibrant.calibrators import Calibrator, calibrator
from calibrant.calibrators._choosing import error_of_difference
from calibrant.common.arrays import to_numpy
from calibrant.common.documents import PlainDocument
from calibrant.common.errors import noted
from calibrant.common.frames import Backend, frame_of
from calibrant.common.progress import reporter
from calibrant.common.random import generator
from calibrant.common.tables import Shown, Table, counted
from calibrant.common.types import Floats, InputKind, Progress, RandomState
from calibrant.data.checks import as_numpy
from calibrant.data.folds import Folds, folds_of
from calibrant.data.rows import Rows
from calibrant.data.weights import shares
from calibrant.metrics._class_resampling import draw_rows
from calibrant.metrics._intervals import check_resamples, p_value_of
from calibrant.metrics._labelled import accepted, labelled
from calibrant.metrics._registry import METRICS
from calibrant.metrics._tables import p_text
from calibrant.metrics.scores import brier_rows, nll_rows

SCORES = ("nll", "brier")


@dataclass(frozen=True, repr=False)
class ScoreParts(PlainDocument):
    """A score in parts: score = calibration + refinement.

    Parameters
    ----------
    score : float
        The mean score of the rows.
    calibration : float
        What the calibrator saves on rows that it was not fitted on; below 0 where it only costs.
    std_error : float
        The standard error of ``calibration``.
    refinement : float
        What remains.
    uncertainty : float
        The score of the frequencies of the classes.
    null : float or None
        The mean ``calibration`` of a calibrated model with the same predictions; None where nothing
        was drawn.
    p_value : float or None
        How likely a calibrated model is to show so large a ``calibration``; None as above.
    """

    score: float
    calibration: float
    std_error: float
    refinement: float
    uncertainty: float
    null: float | None = None
    p_value: float | None = None

    def __repr__(self) -> str:
        saved = f"{self.calibration:.4g} +- {self.std_error:.2g}"
        return f"ScoreParts({self.score:.4g} = {saved} + {self.refinement:.4g})"

    @property
    def resolution(self) -> float:
        """What knowing the predictions takes off the score of the class frequencies."""
        return self.uncertainty - self.refinement


@dataclass(frozen=True, repr=False)
class Decomposition(Shown, PlainDocument):
    """The log loss and the Brier score in parts; ``print`` shows a table.

    Parameters
    ----------
    nll : ScoreParts
        The parts of the log loss.
    brier : ScoreParts
        The parts of the Brier score.
    method : str
        The calibrator.
    n_rows : int
        The number of rows.
    n_folds : int
        How many parts of the rows were left out in turn.
    n_resamples : int
        How often labels were drawn.

    Examples
    --------
    >>> parts = decompose([[3.0, 0.0], [0.0, 3.0]] * 20, [0, 1, 0, 0] * 10, method="ts")
    >>> round(parts.nll.score, 2), parts.method
    (0.8, 'ts')
    """

    nll: ScoreParts
    brier: ScoreParts
    method: str
    n_rows: int
    n_folds: int
    n_resamples: int

    def __repr__(self) -> str:
        parts = (f"{name}: {getattr(self, name)!r}" for name in SCORES)
        rows = counted(self.n_rows, "row")
        return f"Decomposition({rows}, {counted(self.n_folds, 'fold')}, {', '.join(parts)})"

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Convert to a data frame: one row per score.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default "pandas"
            The library, which must be installed.

        Returns
        -------
        DataFrame
            The column ``metric``, "nll" or "brier", and the fields of ``ScoreParts``.
        """
        parts = [getattr(self, name) for name in SCORES]
        names = [field.name for field in fields(ScoreParts)]
        columns = {name: [getattr(part, name) for part in parts] for name in names}
        return frame_of({"metric": list(SCORES), **columns}, backend)

    def _tables(self) -> list[Table]:
        header = ["", "score", "calibration", "+-", "if calibrated", "p-value", "refinement"]
        rows = []
        for name in SCORES:
            parts, show = getattr(self, name), METRICS[name].format
            null = "" if parts.null is None else show(parts.null)
            p_value = "" if parts.p_value is None else p_text(parts.p_value, self.n_resamples)
            shown = [show(value) for value in (parts.score, parts.calibration, parts.std_error)]
            rows.append([METRICS[name].label, *shown, null, p_value, show(parts.refinement)])
        size = f"{counted(self.n_rows, 'row')}, {counted(self.n_folds, 'fold')}"
        title = f"{size}; calibration: what {self.method} saves on left-out rows"
        return [Table(header, rows, title).filled()]


def decompose(
    scores: Any,
    labels: Any,
    *,
    method: str | Calibrator = "auto",
    input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
    n_resamples: int = 0,
    random_state: RandomState = None,
    sample_weight: Any = None,
    ignore_index: int | None = None,
    progress: Progress = False,
) -> Decomposition:
    """Split the log loss and the Brier score into calibration and refinement, by cross-validation.

    Parameters
    ----------
    scores : array of shape (n_rows, n_classes) or (n_rows,)
        Logits, or probabilities with ``input="probs"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    method : str or Calibrator, default "auto"
        What recalibrates: a name in the registry of calibrators, or a calibrator, of which copies
        are fitted. The parts hang on it: a temperature alone cannot save what is wrong with single
        classes.
    input : {"logits", "probs"}, default "logits"
        What the scores are. A calibrator of one's own has the word for itself.
    n_resamples : int, default 0
        How often labels are drawn from the predictions, to see what a calibrated model would show.
        Each draw costs as much as the answer itself.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws; None is 0.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    ignore_index : int, optional
        Rows with this label are left out.
    progress : bool or callable, default False
        True shows a bar on standard error; a function is called with (done, total).

    Returns
    -------
    Decomposition
        The parts of both scores.

    Raises
    ------
    ValueError
        Where an argument is refused, or where there are too few rows to leave some out.

    Notes
    -----
    Five parts of the rows (two of more than 2,000,000 scores) are left out in turn, the calibrator
    is fitted on the others and judged on them. The folds depend on the content of the rows and not
    on their order. Of the log loss, refinement is what Berta et al. choose a model by;
    ``metrics.brier_decomposition`` has the classical parts, class by class.

    References
    ----------
    Bröcker, "Reliability, sufficiency, and the decomposition of proper scores", Quarterly Journal
    of the Royal Meteorological Society 135, 2009. Berta, Holzmüller, Jordan and Bach, "Rethinking
    Early Stopping: Refine, Then Calibrate", 2025.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> parts = decompose(data.val_logits[:1000], data.val_labels[:1000], method="ts")
    >>> 0.0 < parts.nll.calibration < parts.nll.refinement
    True
    """
    check_resamples(n_resamples, 0)
    model = _model(method, input)
    kind: InputKind = getattr(model, "input", input)
    data = _entered(scores, labels, sample_weight, kind, ignore_index)
    folds, done = folds_of(data), count(1)
    if len(folds.parts) < 2:
        raise ValueError(f"there must be rows to leave out, got {len(data.labels)} in all")
    with reporter("decomposing", progress) as report:

        def after_a_fold() -> None:
            report(next(done), (1 + n_resamples) * len(folds.parts))

        found = _judged(model, data, folds, kind, after_a_fold)
        null = [
            _judged(model, drawn, folds_of(drawn), kind, after_a_fold)
            for drawn in _drawn(data, kind, n_resamples, generator(random_state))
        ]
    return Decomposition(
        nll=_parts(found.nll, [one.nll.saving for one in null], _entropy(data)),
        brier=_parts(found.brier, [one.brier.saving for one in null], _gini(data)),
        method=method if isinstance(method, str) else type(method).__name__,
        n_rows=len(data.labels),
        n_folds=len(folds.parts),
        n_resamples=n_resamples,
    )


def _model(method: str | Calibrator, kind: InputKind) -> Calibrator:
    if isinstance(method, str):
        return calibrator(method, input=kind)
    if not isinstance(method, Calibrator):
        raise TypeError(f"method must be a name such as 'ts' or a calibrator, got {shown(method)}")
    return method


# --- rows -------------------------------------------------------------------------------------


def _entered(
    scores: Any, labels: Any, sample_weight: Any, kind: InputKind, ignore_index: int | None
) -> Rows:
    """Checked rows in main memory, those that count; the scores are of either kind."""
    array, labels, weight = accepted(scores, labels, sample_weight, kind, ignore_index)
    checked = labelled(array, labels, weight, input=kind)
    rows = Rows(to_numpy(array), checked.labels, checked.weight, kind)
    return rows.of_some_weight()


def _drawn(data: Rows, kind: InputKind, times: int, rng: np.random.Generator) -> Iterator[Rows]:
    """The rows with labels drawn from their predictions."""
    probs = to_numpy(labelled(data.scores, data.labels, input=kind).probs).astype(np.float64)
    for rows, labels, weight in draw_rows(probs, data.weight, times, rng):
        yield replace(data.take(rows), labels=labels, sample_weight=weight)


# --- losses -----------------------------------------------------------------------------------


class _Losses(NamedTuple):
    """One score per row, as the scores are and after calibration on other rows."""

    before: Floats
    after: Floats
    weight: Floats

    @property
    def saving(self) -> float:
        return float(shares(self.weight) @ (self.before - self.after))


class _Judged(NamedTuple):
    nll: _Losses
    brier: _Losses


def _judged(
    model: Calibrator,
    data: Rows,
    folds: Folds,
    kind: InputKind,
    after_a_fold: Callable[[], None],
) -> _Judged:
    """Both scores of each row, before and after calibration on the other folds."""
    from sklearn.base import clone  # a second to import

    data = folds.rows(data)
    before = labelled(data.scores, data.labels, data.weight, input=kind)
    nll, brier = np.empty(len(data.labels)), np.empty(len(data.labels))
    for fold in folds.parts:
        kept = data.take(np.setdiff1d(np.arange(len(nll)), fold))
        with noted():  # five reports of the same would help nobody
            fitted = clone(model).fit(kept)
        nll[fold], brier[fold] = _scored(fitted, data.take(fold))
        after_a_fold()
    return _Judged(
        _Losses(nll_rows(before), nll, data.weight),
        _Losses(brier_rows(before), brier, data.weight),
    )


def _scored(fitted: Calibrator, rows: Rows) -> tuple[Floats, Floats]:
    """The log loss and the Brier score of each row."""
    logs = as_numpy(fitted.predict_log_proba(rows)).astype(np.float64)
    true = logs[np.arange(len(logs)), rows.labels]
    return -true, np.exp(2.0 * logs).sum(axis=1) - 2.0 * np.exp(true) + 1.0


def _parts(losses: _Losses, null: list[float], uncertainty: float) -> ScoreParts:
    score = float(shares(losses.weight) @ losses.before)
    return ScoreParts(
        score=score,
        calibration=losses.saving,
        std_error=_error(losses),
        refinement=float(shares(losses.weight) @ losses.after),
        uncertainty=uncertainty,
        null=float(np.mean(null)) if null else None,
        p_value=p_value_of(losses.saving, np.array(null)) if null else None,
    )


def _error(losses: _Losses) -> float:
    """The standard error of the saving; NaN where a true class had probability 0."""
    if not np.isfinite(losses.before).all():
        return float("nan")
    return error_of_difference(losses.before, losses.after, losses.weight)


def _class_shares(data: Rows) -> Floats:
    return shares(np.bincount(data.labels, data.weight, data.n_classes).astype(np.float64))


def _entropy(data: Rows) -> float:
    return float(entr(_class_shares(data)).sum())


def _gini(data: Rows) -> float:
    return float(1.0 - (_class_shares(data) ** 2).sum())
