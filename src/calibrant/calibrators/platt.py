"""Platt scaling of two classes (Platt 1999)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import InputKind
from calibrant.calibrators._columns import Floats
from calibrant.calibrators._logistic import fit_logistic
from calibrant.calibrators._two_class import TwoClassCalibrator


class PlattScaling(TwoClassCalibrator):
    """A sigmoid of the log-odds of two classes. Does not preserve accuracy.

    The probability of class 1 is sigma(slope s + intercept), s = z_1 - z_0, by maximum likelihood
    with Platt's targets: (n1 + 1) / (n1 + 2) for the n1 rows of class 1 and 1 / (n0 + 2) for the n0
    others, in place of 1 and 0. They keep separable rows, or rows of one class, finite.

    >>> platt = PlattScaling().fit([3.0, -2.0, 1.0, -1.0], [1, 0, 0, 1])
    >>> platt.predict_proba([2.0]).round(3)
    array([[0.41, 0.59]])
    """

    _state = ("slope_", "intercept_")

    def __init__(self, input: InputKind = "logits") -> None:  # noqa: A002
        self.input = input

    def _fit_log_odds(self, score: Floats, hit: NDArray[np.bool_], weight: Floats) -> None:
        if len(score) == 0:
            self.slope_, self.intercept_ = 1.0, 0.0
            self.fit_info_ = {"converged": True, "message": "no rows without a masked class"}
            return
        ones, zeros = float(weight[hit].sum()), float(weight[~hit].sum())
        target = np.where(hit, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))
        fit = fit_logistic([score[None, :]], target[None, :], weight)
        self.slope_, self.intercept_ = (float(value) for value in fit.coefficients[0])
        converged = bool(fit.converged[0])
        self.fit_info_ = {
            "converged": converged,
            "message": "converged" if converged else "stopped early",
            "loss": "nll",
            "loss_after": float(fit.loss[0] / weight.sum()),
        }

    def _new_log_odds(self, score: Floats) -> Floats:
        return self.slope_ * score + self.intercept_
