"""IROvA and IROvA-TS: isotonic regression, one class against all others."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from calibrant._fit_info import EXACT, FitInfo
from calibrant._losses import LOSSES
from calibrant._progress import reporter
from calibrant._types import Floats, InputKind, Progress
from calibrant.calibrators._base import Fitted, LabelledLogits, LogitCalibrator
from calibrant.calibrators._best_temperature import (
    TEMPERATURE_BOUNDS,
    best_temperature,
    scaled_profile,
)
from calibrant.calibrators._one_vs_all import TIE_BREAK, ClassColumns, Column
from calibrant.calibrators._parameters import check_bounds, check_choice
from calibrant.calibrators.isotonic._regression import isotonic_steps
from calibrant.formulas import ColumnMap, Lines


class IsotonicOneVsAll(LogitCalibrator):
    """An increasing function of each class' own probability. Does not preserve accuracy.

    Parameters
    ----------
    normalize : bool, default True
        Divide each row by its sum; False gives the authors' values, which sum to anything.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are.

    Notes
    -----
    f_c is the isotonic regression of "the label is c" on p_c, linear between its points and flat
    outside them; the value of class c is f_c(p_c) + 1e-9 p_c (Zhang et al. 2020). A class absent
    from the labels has f_c = 0.

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

    _gives = ColumnMap

    def __init__(
        self,
        normalize: bool = True,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.normalize = normalize
        self.progress = progress
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        """All parameters are allowed."""

    def _fit_logits(self, data: LabelledLogits) -> Fitted:
        return _fit_columns(data, 1.0, self.normalize, type(self).__name__, self.progress)


class IsotonicOneVsAllTS(LogitCalibrator):
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
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are.

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

    _gives = ColumnMap

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
        return cast("ColumnMap", self.formula_).temperature

    def _will_keep_arg_max(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        check_choice("loss", self.loss, sorted(LOSSES))
        check_bounds("bounds", self.bounds)

    def _fit_logits(self, data: LabelledLogits) -> Fitted:
        profile = scaled_profile(data.logits, data.labels, data.weight, "logits")
        best = best_temperature(profile, self.loss, self.bounds)
        formula, info = _fit_columns(
            data, best.x, self.normalize, type(self).__name__, self.progress
        )
        info = replace(info, details={**info.details, "temperature_loss": self.loss})
        if best.converged:
            return formula, info
        return formula, FitInfo(False, best.message, loss=info.loss, details=info.details)


def _fit_columns(
    data: LabelledLogits, temperature: float, normalize: bool, title: str, progress: Progress
) -> tuple[ColumnMap, FitInfo]:
    columns = ClassColumns.from_logits(data, temperature)
    with reporter(f"fitting {title}", progress) as report:
        lines = Lines.join(columns.fit_each(_fit_column, report))
    formula = ColumnMap(
        lines,
        data.n_classes,
        temperature,
        tie_break=TIE_BREAK,
        normalize=normalize,
    )
    details = {"points": len(lines.x), "absent_classes": columns.absent_classes}
    return formula, FitInfo(True, EXACT, loss="brier", details=details)


def _fit_column(column: Column) -> tuple[Floats, Floats]:
    uniform = bool(np.all(column.weight == column.weight[:1]))
    weight = None if uniform else column.weight
    hit_weight = None if weight is None else weight[column.hit]
    return isotonic_steps(column.score, weight, column.score[column.hit], hit_weight)
