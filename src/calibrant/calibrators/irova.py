"""IROvA: isotonic regression, one class against all others (Zadrozny and Elkan 2002)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import InputKind
from calibrant._progress import reporter
from calibrant.calibrators._columns import ClassColumns, Column, ColumnCalibrator, Floats
from calibrant.calibrators._isotonic import isotonic_steps


class IsotonicOneVsAll(ColumnCalibrator):
    """An increasing function of each class' own probability. Does not preserve accuracy.

    f_c is the isotonic regression of "the label is c" on p_c, linear between its points and flat
    outside them; the value of class c is f_c(p_c) + 1e-9 p_c (Zhang et al. 2020). A class absent
    from the labels has f_c = 0. ``normalize=True`` divides each row by its sum;
    ``normalize=False`` gives the authors' values, which sum to anything. ``verbose`` shows progress
    on standard error.

    >>> logits = [[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
    >>> IsotonicOneVsAll().fit(logits, [0, 1, 0, 1]).predict_proba([[1.5, 0.0]]).round(3)
    array([[0.789, 0.211]])
    """

    _state: ClassVar[tuple[str, ...]] = ("x_", "y_", "offsets_")
    _raw_breaks_ties = True

    def __init__(
        self,
        normalize: bool = True,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.normalize = normalize
        self.verbose = verbose
        self.input = input

    def _fit_logits(self, logits: Floats, labels: NDArray[np.int64], weight: Floats) -> None:
        columns = ClassColumns.from_logits(logits, labels, weight, self._temperature)
        with reporter(f"fitting {type(self).__name__}", self.verbose) as report:
            lines = columns.fit_each(_fit_column, report)
        self.x_ = np.concatenate([x for x, _ in lines])
        self.y_ = np.concatenate([y for _, y in lines])
        self.offsets_ = np.cumsum([0, *(len(x) for x, _ in lines)], dtype=np.int64)
        self.fit_info_ = {
            "converged": True,
            "message": "exact",
            "loss": "brier",
            "points": len(self.x_),
            "absent_classes": int(columns.absent.sum()),
        }

    def _map_columns(self, probs: Floats) -> Floats:
        by_class = probs.T.copy()  # a view of one row, or of Fortran order, would be overwritten
        for index, column in enumerate(by_class):
            part = slice(self.offsets_[index], self.offsets_[index + 1])
            by_class[index] = np.interp(column, self.x_[part], self.y_[part])
        return np.ascontiguousarray(by_class.T)


def _fit_column(column: Column) -> tuple[Floats, Floats]:
    uniform = bool(np.all(column.weight == column.weight[:1]))
    weight = None if uniform else column.weight
    hit_weight = None if weight is None else weight[column.hit]
    return isotonic_steps(column.score, weight, column.score[column.hit], hit_weight)
