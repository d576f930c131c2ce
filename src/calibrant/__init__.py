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
        BiasCorrection,
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
        MonotoneScaling,
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

# Public names by their module, loaded at first use (PEP 562).
_LAZY = {
    "calibrators": (
        "AutoCalibrator",
        "BayesianBinning",
        "BetaCalibration",
        "BiasCorrection",
        "Calibrator",
        "CenteredIsotonic",
        "DiagonalOrderPreserving",
        "DirichletCalibration",
        "EnsembleTemperatureScaling",
        "EntropyTemperatureScaling",
        "FitInfo",
        "HistogramBinning",
        "IsotonicOneVsAll",
        "IsotonicOneVsAllTS",
        "LinearPTS",
        "MarginTemperatureScaling",
        "MatrixScaling",
        "MonotonePTS",
        "MonotoneScaling",
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
        "TemperatureScaling",
        "Uncalibrated",
        "VectorScaling",
        "VennAbers",
        "calibrator",
    ),
    "calibrators.profile.temperature_profile": ("TemperatureProfile",),
    "common.errors": ("CalibrationWarning", "FileError"),
    "evaluation": ("Comparison", "Decomposition", "Evaluation", "compare", "decompose", "evaluate"),
    "io": ("load", "save"),
    "metrics": ("CalibrationMeter",),
    "scale.monitoring": ("CalibrationMonitor", "WindowReport"),
    "sklearn": ("CalibratedClassifier",),
}
_MODULE_OF = {name: module for module, names in _LAZY.items() for name in names}
_ACRONYMS = {
    "TS": "TemperatureScaling",
    "ETS": "EnsembleTemperatureScaling",
    "PTS": "ParameterizedTemperatureScaling",
    "HTS": "EntropyTemperatureScaling",
    "SMART": "MarginTemperatureScaling",
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
    "BiasCorrection",
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
    "MonotoneScaling",
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
    name = _ACRONYMS.get(name, name)
    if name in _MODULE_OF:
        return getattr(import_module(f"calibrant.{_MODULE_OF[name]}"), name)
    if name[:1].isupper():  # a class of the registry that has no line here
        classes = import_module("calibrant.calibrators").REGISTRY.values()
        for cls in classes:
            if cls.__name__ == name:
                return cls
    raise AttributeError(f"module 'calibrant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
