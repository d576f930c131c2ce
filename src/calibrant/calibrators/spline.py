"""Top-label recalibration by a spline through the cumulative curve (Gupta et al. 2021)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from calibrant._arrays import InputKind
from calibrant.calibrators._arg_max import spread, spread_log, top_label
from calibrant.calibrators._base import LogitCalibrator
from calibrant.calibrators._columns import Floats

GRID = 2000  # points of the least-squares fit: the cumulative curve is smooth on this scale


class SplineCalibration(LogitCalibrator):
    """The top confidence becomes the slope of a smoothed cumulative accuracy. Preserves accuracy.

    The fitting rows are ordered by confidence; H(t) is the share of all rows that are among the
    least confident share t and right. Its slope is the accuracy at that confidence. A natural
    cubic spline with ``n_knots`` knots, evenly spaced in t, is fitted to H by least squares and
    gives that slope without noise. Here the spline meets H at both ends, so that the mean of the
    new confidences over the fitting rows is the accuracy (the authors leave the ends free).

    The new confidence goes to the top class; the others share the rest in their old proportions,
    evened out where the second would pass the first, so that each row sums to 1 and keeps its arg
    max. For that a confidence below 1 / (number of classes) is raised to it.
    """

    accuracy_preserving = True
    _host_only = True
    _state = ("x_", "y_")

    def __init__(
        self,
        n_knots: int = 6,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.n_knots = n_knots
        self.input = input

    def _fit_logits(self, logits: Floats, labels: NDArray[np.int64], weight: Floats) -> None:
        if self.n_knots < 2:
            raise ValueError(f"n_knots must be at least 2, got {self.n_knots}")
        used = weight > 0.0
        top, confidence = top_label(logits[used])
        self.x_, group = np.unique(confidence, return_inverse=True)
        share = np.bincount(group, weight[used]) / weight.sum()
        right = np.bincount(group, weight[used] * (top == labels[used])) / weight.sum()
        t, h = np.append(0.0, np.cumsum(share)), np.append(0.0, np.cumsum(right))
        spline = _fit_spline(t / t[-1], h, min(self.n_knots, len(t)))
        self.y_ = np.clip(np.diff(spline(t / t[-1])) / share, 0.0, 1.0)
        self.fit_info_ = {"converged": True, "message": "exact", "accuracy": float(h[-1])}

    def _confidence(self, logits: NDArray[Any]) -> Floats:
        return np.interp(top_label(logits)[1], self.x_, self.y_)

    def _probabilities(self, logits: NDArray[Any]) -> NDArray[Any]:
        return spread(logits, self._confidence(logits))

    def _log_probabilities(self, logits: NDArray[Any]) -> NDArray[Any]:
        return spread_log(logits, self._confidence(logits))


def _fit_spline(t: Floats, h: Floats, knots: int) -> CubicSpline[np.float64]:
    """The natural cubic spline nearest to the line through (t, h), equal to it at 0 and 1."""
    place = np.linspace(0.0, 1.0, knots)
    grid = np.linspace(0.0, 1.0, GRID)
    basis = CubicSpline(place, np.eye(knots), bc_type="natural")(grid)
    values = np.append(np.zeros(knots - 1), h[-1])
    rest = np.interp(grid, t, h) - basis @ values
    values[1:-1] = np.linalg.lstsq(basis[:, 1:-1], rest, rcond=None)[0]
    return CubicSpline(place, values, bc_type="natural")
