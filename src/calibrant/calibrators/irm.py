"""IRM: multi-class isotonic regression with one function for all classes (Zhang et al. 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import InputKind
from calibrant._numerics import log_softmax, softmax
from calibrant.calibrators._arg_max import keep_arg_max
from calibrant.calibrators._base import LogitCalibrator
from calibrant.calibrators._columns import TIE_BREAK, ClassColumns, Floats
from calibrant.calibrators._isotonic import isotonic_steps


class MultiClassIsotonic(LogitCalibrator):
    """One increasing function f of every class' probability. Preserves accuracy.

    f is the isotonic regression of "the label is c" on p_c, all classes pooled; the value of class
    c is f(p_c) + 1e-9 p_c. ``normalize=True`` divides each row by its sum; ``normalize=False``
    gives the authors' values, which sum to anything. All is computed in float64; where rounding to
    the array's own float still makes another class reach the arg max of the logits, that class is
    lowered to the float below.

    >>> logits = [[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
    >>> MultiClassIsotonic().fit(logits, [0, 1, 0, 1]).predict_proba([[1.5, 0.0]]).round(3)
    array([[0.789, 0.211]])
    """

    accuracy_preserving = True
    _host_only = True
    _state = ("x_", "y_")

    def __init__(
        self,
        normalize: bool = True,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.normalize = normalize
        self.input = input

    def _fit_logits(self, logits: Floats, labels: NDArray[np.int64], weight: Floats) -> None:
        columns = ClassColumns.from_logits(logits, labels, weight)
        self.x_, self.y_ = _fit_pooled(columns)
        self.fit_info_ = {
            "converged": True,
            "message": "exact",
            "loss": "brier",
            "points": len(self.x_),
            "absent_classes": int(columns.absent.sum()),
        }

    def _probabilities(self, logits: NDArray[Any]) -> NDArray[Any]:
        values, total = self._values(logits)
        return keep_arg_max((values / total).astype(logits.dtype), logits)

    def _log_probabilities(self, logits: NDArray[Any]) -> NDArray[Any]:
        """Where a value underflows, only its 1e-9 p is left, whose logarithm is known."""
        values, total = self._values(logits)
        floor = np.log(TIE_BREAK) + log_softmax(logits.astype(np.float64))
        with np.errstate(divide="ignore"):
            logs = np.where(values > 0.0, np.log(values), floor) - np.log(total)
        return keep_arg_max(logs.astype(logits.dtype), logits)

    def _values(self, logits: NDArray[Any]) -> tuple[Floats, Floats | float]:
        """f(p) + 1e-9 p, 0 for masked classes, and what to divide each row by."""
        probs = softmax(logits.astype(np.float64))
        values = np.interp(probs, self.x_, self.y_)
        values += TIE_BREAK * probs
        values[np.isneginf(logits)] = 0.0
        return values, values.sum(axis=1, keepdims=True) if self.normalize else 1.0


def _fit_pooled(columns: ClassColumns) -> tuple[Floats, Floats]:
    """The isotonic regression over the entries of all classes."""
    label_probs = columns.probs[columns.labels, np.arange(len(columns.labels))]
    uniform = bool(np.all(columns.weight == columns.weight[0]))
    seen = slice(None) if columns.masked is None else ~columns.masked.ravel()
    score = columns.probs.ravel()[seen]
    if uniform:
        return isotonic_steps(score, None, label_probs, None)
    weight = np.tile(columns.weight, len(columns))[seen]
    return isotonic_steps(score, weight, label_probs, columns.weight)
