"""One increasing line per class, fitted one class against all others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant._fit_info import EXACT, FitInfo
from calibrant._progress import reporter
from calibrant._types import Floats, Progress
from calibrant.calibrators._base import LabelledLogits
from calibrant.calibrators._one_vs_all import TIE_BREAK, ClassColumns, Column
from calibrant.calibrators.isotonic._regression import Blocks, isotonic_blocks
from calibrant.formulas import ColumnMap, Lines

LineOf = Callable[[Blocks], tuple[Floats, Floats]]


def fit_columns(
    data: LabelledLogits,
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


def _fit_line(column: Column, line_of: LineOf) -> tuple[Floats, Floats]:
    if len(column.score) == 0:
        return np.zeros(1), np.zeros(1)
    uniform = bool(np.all(column.weight == column.weight[0]))
    weight = None if uniform else column.weight
    hit_weight = None if weight is None else weight[column.hit]
    return line_of(isotonic_blocks(column.score, weight, column.score[column.hit], hit_weight))
