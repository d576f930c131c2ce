"""IRM: multi-class isotonic regression with one function for all classes (Zhang et al. 2020)."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import EXACT, FitInfo
from calibrant.calibrators._one_vs_all import TIE_BREAK, ClassColumns
from calibrant.calibrators.isotonic._isotonic_regression import flat_line, isotonic_blocks
from calibrant.common.docstrings import documented
from calibrant.common.types import InputKind
from calibrant.data.rows import Rows
from calibrant.formulas import ColumnMap, Lines


@documented
class MultiClassIsotonic(LogitCalibrator):
    """One increasing function f of every class' probability. Preserves accuracy.

    Parameters
    ----------
    normalize : bool, default True
        Divide each row by its sum; False gives the authors' values, which sum to anything.
    {input_logits}

    Notes
    -----
    f is the isotonic regression of "the label is c" on p_c, all classes pooled; the value of class
    c is f(p_c) + 1e-9 p_c. All is computed in float64; where rounding to the array's own float
    still makes another class reach the arg max of the logits, that class is lowered to the float
    below.

    References
    ----------
    Zhang, Kailkhura and Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
    Calibration in Deep Learning", ICML 2020.

    Examples
    --------
    >>> logits = [[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
    >>> MultiClassIsotonic().fit(logits, [0, 1, 0, 1]).predict_proba([[1.5, 0.0]]).round(3)
    array([[0.789, 0.211]])
    """

    _gives = ColumnMap
    _keeps_arg_max = True

    def __init__(self, normalize: bool = True, input: InputKind = "logits") -> None:  # noqa: A002
        self.normalize = normalize
        self.input = input

    def _fit_logits(self, data: Rows) -> Fitted:
        columns = ClassColumns.of_probabilities(data)
        label_probs = columns.scores[data.labels, np.arange(len(data))]
        seen = slice(None) if columns.masked is None else ~columns.masked.ravel()
        score, weight = columns.scores.ravel()[seen], columns.rows.weight
        if np.all(weight == weight[0]):
            blocks = isotonic_blocks(score, None, label_probs, None)
        else:
            tiled = np.tile(weight, len(columns))[seen]
            blocks = isotonic_blocks(score, tiled, label_probs, weight)
        line = Lines.join([flat_line(blocks)])
        formula = ColumnMap(
            line, data.n_classes, tie_break=TIE_BREAK, normalize=self.normalize, keep_arg_max=True
        )
        details = {"points": len(line.x), "absent_classes": columns.absent_classes}
        return formula, FitInfo(True, EXACT, loss="brier", details=details)
