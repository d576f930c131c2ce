"""IROvA, IROvA-TS and CIR: isotonic regression, one class against all others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._best_temperature import (
    TEMPERATURE_BOUNDS,
    best_temperature,
    scaled_profile,
)
from calibrant.calibrators._fit_info import EXACT, FitInfo
from calibrant.calibrators._one_vs_all import TIE_BREAK, ClassColumns, Column
from calibrant.calibrators._parameters import Bounds, Choice, constraints
from calibrant.calibrators.isotonic import _isotonic_regression as regression
from calibrant.calibrators.profile.losses import LOSSES
from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import ColumnMap, Lines


class LinePerClass(LogitCalibrator, ABC):
    """What isotonic regressions, one class against all others, share: all but the line itself."""

    _gives = ColumnMap

    @staticmethod
    @abstractmethod
    def _line_of(blocks: regression.Blocks) -> tuple[Floats, Floats]:
        """The points of a class' line."""

    def __init__(
        self,
        normalize: bool = True,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.normalize = normalize
        self.progress = progress
        self.input = input

    def _fit_logits(self, data: Rows) -> Fitted:
        return self._fit_lines(data)

    def _fit_lines(self, data: Rows, temperature: float = 1.0) -> Fitted:
        """The formula of one line of softmax(z / T) per class, and how it was found."""

        def fit(column: Column) -> tuple[Floats, Floats]:
            if len(column) == 0:
                return np.zeros(1), np.zeros(1)
            score, hit = column.score, column.hit
            weight = None if np.all(column.weight == column.weight[0]) else column.weight
            hit_weight = None if weight is None else weight[hit]
            blocks = regression.isotonic_blocks(score, weight, score[hit], hit_weight)
            return self._line_of(blocks)

        columns = ClassColumns.of_probabilities(data, temperature)
        lines = Lines.join(columns.fit_each(fit, type(self).__name__, self.progress))
        formula = ColumnMap(
            lines, data.n_classes, temperature, tie_break=TIE_BREAK, normalize=self.normalize
        )
        details = {"points": len(lines.x), "absent_classes": columns.absent_classes}
        return formula, FitInfo(True, EXACT, loss="brier", details=details)


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

    _line_of = staticmethod(regression.flat_line)


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

    _line_of = staticmethod(regression.flat_line)
    _constraints = constraints(loss=Choice(*sorted(LOSSES)), bounds=Bounds())

    def __init__(
        self,
        loss: str = "brier",
        bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
        normalize: bool = True,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        super().__init__(normalize, progress, input)
        self.loss = loss
        self.bounds = bounds

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


@documented
class CenteredIsotonic(LinePerClass):
    """A rising function of each class' own probability. Does not preserve accuracy.

    Parameters
    ----------
    normalize : bool, default True
        Divide each row by its sum; False gives one value per class, which sum to anything.
    {fit_progress}
    {input_logits}

    Notes
    -----
    Isotonic regression is flat wherever it pools rows: scores that differ become equal, and the
    flat pieces are biased at their ends. Here every pooled block is one point, at the weighted mean
    of its probabilities, and the function is linear between these points. Blocks of value 0 or 1
    stay flat, and outside the outermost points the function is constant. As with
    ``IsotonicOneVsAll``, 1e-9 p_c is added.

    References
    ----------
    Oron and Flournoy, "Centered Isotonic Regression: Point and Interval Estimation for
    Dose-Response Studies", Statistics in Biopharmaceutical Research 9(3), 2017.

    Examples
    --------
    >>> logits = [[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
    >>> CenteredIsotonic().fit(logits, [0, 1, 0, 1]).predict_proba([[0.5, 0.0]]).round(3)
    array([[0.661, 0.339]])
    """

    _line_of = staticmethod(regression.centered_line)
