"""Venn-Abers calibration, one class against all others (Vovk, Petej and Fedorova 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import EXACT, FitInfo
from calibrant.calibrators._one_vs_all import ClassColumns, Column, grouped_sums, tie_width
from calibrant.calibrators._prediction import map_rows
from calibrant.common.docstrings import documented
from calibrant.common.types import Array, Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import Formula, FormulaRows, SeenClasses, Smoothed, Steps, VennAbersMap
from calibrant.formulas._operations import Ops

ROUNDING = 1e-5  # of a score, beside its own size

StepFunction = tuple[Floats, Floats]  # edges and levels


@documented
class VennAbers(LogitCalibrator):
    """Two isotonic regressions per class, one for either label. Does not preserve accuracy.

    An isotonic regression with a measure of its own uncertainty: ``predict_interval`` gives two
    probabilities of each class, far apart where there were few rows to learn from, and
    ``predict_proba`` one of both, which is never 0 or 1.

    Parameters
    ----------
    {fit_progress}
    {input_logits}

    Notes
    -----
    For a row with the probability p_c, isotonic regression of "the label is c" is fitted twice: on
    the fitting rows and this row, once as if its label were c and once as if it were not. The
    values at the row are u and l. If the rows are exchangeable, one of both is calibrated exactly:
    that of the true label. The single probability u / (1 - l + u) has the smallest log loss in the
    worst case. Both values are step functions of p_c; they are found for all p_c at once, from the
    corners of the convex minorant of the cumulative sums (the inductive predictor of the paper).
    For several classes the single probabilities are divided by their sum.

    The cross predictor of the paper fits one calibrator per fold of a cross-validation, as
    ``calibrant.sklearn.CalibratedClassifier(model, method="venn-abers")`` does; ``merge`` makes one
    probability of their intervals as the paper has it (the classifier takes the plain mean).

    References
    ----------
    Vovk, Petej and Fedorova, "Large-scale probabilistic predictors with and without guarantees of
    validity", NeurIPS 2015.

    Examples
    --------
    >>> calibrator = VennAbers().fit([3.0, -2.0, 1.0, -1.0], [1, 0, 0, 1])
    >>> lower, upper = calibrator.predict_interval([2.0])
    >>> lower.round(3), upper.round(3)
    (array([[0.   , 0.333]]), array([[0.667, 1.   ]]))
    >>> calibrator.predict_proba([2.0]).round(3)
    array([[0.4, 0.6]])
    """

    _gives = VennAbersMap

    def __init__(self, progress: Progress = False, input: InputKind = "logits") -> None:  # noqa: A002
        self.progress = progress
        self.input = input

    def predict_interval(self, logits: Any) -> tuple[Array, Array]:
        """Compute both probabilities of each class.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names.

        Returns
        -------
        lower : array of shape (rows, classes)
            The probabilities of the classes where the row is taken to be of another class.
        upper : array of shape (rows, classes)
            The probabilities where it is taken to be of that class; never below ``lower``. Those
            of a class without a row in the fit are 0 and 1: nothing is known about it.
        """
        formula, rows = self._accepted(logits, None)

        def bounds(rows: FormulaRows, ops: Ops) -> tuple[Array, Array]:
            lower, upper = _bounds(formula, rows, ops)
            return ops.cast(lower, rows.logits), ops.cast(upper, rows.logits)

        lower, upper = map_rows(formula, rows, bounds)
        return lower, upper

    @staticmethod
    def merge(intervals: Sequence[tuple[Array, Array]]) -> Array:
        """Make one probability of each class from the intervals of several calibrators.

        Parameters
        ----------
        intervals : sequence of pairs of arrays of shape (rows, classes)
            What ``predict_interval`` gives for the same rows, one pair per fold.

        Returns
        -------
        array of shape (rows, classes)
            GM(u) / (GM(1 - l) + GM(u)), GM being the geometric mean over the folds, divided by its
            sum over the classes: the smallest log loss in the worst case.

        Examples
        --------
        >>> one, other = VennAbers().fit([-1.0, 2.0], [0, 1]), VennAbers().fit([0.0, 3.0], [0, 1])
        >>> VennAbers.merge([fold.predict_interval([1.0]) for fold in (one, other)]).round(3)
        array([[0.5, 0.5]])
        """
        lower, upper = (np.stack([np.asarray(pair[side]) for pair in intervals]) for side in (0, 1))
        hit, miss = (np.exp(np.log(part).mean(axis=0)) for part in (upper, 1.0 - lower))
        values = hit / (miss + hit)
        return values / values.sum(axis=1, keepdims=True)

    def _fit_logits(self, data: Rows) -> Fitted:
        columns = ClassColumns.of_probabilities(data)
        fits = columns.fit_each(_fit_column, type(self).__name__, self.progress)
        lower, upper = zip(*fits, strict=True)
        formula = VennAbersMap(Steps.join(lower), Steps.join(upper), data.n_classes)
        steps = len(formula.lower.levels) + len(formula.upper.levels)
        details = {"steps": steps, "absent_classes": columns.absent_classes}
        return formula, FitInfo(True, EXACT, details=details)


def _fit_column(column: Column) -> tuple[StepFunction, StepFunction]:
    """The lower and the upper value as functions of the score."""
    # the different scores in rising order, and which one each row has, up to rounding
    values, place = np.unique(column.score, return_inverse=True)
    first = np.append(True, np.diff(values) > tie_width(values[:-1]))[: len(values)]
    score, group = values[first], (np.cumsum(first) - 1)[place.ravel()]
    total = grouped_sums(group, column.weight)
    hits = grouped_sums(group, column.weight * column.hit)
    upper = upper_levels(total, hits)
    # the lower value of a class is what the upper one of "not this class" leaves
    lower = 1.0 - upper_levels(total[::-1], (total - hits)[::-1])[::-1]
    # A row with a known score joins its group: the lower function steps below it, the upper one
    # above. Both leave room for rounding: scores in float32 are known scores, too.
    below, above = score - ROUNDING * score, score + ROUNDING * score
    middle = 0.5 * (score[:-1] + score[1:])
    below[1:], above[:-1] = np.maximum(below[1:], middle), np.minimum(above[:-1], middle)
    return _shortened(below, lower), _shortened(above, upper)


def upper_levels(total: Floats, hits: Floats) -> Floats:
    """The isotonic regression at an additional hit of weight 1: at each score, and above them all.

    ``total`` and ``hits`` are the weights at each distinct score, in rising order of the scores.

    The regression is the slope of the greatest convex minorant of the cumulative sums P_0 .. P_k.
    A hit at the score j moves the points before it to P - (1, 1), and the value there is the slope
    of the minorant from Q_j = P_(j-1) - (1, 1) on: that of the tangent from Q_j to the points from
    P_j on, or, where Q_j lies above the minorant, of an earlier tangent, which is steeper. The
    tangents that count touch corners of the minorant of all points, which are convex: bisection
    finds them for all j at once.
    """
    if len(total) == 0:
        return np.ones(1)
    x, y = np.append(0.0, np.cumsum(total)), np.append(0.0, np.cumsum(hits))
    corner = isotonic_regression(hits / total, weights=total).blocks
    corner_x, corner_y = x[corner], y[corner]
    from_x, from_y = x[:-1] - 1.0, y[:-1] - 1.0
    low = np.searchsorted(corner, np.arange(1, len(x)))  # the first corner that is still ahead
    high = np.full(len(low), len(corner) - 1)
    while np.any(low < high):
        middle = (low + high) // 2
        after = np.minimum(middle + 1, len(corner) - 1)
        rise = (corner_y[after] - corner_y[middle]) * (corner_x[middle] - from_x)
        run = (corner_y[middle] - from_y) * (corner_x[after] - corner_x[middle])
        steeper = (rise < run) & (low < high)  # than the minorant behind this corner: go on
        low = np.where(steeper, middle + 1, low)
        high = np.where(steeper, high, middle)
    slope = (corner_y[low] - from_y) / (corner_x[low] - from_x)
    return np.append(np.minimum(np.maximum.accumulate(slope), 1.0), 1.0)


def _shortened(edges: Floats, levels: Floats) -> StepFunction:
    """The same steps without those between equal levels."""
    rising = np.diff(levels) > 0.0
    return edges[rising], np.append(levels[:-1][rising], levels[-1])


def _bounds(formula: Formula, rows: FormulaRows, ops: Ops) -> tuple[Array, Array]:
    """Both probabilities of every class, whatever stands around the method's own formula."""
    if isinstance(formula, Smoothed):
        return _bounds(formula.formula, formula.read(rows, ops), ops)
    if isinstance(formula, VennAbersMap):
        return formula.bounds(rows, ops)
    nothing, everything = ops.full_like(rows.logits, 0.0), ops.full_like(rows.logits, 1.0)
    if not isinstance(formula, SeenClasses):  # all rows had one class
        return nothing, everything
    lower, upper = _bounds(formula.formula, formula.own_rows(rows, ops), ops)
    rest = formula.share_of_seen(rows, ops)
    return (
        ops.columns(ops.concat([lower * rest, nothing]), formula.place),
        ops.columns(ops.concat([upper * rest, everything]), formula.place),
    )
