"""Top-label recalibration by a spline through cumulative errors (Gupta et al. 2021)."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import EXACT, FitInfo
from calibrant.calibrators._one_vs_all import Column
from calibrant.calibrators._parameters import AtLeast, constraints
from calibrant.common.docstrings import documented
from calibrant.common.types import InputKind
from calibrant.data.rows import Rows
from calibrant.data.weights import effective_rows, shares, weighted_mean
from calibrant.formulas import Lines, TopLabelMap

GRID = 2000  # points of the least-squares fit: the cumulative curve is smooth on this scale


@documented
class SplineCalibration(LogitCalibrator):
    """A smooth function of the largest probability, by a spline. Preserves accuracy.

    The new confidence goes to the top class; the others share the rest in their old proportions,
    evened out where the second would pass the first, so that each row sums to 1 and keeps its arg
    max. For that a confidence below 1 / (number of classes) is raised to it.

    Parameters
    ----------
    n_knots : int, default 6
        Knots of the spline, evenly spaced in the share of rows.
    {input_logits}

    Notes
    -----
    The fitting rows are ordered by confidence; H(t) is the sum of correctness minus confidence over
    the least confident share t of the rows, divided by the number of all rows. Its slope is
    accuracy minus confidence there. A natural cubic spline is fitted to H by least squares, and its
    slope, without noise, corrects the confidence. Two things differ from the authors' fit: the
    spline meets H at both ends, so that the mean of the new confidences over the fitting rows is
    the accuracy; and of n rows none is given more than (n + 1) / (n + 2), the rule of succession,
    where the authors give up to 1 and one mistake would cost any amount.

    References
    ----------
    Gupta et al., "Calibration of Neural Networks using Splines", ICLR 2021.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> spline = SplineCalibration().fit(data.val_logits, data.val_labels)
    >>> calibrant.metrics.ece(spline.predict_proba(data.test_logits), data.test_labels) < 0.02
    True
    """

    _gives = TopLabelMap
    _keeps_arg_max = True
    _constraints = constraints(n_knots=AtLeast(2))

    def __init__(self, n_knots: int = 6, input: InputKind = "logits") -> None:  # noqa: A002
        self.n_knots = n_knots
        self.input = input

    def _fit_logits(self, data: Rows) -> Fitted:
        top = Column.of_top_label(data)
        x, group = np.unique(top.score, return_inverse=True)
        hit, weight = top.target, shares(top.weight)
        share = np.bincount(group, weight)
        gap = np.bincount(group, weight * (hit - top.score))
        t, h = np.append(0.0, np.cumsum(share)), np.append(0.0, np.cumsum(gap))
        t /= t[-1]
        # the natural cubic spline nearest to the line through (t, h), equal to it at 0 and 1
        knots, grid = min(self.n_knots, len(t)), np.linspace(0.0, 1.0, GRID)
        place = np.linspace(0.0, 1.0, knots)
        basis = CubicSpline(place, np.eye(knots), bc_type="natural")(grid)
        values = np.append(np.zeros(knots - 1), h[-1])
        rest = np.interp(grid, t, h) - basis @ values
        values[1:-1] = np.linalg.lstsq(basis[:, 1:-1], rest, rcond=None)[0]
        spline = CubicSpline(place, values, bc_type="natural")
        y = np.clip(x + np.diff(spline(t)) / share, 0.0, 1.0)
        rows = effective_rows(data.weight)
        formula = TopLabelMap(Lines.join([(x, y)]), data.n_classes, (rows + 1.0) / (rows + 2.0))
        return formula, FitInfo(True, EXACT, details={"accuracy": weighted_mean(hit, weight)})
