"""Beta calibration of two classes (Kull, Silva Filho and Flach 2017)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logit

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._logistic import fit_logistic
from calibrant.calibrators.binary._log_odds import LogOdds
from calibrant.common.errors import warn
from calibrant.common.types import Floats, InputKind
from calibrant.data.rows import Rows
from calibrant.formulas import BetaOdds


class BetaCalibration(LogitCalibrator):
    """Three parameters for the log-odds of two classes. Does not preserve accuracy.

    Parameters
    ----------
    input : {"logits", "probs"}, default "logits"
        What the scores are.

    Attributes
    ----------
    coefficients_ : array of shape (3,)
        The fitted a, b and c.

    Notes
    -----
    The new log-odds are a ln p - b ln(1 - p) + c, p being the probability of class 1. The map is
    increasing, and the identity for a = b = 1, c = 0. The parameters maximise the likelihood under
    a, b >= 0 (a convex problem: the best of the faces of the feasible set is its solution). Rows
    of one class alone have no such maximum: the probabilities then stay as they are, and a
    ``CalibrationWarning`` says so.

    References
    ----------
    Kull, Silva Filho and Flach, "Beta calibration: a well-founded and easily implemented
    improvement on logistic calibration for binary classifiers", AISTATS 2017.

    Examples
    --------
    >>> beta = BetaCalibration().fit([3.0, -2.0, 1.0, -1.0], [1, 0, 0, 1])
    >>> beta.coefficients_.shape
    (3,)
    """

    two_classes_only = True
    _gives = BetaOdds

    def __init__(self, input: InputKind = "logits") -> None:  # noqa: A002
        self.input = input

    @property
    def coefficients_(self) -> Floats:
        """The fitted a, b and c."""
        formula = self._own_formula(BetaOdds)
        return np.array([formula.a, formula.b, formula.c])

    def _will_keep_arg_max(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        """There are none."""

    def _fit_logits(self, data: Rows) -> Fitted:
        rows = LogOdds.of(data)
        if rows.hit.all() or not rows.hit.any():
            warn(
                "beta calibration needs labels of both classes: the probabilities stay as they are"
            )
            return BetaOdds(1.0, 1.0, 0.0), FitInfo(True, "one class only: the identity")
        (a, b, c), loss, converged = _best_face(_inputs(rows.score), rows.hit, rows.weight)
        return BetaOdds(a, b, c), FitInfo(
            converged,
            "converged" if converged else "stopped early: check the scores for extreme values",
            loss="nll",
            before=rows.mean_loss(rows.score),
            after=loss / float(rows.weight.sum()),
        )


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
