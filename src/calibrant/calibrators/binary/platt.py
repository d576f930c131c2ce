"""Platt scaling of two classes (Platt 1999)."""

from __future__ import annotations

from typing import cast

from calibrant._fit_info import FitInfo
from calibrant._types import InputKind
from calibrant.calibrators._base import Fitted, LabelledLogits, LogitCalibrator
from calibrant.calibrators._logistic import fit_logistic, platts_targets
from calibrant.calibrators.binary._log_odds import LogOdds
from calibrant.formulas import LinearOdds


class PlattScaling(LogitCalibrator):
    """A sigmoid of the log-odds of two classes. Does not preserve accuracy.

    Parameters
    ----------
    input : {"logits", "probs"}, default "logits"
        What the scores are.

    Attributes
    ----------
    slope_ : float
        The fitted slope.
    intercept_ : float
        The fitted intercept.

    Notes
    -----
    The probability of class 1 is sigma(slope s + intercept), s = z_1 - z_0, by maximum likelihood
    with Platt's targets: (n1 + 1) / (n1 + 2) for the n1 rows of class 1 and 1 / (n0 + 2) for the n0
    others, in place of 1 and 0. They keep separable rows, or rows of one class, finite.

    References
    ----------
    Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized
    Likelihood Methods", 1999.

    Examples
    --------
    >>> platt = PlattScaling().fit([3.0, -2.0, 1.0, -1.0], [1, 0, 0, 1])
    >>> platt.predict_proba([2.0]).round(3)
    array([[0.41, 0.59]])
    """

    two_classes_only = True
    _gives = LinearOdds

    def __init__(self, input: InputKind = "logits") -> None:  # noqa: A002
        self.input = input

    @property
    def slope_(self) -> float:
        """The fitted slope."""
        return cast("LinearOdds", self.formula_).slope

    @property
    def intercept_(self) -> float:
        """The fitted intercept."""
        return cast("LinearOdds", self.formula_).intercept

    def _will_keep_arg_max(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        """There are none."""

    def _fit_logits(self, data: LabelledLogits) -> Fitted:
        rows = LogOdds.of(data)
        if len(rows.score) == 0:
            return LinearOdds(1.0, 0.0), FitInfo(True, "no rows without a masked class")
        target = platts_targets(rows.hit, rows.weight)
        fit = fit_logistic([rows.score[None, :]], target[None, :], rows.weight)
        slope, intercept = (float(value) for value in fit.coefficients[0])
        converged = bool(fit.converged[0])
        return LinearOdds(slope, intercept), FitInfo(
            converged,
            "converged" if converged else "stopped early: check the scores for extreme values",
            loss="nll",
            before=rows.mean_loss(rows.score),
            after=rows.mean_loss(slope * rows.score + intercept),
            details={"loss_with_platts_targets": float(fit.loss[0] / rows.weight.sum())},
        )
