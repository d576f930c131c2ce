"""Every class' log-odds through its own curve; then a distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from calibrant.common.types import Array
from calibrant.formulas._base import LogitMap
from calibrant.formulas._curves import LARGEST, Cubics
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import class_log_odds, log_sigmoid
from calibrant.formulas._rows import FormulaRows
from calibrant.formulas._serialization import checked_count, checked_part, require


@dataclass(frozen=True, eq=False)
class OddsMap(LogitMap):
    """A curve of each class' log-odds against all others: of quadratic and spline calibration.

    Parameters
    ----------
    curves : Cubics
        The functions g_c of the log-odds, one per class.
    classes : int
        The number of classes.

    Notes
    -----
    The value of class c is 1 / (1 + exp(-g_c(x_c))), x_c = log(p_c / (1 - p_c)) with
    p = softmax(z), and the probabilities are the values divided by their sum. Of two classes with
    g_0(-x) = -g_1(x), as the fits give them, the values sum to 1 already. Computed in float64; a
    masked class keeps probability 0.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas import Cubics
    >>> halved = ([0.0], [0.0], [0.5])  # the straight line g(x) = x / 2
    >>> formula = OddsMap(Cubics.join([halved, halved]), classes=2)
    >>> formula(np.array([[0.0, 2.0]])).round(3)
    array([[0.269, 0.731]])
    """

    kind: ClassVar[str] = "odds-map"
    host_only: ClassVar[bool] = True

    curves: Cubics
    classes: int

    def __post_init__(self) -> None:
        checked_part(self, "curves", Cubics)
        checked_count(self, "classes", low=2)
        count = self.curves.count
        require(count == self.classes, f"there must be {self.classes} curves, got {count}")

    @property
    def keeps_arg_max(self) -> bool:
        return False

    @property
    def n_classes(self) -> int:
        return self.classes

    @final
    def scores(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        return ops.cast(self._wide_scores(logits, ops), logits)

    @final
    def gaps(self, rows: FormulaRows, ops: Ops) -> Array:
        return ops.gaps(self._wide_scores(rows.logits, ops))

    def _wide_scores(self, logits: Array, ops: Ops) -> Array:
        """The logarithms of the values: their softmax divides the values by their sum."""
        wide = ops.cast(logits, "float64")
        odds = ops.clip(class_log_odds(wide, ops), -LARGEST, LARGEST)
        scores = log_sigmoid(ops.look_up(odds, self.curves), ops)
        masked = ops.is_masked(wide)
        return ops.where(masked, -np.inf, scores) if ops.any(masked) else scores
