"""Dirichlet calibration (Kull et al. 2019) with ODIR."""

from __future__ import annotations

from calibrant._arrays import Array
from calibrant._numerics import log_softmax
from calibrant.calibrators.matrix import MatrixScaling


class DirichletCalibration(MatrixScaling):
    """softmax(log p W + b): matrix scaling of log-probabilities. Does not preserve accuracy.

    The linear form of Dirichlet calibration: the class posteriors that follow when the predicted
    probabilities of each true class have a Dirichlet distribution. Log-probabilities do not change
    when a constant is added to a row of logits, so neither does the result; that is its only
    difference from ``MatrixScaling``, whose parameters and attributes it shares.

    The paper's ODIR penalises the off-diagonal entries and the intercepts alone: that is
    ``slope_penalty=0``. Here strengths are per T^2, W being measured in units of the start I/T.
    """

    _method = "Dirichlet calibration"

    def _features(self, logits: Array, finite: Array) -> Array:
        return log_softmax(logits)
