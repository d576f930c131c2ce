"""Confidences of classifiers that mean what they say.

>>> import calibrant
>>> data = calibrant.datasets.load("fashion-mnist-lenet5")
>>> pts = calibrant.PTS().fit(data.val_logits[:500], data.val_labels[:500])
>>> probs = pts.predict_proba(data.test_logits)
>>> calibrant.metrics.ece(probs, data.test_labels) < 0.02
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from calibrant import calibrators, datasets, diagrams, formulas, io, metrics, profile, sklearn
    from calibrant import files as files
    from calibrant import onnx as onnx
    from calibrant import plots as plots
    from calibrant import plugins as plugins
    from calibrant import ray as ray
    from calibrant import report as report
    from calibrant import streams as streams
    from calibrant import torch as torch
    from calibrant.calibrators import (
        AutoCalibrator,
        BayesianBinning,
        BetaCalibration,
        Calibrator,
        CenteredIsotonic,
        DiagonalOrderPreserving,
        DirichletCalibration,
        EnsembleTemperatureScaling,
        EntropyTemperatureScaling,
        FitInfo,
        HistogramBinning,
        IsotonicOneVsAll,
        IsotonicOneVsAllTS,
        LinearPTS,
        MarginTemperatureScaling,
        MatrixScaling,
        MonotonePTS,
        MultiClassIsotonic,
        ParameterizedTemperatureScaling,
        PlattBinner,
        PlattScaling,
        QuadraticScaling,
        SmoothingSpline,
        SplineCalibration,
        StructuredMatrixScaling,
        StructuredPTS,
        StructuredVectorScaling,
        TemperatureScaling,
        Uncalibrated,
        VectorScaling,
        VennAbers,
        calibrator,
    )
    from calibrant.calibrators import EnsembleTemperatureScaling as ETS
    from calibrant.calibrators import EntropyTemperatureScaling as HTS
    from calibrant.calibrators import MarginTemperatureScaling as SMART
    from calibrant.calibrators import ParameterizedTemperatureScaling as PTS
    from calibrant.calibrators import TemperatureScaling as TS
    from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
    from calibrant.common.errors import CalibrationWarning, FileError
    from calibrant.evaluation.comparison import Comparison, compare
    from calibrant.evaluation.decomposition import Decomposition, decompose
    from calibrant.evaluation.evaluation import Evaluation, evaluate
    from calibrant.io import load, save
    from calibrant.metrics import CalibrationMeter
    from calibrant.scale.monitoring import CalibrationMonitor, WindowReport
    from calibrant.sklearn import CalibratedClassifier

# Public name -> module and the name there; loaded at first use (PEP 562).
_LAZY = {
    "AutoCalibrator": ("calibrators", "AutoCalibrator"),
    "BayesianBinning": ("calibrators", "BayesianBinning"),
    "BetaCalibration": ("calibrators", "BetaCalibration"),
    "Calibrator": ("calibrators", "Calibrator"),
    "CenteredIsotonic": ("calibrators", "CenteredIsotonic"),
    "DiagonalOrderPreserving": ("calibrators", "DiagonalOrderPreserving"),
    "DirichletCalibration": ("calibrators", "DirichletCalibration"),
    "EnsembleTemperatureScaling": ("calibrators", "EnsembleTemperatureScaling"),
    "EntropyTemperatureScaling": ("calibrators", "EntropyTemperatureScaling"),
    "FitInfo": ("calibrators", "FitInfo"),
    "HistogramBinning": ("calibrators", "HistogramBinning"),
    "IsotonicOneVsAll": ("calibrators", "IsotonicOneVsAll"),
    "IsotonicOneVsAllTS": ("calibrators", "IsotonicOneVsAllTS"),
    "LinearPTS": ("calibrators", "LinearPTS"),
    "MarginTemperatureScaling": ("calibrators", "MarginTemperatureScaling"),
    "MatrixScaling": ("calibrators", "MatrixScaling"),
    "MonotonePTS": ("calibrators", "MonotonePTS"),
    "MultiClassIsotonic": ("calibrators", "MultiClassIsotonic"),
    "ParameterizedTemperatureScaling": ("calibrators", "ParameterizedTemperatureScaling"),
    "PlattBinner": ("calibrators", "PlattBinner"),
    "PlattScaling": ("calibrators", "PlattScaling"),
    "QuadraticScaling": ("calibrators", "QuadraticScaling"),
    "SmoothingSpline": ("calibrators", "SmoothingSpline"),
    "SplineCalibration": ("calibrators", "SplineCalibration"),
    "StructuredMatrixScaling": ("calibrators", "StructuredMatrixScaling"),
    "StructuredPTS": ("calibrators", "StructuredPTS"),
    "StructuredVectorScaling": ("calibrators", "StructuredVectorScaling"),
    "TemperatureScaling": ("calibrators", "TemperatureScaling"),
    "Uncalibrated": ("calibrators", "Uncalibrated"),
    "VectorScaling": ("calibrators", "VectorScaling"),
    "VennAbers": ("calibrators", "VennAbers"),
    "calibrator": ("calibrators", "calibrator"),
    "TS": ("calibrators", "TemperatureScaling"),
    "ETS": ("calibrators", "EnsembleTemperatureScaling"),
    "PTS": ("calibrators", "ParameterizedTemperatureScaling"),
    "HTS": ("calibrators", "EntropyTemperatureScaling"),
    "SMART": ("calibrators", "MarginTemperatureScaling"),
    "CalibrationWarning": ("common.errors", "CalibrationWarning"),
    "FileError": ("common.errors", "FileError"),
    "TemperatureProfile": ("calibrators.profile.temperature_profile", "TemperatureProfile"),
    "CalibratedClassifier": ("sklearn", "CalibratedClassifier"),
    "CalibrationMeter": ("metrics", "CalibrationMeter"),
    "CalibrationMonitor": ("scale.monitoring", "CalibrationMonitor"),
    "WindowReport": ("scale.monitoring", "WindowReport"),
    "Comparison": ("evaluation", "Comparison"),
    "Decomposition": ("evaluation", "Decomposition"),
    "Evaluation": ("evaluation", "Evaluation"),
    "compare": ("evaluation", "compare"),
    "decompose": ("evaluation", "decompose"),
    "evaluate": ("evaluation", "evaluate"),
    "load": ("io", "load"),
    "save": ("io", "save"),
}
_MODULES = (
    "calibrators",
    "datasets",
    "diagrams",
    "files",
    "formulas",
    "io",
    "metrics",
    "onnx",
    "plots",
    "plugins",
    "profile",
    "ray",
    "report",
    "sklearn",
    "streams",
    "torch",
)

# Without torch, onnx, plots and ray, which need their extras: `from calibrant import *` must not.
__all__ = [
    "ETS",
    "HTS",
    "PTS",
    "SMART",
    "TS",
    "AutoCalibrator",
    "BayesianBinning",
    "BetaCalibration",
    "CalibratedClassifier",
    "CalibrationMeter",
    "CalibrationMonitor",
    "CalibrationWarning",
    "Calibrator",
    "CenteredIsotonic",
    "Comparison",
    "Decomposition",
    "DiagonalOrderPreserving",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "Evaluation",
    "FileError",
    "FitInfo",
    "HistogramBinning",
    "IsotonicOneVsAll",
    "IsotonicOneVsAllTS",
    "LinearPTS",
    "MarginTemperatureScaling",
    "MatrixScaling",
    "MonotonePTS",
    "MultiClassIsotonic",
    "ParameterizedTemperatureScaling",
    "PlattBinner",
    "PlattScaling",
    "QuadraticScaling",
    "SmoothingSpline",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredPTS",
    "StructuredVectorScaling",
    "TemperatureProfile",
    "TemperatureScaling",
    "Uncalibrated",
    "VectorScaling",
    "VennAbers",
    "WindowReport",
    "__version__",
    "calibrator",
    "calibrators",
    "compare",
    "datasets",
    "decompose",
    "diagrams",
    "evaluate",
    "formulas",
    "io",
    "load",
    "metrics",
    "profile",
    "save",
    "sklearn",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"calibrant.{name}")
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(import_module(f"calibrant.{module}"), attribute)
    if name[:1].isupper():  # a class of the registry that has no line here
        classes = import_module("calibrant.calibrators").REGISTRY.values()
        for cls in classes:
            if cls.__name__ == name:
                return cls
    raise AttributeError(f"module 'calibrant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
