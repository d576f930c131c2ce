"""The class map that may follow: none, a vector or a matrix, by left-out folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._choosing import left_out_nll, row_nll, simplest_of_the_best
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators.affine import StructuredMatrixScaling, StructuredVectorScaling
from calibrant.common.types import Floats
from calibrant.data.folds import FEWEST_PER_FOLD, Folds
from calibrant.data.rows import Rows
from calibrant.data.weights import effective_rows
from calibrant.formulas import Formula

CLASS_MAPS = {"vector": StructuredVectorScaling, "matrix": StructuredMatrixScaling}
PATIENCE = 0.5  # standard errors by which a simpler map may be worse and still be taken
MATRIX_CLASSES = 256  # with more, the matrix takes minutes
MATRIX_ROWS = 0.05  # rows per entry of the matrix below which its penalty leaves nothing of it


@dataclass(frozen=True)
class ClassMap:
    """The chosen map (None: no map helps), and the candidates with their left-out losses."""

    formula: Formula | None
    info: FitInfo | None
    left_out: Floats  # the NLL of each row of the folds under fits on the other folds
    details: dict[str, Any]


def fit_class_map(data: Rows, few: Rows, wanted: str, folds: Folds) -> ClassMap:
    """The class map of scores whose softmax is calibrated by rows already.

    It is chosen by the ``folds`` of ``few``, all rows or a sample of them.
    """
    few = folds.rows(few)
    left_out = [row_nll(None, few)]
    if wanted != "auto":
        return _fitted(data, None if wanted == "none" else wanted, left_out[0], {})
    names = ["none", *_worth_trying(few)]
    left_out += [left_out_nll(_fit_of(name, few), few, folds.parts) for name in names[1:]]
    chosen, path = simplest_of_the_best(names, left_out, few.weight, PATIENCE)
    choice = names[chosen] if chosen else None
    return _fitted(data, choice, left_out[chosen], {"path": path})


def _fit_of(name: str, data: Rows) -> Callable[[NDArray[np.intp]], Formula]:
    return lambda some: CLASS_MAPS[name]()._fit_seen(data.take(some))[0]


def _fitted(data: Rows, name: str | None, left_out: Floats, details: dict[str, Any]) -> ClassMap:
    details = {"choice": name or "none", **details}
    if name is None:
        return ClassMap(None, None, left_out, details)
    return ClassMap(*CLASS_MAPS[name]()._fit_logits(data), left_out, details)


def _worth_trying(data: Rows) -> list[str]:
    rows, classes = effective_rows(data.weight), data.n_classes
    if rows < 2 * FEWEST_PER_FOLD:
        return []
    small = classes <= MATRIX_CLASSES and rows >= MATRIX_ROWS * classes**2
    return ["vector", "matrix"] if small and classes > 2 else ["vector"]
