"""One increasing function of all logits: it bends the scale of the scores and keeps the arg max."""

from calibrant.calibrators.increasing.diag import DiagonalOrderPreserving
from calibrant.calibrators.increasing.monotone import MonotoneScaling

__all__ = ["DiagonalOrderPreserving", "MonotoneScaling"]
