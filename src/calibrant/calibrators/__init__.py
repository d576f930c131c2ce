"""The calibrators, one method a file, and their registry by the paper's acronyms."""

from __future__ import annotations

from typing import Any

from calibrant.calibrators._base import Calibrator, TemperatureCalibrator, TemperatureMap
from calibrant.calibrators.bbq import BayesianBinning
from calibrant.calibrators.beta import BetaCalibration
from calibrant.calibrators.diag import DiagonalOrderPreserving
from calibrant.calibrators.dirichlet import DirichletCalibration
from calibrant.calibrators.ensemble import EnsembleTemperatureScaling
from calibrant.calibrators.histogram import HistogramBinning
from calibrant.calibrators.hts import EntropyTemperatureScaling
from calibrant.calibrators.irm import MultiClassIsotonic
from calibrant.calibrators.irova import IsotonicOneVsAll
from calibrant.calibrators.irova_ts import IsotonicOneVsAllTS
from calibrant.calibrators.linear import LinearPTS
from calibrant.calibrators.matrix import MatrixScaling
from calibrant.calibrators.parameterized import ParameterizedTemperatureScaling
from calibrant.calibrators.pbmc import PlattBinner
from calibrant.calibrators.platt import PlattScaling
from calibrant.calibrators.smart import MarginTemperatureScaling
from calibrant.calibrators.spline import SplineCalibration
from calibrant.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.calibrators.uncalibrated import Uncalibrated
from calibrant.calibrators.vector import VectorScaling

REGISTRY: dict[str, type[Calibrator]] = {
    "base": Uncalibrated,
    "ts": TemperatureScaling,
    "ets": EnsembleTemperatureScaling,
    "pts": ParameterizedTemperatureScaling,
    "pts-linear": LinearPTS,
    "hts": EntropyTemperatureScaling,
    "smart": MarginTemperatureScaling,
    "irova": IsotonicOneVsAll,
    "irova-ts": IsotonicOneVsAllTS,
    "irm": MultiClassIsotonic,
    "pbmc": PlattBinner,
    "histogram": HistogramBinning,
    "bbq": BayesianBinning,
    "spline": SplineCalibration,
    "vector": VectorScaling,
    "matrix": MatrixScaling,
    "dirichlet": DirichletCalibration,
    "svs": StructuredVectorScaling,
    "sms": StructuredMatrixScaling,
    "diag": DiagonalOrderPreserving,
    "platt": PlattScaling,
    "beta": BetaCalibration,
}


def calibrator(name: str, **parameters: Any) -> Calibrator:
    """A calibrator by its acronym, in either case.

    >>> calibrator("ts", loss="brier")
    TemperatureScaling(loss='brier')
    """
    try:
        cls = REGISTRY[name.lower()]
    except KeyError:
        raise ValueError(f"method must be one of {', '.join(REGISTRY)}, got {name!r}") from None
    return cls(**parameters)


__all__ = [
    "REGISTRY",
    "BayesianBinning",
    "BetaCalibration",
    "Calibrator",
    "DiagonalOrderPreserving",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "HistogramBinning",
    "IsotonicOneVsAll",
    "IsotonicOneVsAllTS",
    "LinearPTS",
    "MarginTemperatureScaling",
    "MatrixScaling",
    "MultiClassIsotonic",
    "ParameterizedTemperatureScaling",
    "PlattBinner",
    "PlattScaling",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureCalibrator",
    "TemperatureMap",
    "TemperatureScaling",
    "Uncalibrated",
    "VectorScaling",
    "calibrator",
]
