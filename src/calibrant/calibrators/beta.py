"""Beta calibration of two classes (Kull, Silva Filho and Flach 2017)."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logit

from calibrant._arrays import InputKind
from calibrant._errors import CalibrationWarning
from calibrant.calibrators._columns import Floats
from calibrant.calibrators._logistic import fit_logistic
from calibrant.calibrators._two_class import TwoClassCalibrator

IDENTITY = np.array([1.0, 1.0, 0.0])


class BetaCalibration(TwoClassCalibrator):
    """Log-odds a ln p - b ln(1 - p) + c of two classes, a, b >= 0. Does not preserve accuracy.

    p is the probability of class 1. The map is increasing, and the identity for a = b = 1, c = 0.
    The parameters maximise the likelihood under a, b >= 0 (a convex problem: the best of the faces
    of the feasible set is its solution). Rows of one class alone have no such maximum: the
    probabilities then stay as they are, and a ``CalibrationWarning`` says so.
    """

    _state = ("coefficients_",)

    def __init__(self, input: InputKind = "logits") -> None:  # noqa: A002
        self.input = input

    def _fit_log_odds(self, score: Floats, hit: NDArray[np.bool_], weight: Floats) -> None:
        if hit.all() or not hit.any():
            self.coefficients_ = IDENTITY.copy()
            self.fit_info_ = {"converged": True, "message": "one class only: the identity"}
            warnings.warn(
                "beta calibration needs labels of both classes: the probabilities stay as they are",
                CalibrationWarning,
                stacklevel=4,
            )
            return
        self.coefficients_, loss, converged = _best_face(_inputs(score), hit, weight)
        self.fit_info_ = {
            "converged": converged,
            "message": "converged" if converged else "stopped early",
            "loss": "nll",
            "loss_after": loss / float(weight.sum()),
        }

    def _new_log_odds(self, score: Floats) -> Floats:
        a, b, c = self.coefficients_
        log_p, minus_log_rest = _inputs(score)
        return np.asarray(a * log_p + b * minus_log_rest + c)


def _inputs(score: Floats) -> tuple[Floats, Floats]:
    """ln p and -ln(1 - p), exact for any log-odds."""
    return log_expit(score), -log_expit(-score)


def _best_face(
    inputs: tuple[Floats, Floats], hit: NDArray[np.bool_], weight: Floats
) -> tuple[Floats, float, bool]:
    """The best (a, b, c) with a, b >= 0, its summed loss and whether it converged."""
    target = hit.astype(np.float64)
    rate = float(weight @ target / weight.sum())
    constant = np.array([0.0, 0.0, logit(rate)])
    best = (
        constant,
        float(-weight.sum() * (rate * np.log(rate) + (1 - rate) * np.log1p(-rate))),
        True,
    )
    for face in ((0, 1), (0,), (1,)):
        fit = fit_logistic([inputs[i][None, :] for i in face], target[None, :], weight)
        coefficients, loss = fit.coefficients[0], float(fit.loss[0])
        if coefficients[:-1].min() >= 0.0 and loss < best[1]:
            full = np.zeros(3)
            full[[*face, 2]] = coefficients
            best = full, loss, bool(fit.converged[0])
    return best
