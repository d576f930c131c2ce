"""Calibrators with given formulas, as if they had been fitted."""

from __future__ import annotations

from typing import TypeVar

from calibrant.calibrators import Calibrator, FitInfo
from calibrant.formulas import Formula

Made = TypeVar("Made", bound=Calibrator)


def with_formula(calibrator: Made, formula: Formula, n_classes: int | None = None) -> Made:
    return calibrator._restored(formula, FitInfo(True, "given"), n_classes)
