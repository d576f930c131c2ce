"""Formulas: what a fitted calibrator computes, as frozen data that any way of computing reads.

A calibrator's ``fit`` gives a formula (``calibrator.formula_``); ``predict_proba`` evaluates it in
NumPy or any other array namespace, ``calibrant.torch`` and ``calibrant.onnx`` read the same data,
and a saved calibrator is its formula. A formula holds everything that its output depends on, so a
file means the same in every release; it checks its own invariants where it is made.

>>> import numpy as np
>>> halved = ConstantTemperature(2.0)
>>> halved(np.array([[2.0, 0.0]])).round(3)
array([[0.731, 0.269]])
"""

from calibrant.formulas._base import Formula, FormulaRows, LogitMap, TemperatureFormula
from calibrant.formulas._curves import Cubics, Curves, Lines, Steps
from calibrant.formulas._operations import Ops
from calibrant.formulas._serialization import Part
from calibrant.formulas.affine import (
    AffineMap,
    Features,
    LogProbabilities,
    PlainLogits,
    SmoothedLogProbabilities,
)
from calibrant.formulas.composition import Chain, SeenClasses, Smoothed
from calibrant.formulas.confidence import Confidence, confidence_of
from calibrant.formulas.increasing import IncreasingTable, QuadratureMap
from calibrant.formulas.networks import LogEntropy, LogGaps, Margin, Reading, TopLogits
from calibrant.formulas.odds import BetaOdds, LinearOdds, OddsMap, TwoClassMap
from calibrant.formulas.pool import ClassShares, Pool
from calibrant.formulas.probability_maps import ClassSigmoids, ColumnMap, TopLabelMap, VennAbersMap
from calibrant.formulas.temperature import (
    AbsoluteLink,
    ConstantTemperature,
    ExponentialLink,
    Link,
    Mixture,
    NetworkTemperature,
)

__all__ = [
    "AbsoluteLink",
    "AffineMap",
    "BetaOdds",
    "Chain",
    "ClassShares",
    "ClassSigmoids",
    "ColumnMap",
    "Confidence",
    "ConstantTemperature",
    "Cubics",
    "Curves",
    "ExponentialLink",
    "Features",
    "Formula",
    "FormulaRows",
    "IncreasingTable",
    "LinearOdds",
    "Lines",
    "Link",
    "LogEntropy",
    "LogGaps",
    "LogProbabilities",
    "LogitMap",
    "Margin",
    "Mixture",
    "NetworkTemperature",
    "OddsMap",
    "Ops",
    "Part",
    "PlainLogits",
    "Pool",
    "QuadratureMap",
    "Reading",
    "SeenClasses",
    "Smoothed",
    "SmoothedLogProbabilities",
    "Steps",
    "TemperatureFormula",
    "TopLabelMap",
    "TopLogits",
    "TwoClassMap",
    "VennAbersMap",
    "confidence_of",
]
