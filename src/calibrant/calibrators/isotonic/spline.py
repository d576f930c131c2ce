"""Top-label recalibration by a spline through the cumulative curve (Gupta et al. 2021)."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline

from calibrant._fit_info import EXACT, FitInfo
from calibrant._types import Floats, InputKind
from calibrant.calibrators._base import Fitted, LabelledLogits, LogitCalibrator
from calibrant.calibrators._one_vs_all import CERTAIN, top_column
from calibrant.formulas import Lines, TopLabelMap

GRID = 2000  # points of the least-squares fit: the cumulative curve is smooth on this scale


class SplineCalibration(LogitCalibrator):
    """A smooth function of the largest probability, by a spline. Preserves accuracy.

    The new confidence goes to the top class; the others share the rest in their old proportions,
    evened out where the second would pass the first, so that each row sums to 1 and keeps its arg
    max. For that a confidence below 1 / (number of classes) is raised to it.

    Parameters
    ----------
    n_knots : int, default 6
        Knots of the spline, evenly spaced in the share of rows.
    input : {"logits", "probs"}, default "logits"
        What the scores are.

    Notes
    -----
    The fitting rows are ordered by confidence; H(t) is the share of all rows that are among the
    least confident share t and right. Its slope is the accuracy at that confidence. A natural
    cubic spline is fitted to H by least squares and gives that slope without noise. Here the spline
    meets H at both ends, so that the mean of the new confidences over the fitting rows is the
    accuracy (the authors leave the ends free).

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

    def __init__(
        self,
        n_knots: int = 6,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.n_knots = n_knots
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return True

    def _check_parameters(self) -> None:
        if self.n_knots < 2:
            raise ValueError(f"n_knots must be at least 2, got {self.n_knots}")

    def _fit_logits(self, data: LabelledLogits) -> Fitted:
        top = top_column(data)
        x, group = np.unique(top.score, return_inverse=True)
        total = top.weight.sum()
        share = np.bincount(group, top.weight) / total
        right = np.bincount(group, top.weight * top.hit) / total
        t, h = np.append(0.0, np.cumsum(share)), np.append(0.0, np.cumsum(right))
        spline = _fit_spline(t / t[-1], h, min(self.n_knots, len(t)))
        y = np.clip(np.diff(spline(t / t[-1])) / share, 0.0, 1.0)
        details = {"accuracy": float(h[-1])}
        formula = TopLabelMap(Lines.join([(x, y)]), data.n_classes, CERTAIN)
        return formula, FitInfo(True, EXACT, details=details)


def _fit_spline(t: Floats, h: Floats, knots: int) -> CubicSpline[np.float64]:
    """The natural cubic spline nearest to the line through (t, h), equal to it at 0 and 1."""
    place = np.linspace(0.0, 1.0, knots)
    grid = np.linspace(0.0, 1.0, GRID)
    basis = CubicSpline(place, np.eye(knots), bc_type="natural")(grid)
    values = np.append(np.zeros(knots - 1), h[-1])
    rest = np.interp(grid, t, h) - basis @ values
    values[1:-1] = np.linalg.lstsq(basis[:, 1:-1], rest, rcond=None)[0]
    return CubicSpline(place, values, bc_type="natural")
