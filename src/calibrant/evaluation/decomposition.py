"""The log loss and the Brier score in parts: what calibration would save, and what would remain.

Calibration is what a calibrator saves on rows that it was not fitted on. So nothing is won by
following the noise of the labels, and the part of a calibrated model is 0, or a little below it by
what the fit costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import count
from reprlib import repr as shown
from typing import Any

import numpy as np
from scipy.special import entr

from calibrant.calibrators import Calibrator, calibrator
from calibrant.calibrators._choosing import error_of_difference
from calibrant.common.arrays import to_numpy
from calibrant.common.docstrings import documented
from calibrant.common.errors import noted
from calibrant.common.json import PlainDocument
from calibrant.common.progress import reporter
from calibrant.common.tables import Backend, Shown, Table, counted, frame_of
from calibrant.common.types import Floats, InputKind, Progress, RandomState, generator
from calibrant.data.checks import as_numpy
from calibrant.data.folds import Folds
from calibrant.data.rows import Rows
from calibrant.data.weights import shares
from calibrant.evaluation.cross_validation import splits
from calibrant.metrics._intervals import check_resamples, p_value_of
from calibrant.metrics._labelled import labelled_rows
from calibrant.metrics._registry import METRICS
from calibrant.metrics._reports import p_text
from calibrant.metrics._resampling import draw_rows
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

    Examples
    --------
    >>> ScoreParts(0.5, 0.1, 0.02, refinement=0.4, uncertainty=0.7)
    ScoreParts(0.5 = 0.1 +- 0.02 + 0.4)
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
        How many folds of the rows were held out in turn.
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

    @documented
    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Convert to a data frame: one row per score.

        Parameters
        ----------
        {backend}

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


@documented
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
    {labels}
    method : str or Calibrator, default "auto"
        What recalibrates: a name in the registry of calibrators, or a calibrator, of which copies
        are fitted. The parts depend on it: one temperature cannot correct errors of single
        classes.
    input : {"logits", "probs"}, default "logits"
        What the scores are. If ``method`` is a calibrator, its own ``input`` counts.
    n_resamples : int, default 0
        How often labels are drawn from the predictions, to see what a calibrated model would show.
        Each draw costs as much as the answer itself.
    {random_state}
    {sample_weight}
    {ignore_index}
    {progress}

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
    Five folds of the rows (two of more than 2,000,000 scores) are held out in turn: the calibrator
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
    if not isinstance(method, str | Calibrator):
        raise TypeError(f"method must be a name such as 'ts' or a calibrator, got {shown(method)}")
    model = calibrator(method, input=input) if isinstance(method, str) else method
    rows = Rows.of(scores, labels, sample_weight, input=model.input, ignore_index=ignore_index)
    labelled_rows(rows)  # checks all values
    rows = rows.with_scores(to_numpy(rows.scores), rows.input).of_some_weight()
    folds, done = rows.folds(), count(1)
    if len(folds.parts) < 2:
        raise ValueError(f"there must be rows to leave out, got {len(rows)} in all")
    null: dict[str, list[float]] = {name: [] for name in SCORES}
    with reporter("decomposing", progress) as report:

        def after_a_fold() -> None:
            report(next(done), (1 + n_resamples) * len(folds.parts))

        found, weight = _losses(model, rows, folds, after_a_fold)
        probs = labelled_rows(rows).probs.astype(np.float64)
        draws = draw_rows(probs, rows.weight, n_resamples, generator(random_state))
        for index, drawn, drawn_weight in draws:
            calibrated = replace(rows.take(index), labels=drawn, sample_weight=drawn_weight)
            losses, split_weight = _losses(model, calibrated, calibrated.folds(), after_a_fold)
            for name, (before, after) in losses.items():
                null[name].append(float(shares(split_weight) @ (before - after)))
    frequency = shares(np.bincount(rows.labels, rows.weight, rows.n_classes).astype(np.float64))
    uncertainty = {"nll": float(entr(frequency).sum()), "brier": float(1.0 - (frequency**2).sum())}
    parts, share = {}, shares(weight)
    for name, (before, after) in found.items():
        saved = float(share @ (before - after))
        known = np.isfinite(before).all()  # or else a true class had probability 0
        parts[name] = ScoreParts(
            score=float(share @ before),
            calibration=saved,
            std_error=error_of_difference(before, after, weight) if known else float("nan"),
            refinement=float(share @ after),
            uncertainty=uncertainty[name],
            null=float(np.mean(null[name])) if n_resamples else None,
            p_value=p_value_of(saved, np.array(null[name])) if n_resamples else None,
        )
    return Decomposition(
        **parts,
        method=method if isinstance(method, str) else type(method).__name__,
        n_rows=len(rows),
        n_folds=len(folds.parts),
        n_resamples=n_resamples,
    )


def _losses(
    model: Calibrator, rows: Rows, folds: Folds, after_a_fold: Callable[[], None]
) -> tuple[dict[str, tuple[Floats, Floats]], Floats]:
    """The log loss and the Brier score of each row, before and after calibration, and weights."""
    from sklearn.base import clone  # a second to import

    rows = folds.rows(rows)
    before = labelled_rows(rows)
    nll, brier = np.empty(len(rows)), np.empty(len(rows))
    for fold, train, held_out in splits(rows, folds):
        with noted():  # five reports of the same would help nobody
            fitted = clone(model).fit(train)
        logs = as_numpy(fitted.predict_log_proba(held_out)).astype(np.float64)
        true = logs[np.arange(len(logs)), held_out.labels]
        nll[fold] = -true
        brier[fold] = np.exp(2.0 * logs).sum(axis=1) - 2.0 * np.exp(true) + 1.0
        after_a_fold()
    return {"nll": (nll_rows(before), nll), "brier": (brier_rows(before), brier)}, rows.weight
