"""What the affine calibrators share: how their fitted numbers are read."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, final

from calibrant.calibrators._base import LogitCalibrator
from calibrant.common.types import Floats, Progress
from calibrant.formulas import AffineMap

MATRICES = 42  # float64 ones that a fit holds at once: L-BFGS keeps 25, the loss the others
NO_MATRIX = "vector, svs, ts, ets and pts need no matrix of classes by classes"


class AffineCalibrator(LogitCalibrator, ABC):
    """softmax(u W + b) or softmax(v * u + b) of features u of the logits."""

    _gives = AffineMap
    _amplifies_rounding = True
    #: Whether the slopes are a matrix, or one number per class.
    _full: ClassVar[bool] = False

    max_iter: int
    progress: Progress

    @property
    def slopes_(self) -> Floats:
        """The slopes: a matrix W, or one number v_c per class."""
        return self._own_formula(AffineMap).slopes

    @property
    def intercept_(self) -> Floats:
        """The intercepts b, one per class."""
        return self._own_formula(AffineMap).intercept

    @property
    def temperature_(self) -> float:
        """The temperature from which the fit started."""
        return float(self.fit_info_.details["start_temperature"])

    @final
    def _memory_needed(self, rows: int, classes: int) -> int:
        matrices = MATRICES * 8 * classes * classes if self._full else 0
        return super()._memory_needed(rows, classes) + matrices

    @final
    def _will_keep_arg_max(self) -> bool:
        return False
