"""IROvA and IROvA-TS: isotonic regression, one class against all others."""

from __future__ import annotations

from dataclasses import replace

from calibrant.calibrators._base import Fitted
from calibrant.calibrators._best_temperature import (
    TEMPERATURE_BOUNDS,
    best_temperature,
    scaled_profile,
)
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._parameters import Bounds, Choice, constraints
from calibrant.calibrators.isotonic._isotonic_regression import LinePerClass, flat_line
from calibrant.calibrators.profile.losses import LOSSES
from calibrant.common.docstrings import documented
from calibrant.common.types import InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import ColumnMap


@documented
class IsotonicOneVsAll(LinePerClass):
    """An increasing function of each class' own probability. Does not preserve accuracy.

    Parameters
    ----------
    normalize : bool, default True
        Divide each row by its sum; False gives the authors' values, which sum to anything.
    {fit_progress}
    {input_logits}

    Notes
    -----
    f_c is the isotonic regression of "the label is c" on p_c, linear between its points and flat
    outside them; the value of class c is f_c(p_c) + 1e-9 p_c (Zhang et al. 2020).

    References
    ----------
    Zadrozny and Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability
    Estimates", KDD 2002.

    Examples
    --------
    >>> logits = [[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
    >>> IsotonicOneVsAll().fit(logits, [0, 1, 0, 1]).predict_proba([[1.5, 0.0]]).round(3)
    array([[0.789, 0.211]])
    """

    _line_of = staticmethod(flat_line)


@documented
class IsotonicOneVsAllTS(LinePerClass):
    """Isotonic regression after temperature scaling, class by class. Does not preserve accuracy.

    Parameters
    ----------
    loss : {"brier", "nll", "mixed"}, default "brier"
        What the temperature minimises; the authors' code takes the Brier score, "mixed" is
        Brier + 0.2 NLL.
    bounds : tuple of two floats, default (0.01, 10000)
        The smallest and the largest temperature allowed; ending at one is a warning.
    normalize : bool, default True
        Divide each row by its sum; False gives the authors' values, which sum to anything.
    {fit_progress}
    {input_logits}

    Attributes
    ----------
    temperature_ : float
        The fitted T.

    Notes
    -----
    ``IsotonicOneVsAll`` of softmax(z / T).

    References
    ----------
    Zhang, Kailkhura and Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
    Calibration in Deep Learning", ICML 2020.

    Examples
    --------
    >>> logits = [[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
    >>> IsotonicOneVsAllTS().fit(logits, [0, 0, 0, 1]).predict_proba([[1.5, 0.0]]).round(3)
    array([[1., 0.]])
    """

    _line_of = staticmethod(flat_line)
    _constraints = constraints(loss=Choice(*sorted(LOSSES)), bounds=Bounds())

    def __init__(
        self,
        loss: str = "brier",
        bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
        normalize: bool = True,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.loss = loss
        self.bounds = bounds
        self.normalize = normalize
        self.progress = progress
        self.input = input

    @property
    def temperature_(self) -> float:
        """The fitted temperature."""
        return self._own_formula(ColumnMap).temperature

    def _fit_logits(self, data: Rows) -> Fitted:
        best = best_temperature(scaled_profile(data), self.loss, self.bounds)
        formula, info = self._fit_lines(data, best.temperature)
        info = replace(info, details={**info.details, "temperature_loss": self.loss})
        if best.converged:
            return formula, info
        return formula, FitInfo(False, best.message, loss=info.loss, details=info.details)
