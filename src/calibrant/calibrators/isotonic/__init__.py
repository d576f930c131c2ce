"""Increasing functions of probabilities: isotonic regression, and a spline of the top label."""

from calibrant.calibrators.isotonic.multi_class import MultiClassIsotonic
from calibrant.calibrators.isotonic.one_vs_all import (
    CenteredIsotonic,
    IsotonicOneVsAll,
    IsotonicOneVsAllTS,
)
from calibrant.calibrators.isotonic.spline import SplineCalibration
from calibrant.calibrators.isotonic.venn_abers import VennAbers

__all__ = [
    "CenteredIsotonic",
    "IsotonicOneVsAll",
    "IsotonicOneVsAllTS",
    "MultiClassIsotonic",
    "SplineCalibration",
    "VennAbers",
]
