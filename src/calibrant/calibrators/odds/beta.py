"""Beta calibration of two classes (Kull, Silva Filho and Flach 2017)."""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, logit

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._logistic import fit_one_logistic
from calibrant.calibrators._one_vs_all import Column
from calibrant.common.docstrings import documented
from calibrant.common.errors import warn
from calibrant.common.types import Floats, InputKind
from calibrant.data.rows import Rows
from calibrant.formulas import BetaOdds


@documented
class BetaCalibration(LogitCalibrator):
    """Three parameters for the log-odds of two classes. Does not preserve accuracy.

    Parameters
    ----------
    {input_logits}

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

    def _fit_logits(self, data: Rows) -> Fitted:
        column = Column.of_second_class(data)
        if column.hit.all() or not column.hit.any():
            warn(
                "beta calibration needs labels of both classes: the probabilities stay as they are"
            )
            return BetaOdds(1.0, 1.0, 0.0), FitInfo(True, "one class only: the identity")
        inputs = log_expit(column.score), -log_expit(-column.score)  # ln p and -ln(1 - p), exact
        target, weight = column.target, column.weight
        rate = float(weight @ target / weight.sum())
        best = np.array([0.0, 0.0, logit(rate)])
        entropy = -(rate * np.log(rate) + (1 - rate) * np.log1p(-rate))
        loss, converged = float(weight.sum() * entropy), True
        for face in ((0, 1), (0,), (1,)):
            given = [inputs[i] for i in face]
            coefficients, face_loss, face_converged = fit_one_logistic(given, target, weight)
            if coefficients[:-1].min() >= 0.0 and face_loss < loss:
                best, loss, converged = np.zeros(3), face_loss, face_converged
                best[[*face, 2]] = coefficients
        return BetaOdds(*best), FitInfo(
            converged,
            "converged" if converged else "stopped early: check the scores for extreme values",
            loss="nll",
            before=column.mean_nll(column.score),
            after=loss / float(column.weight.sum()),
        )
