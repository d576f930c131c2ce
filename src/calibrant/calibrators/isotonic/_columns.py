"""One increasing line per class, fitted one class against all others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import EXACT, FitInfo
from calibrant.calibrators._one_vs_all import TIE_BREAK, ClassColumns, Column
from calibrant.calibrators.isotonic._regression import Blocks, isotonic_blocks
from calibrant.common.progress import reporter
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import ColumnMap, Lines

LineOf = Callable[[Blocks], tuple[Floats, Floats]]


def fit_columns(
    data: Rows,
    line_of: LineOf,
    *,
    title: str,
    temperature: float = 1.0,
    normalize: bool = True,
    progress: Progress = False,
) -> tuple[ColumnMap, FitInfo]:
    """The formula of the lines that are made of the blocks of every class, and how it was found."""
    columns = ClassColumns.from_logits(data, temperature)
    with reporter(f"fitting {title}", progress) as report:
        lines = Lines.join(columns.fit_each(lambda column: _fit_line(column, line_of), report))
    formula = ColumnMap(
        lines,
        data.n_classes,
        temperature,
        tie_break=TIE_BREAK,
        normalize=normalize,
    )
    details = {"points": len(lines.x), "absent_classes": columns.absent_classes}
    return formula, FitInfo(True, EXACT, loss="brier", details=details)


class LinePerClass(LogitCalibrator):
    """What isotonic regressions, one class against all others, share: all but the line itself."""

    _gives = ColumnMap

    @staticmethod
    @abstractmethod
    def _line_of(blocks: Blocks) -> tuple[Floats, Floats]:
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

    def _will_keep_arg_max(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        """All parameters are allowed."""

    def _fit_logits(self, data: Rows) -> Fitted:
        return fit_columns(
            data,
            self._line_of,
            title=type(self).__name__,
            normalize=self.normalize,
            progress=self.progress,
        )


def _fit_line(column: Column, line_of: LineOf) -> tuple[Floats, Floats]:
    if len(column.score) == 0:
        return np.zeros(1), np.zeros(1)
    uniform = bool(np.all(column.weight == column.weight[0]))
    weight = None if uniform else column.weight
    hit_weight = None if weight is None else weight[column.hit]
    return line_of(isotonic_blocks(column.score, weight, column.score[column.hit], hit_weight))
