"""calibrant: confidences of classifiers that mean what they say.

>>> import calibrant
>>> data = calibrant.datasets.load("fashion-mnist-lenet5")
>>> pts = calibrant.PTS().fit(data.val_logits, data.val_labels)
>>> probs = pts.predict_proba(data.test_logits)
>>> calibrant.metrics.ece(probs, data.test_labels) < 0.02
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from calibrant import calibrators, datasets, io, metrics, profile
    from calibrant._errors import CalibrationWarning, FileError
    from calibrant.calibrators import (
        EnsembleTemperatureScaling,
        EntropyTemperatureScaling,
        LinearPTS,
        MarginTemperatureScaling,
        ParameterizedTemperatureScaling,
        TemperatureScaling,
        Uncalibrated,
        calibrator,
    )
    from calibrant.calibrators import EnsembleTemperatureScaling as ETS
    from calibrant.calibrators import EntropyTemperatureScaling as HTS
    from calibrant.calibrators import MarginTemperatureScaling as SMART
    from calibrant.calibrators import ParameterizedTemperatureScaling as PTS
    from calibrant.calibrators import TemperatureScaling as TS
    from calibrant.comparison import compare
    from calibrant.evaluation import Evaluation, evaluate
    from calibrant.io import load, save
    from calibrant.profile import TemperatureProfile

# Public name -> module and the name there; loaded at first use (PEP 562).
_LAZY = {
    "CalibrationWarning": ("_errors", "CalibrationWarning"),
    "FileError": ("_errors", "FileError"),
    "TemperatureProfile": ("profile", "TemperatureProfile"),
    "Uncalibrated": ("calibrators", "Uncalibrated"),
    "TemperatureScaling": ("calibrators", "TemperatureScaling"),
    "TS": ("calibrators", "TemperatureScaling"),
    "EnsembleTemperatureScaling": ("calibrators", "EnsembleTemperatureScaling"),
    "ETS": ("calibrators", "EnsembleTemperatureScaling"),
    "ParameterizedTemperatureScaling": ("calibrators", "ParameterizedTemperatureScaling"),
    "PTS": ("calibrators", "ParameterizedTemperatureScaling"),
    "LinearPTS": ("calibrators", "LinearPTS"),
    "EntropyTemperatureScaling": ("calibrators", "EntropyTemperatureScaling"),
    "HTS": ("calibrators", "EntropyTemperatureScaling"),
    "MarginTemperatureScaling": ("calibrators", "MarginTemperatureScaling"),
    "SMART": ("calibrators", "MarginTemperatureScaling"),
    "calibrator": ("calibrators", "calibrator"),
    "compare": ("comparison", "compare"),
    "evaluate": ("evaluation", "evaluate"),
    "Evaluation": ("evaluation", "Evaluation"),
    "load": ("io", "load"),
    "save": ("io", "save"),
}
_MODULES = ("calibrators", "datasets", "io", "metrics", "profile")

__all__ = [
    "ETS",
    "HTS",
    "PTS",
    "SMART",
    "TS",
    "CalibrationWarning",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "Evaluation",
    "FileError",
    "LinearPTS",
    "MarginTemperatureScaling",
    "ParameterizedTemperatureScaling",
    "TemperatureProfile",
    "TemperatureScaling",
    "Uncalibrated",
    "__version__",
    "calibrator",
    "calibrators",
    "compare",
    "datasets",
    "evaluate",
    "io",
    "load",
    "metrics",
    "profile",
    "save",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"calibrant.{name}")
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(import_module(f"calibrant.{module}"), attribute)
    raise AttributeError(f"module 'calibrant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
