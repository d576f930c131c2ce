"""Affine maps of logits or log-probabilities: they move classes, and may move the arg max."""

from calibrant.calibrators.affine.matrix import DirichletCalibration, MatrixScaling
from calibrant.calibrators.affine.structured import (
    BiasCorrection,
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from calibrant.calibrators.affine.vector import VectorScaling

__all__ = [
    "BiasCorrection",
    "DirichletCalibration",
    "MatrixScaling",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "VectorScaling",
]
