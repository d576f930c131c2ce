"""The calibrators, one method a file, and their registry by the paper's acronyms."""

from __future__ import annotations

from typing import Any

from calibrant.calibrators._base import Calibrator, TemperatureCalibrator, TemperatureMap
from calibrant.calibrators.ensemble import EnsembleTemperatureScaling
from calibrant.calibrators.hts import EntropyTemperatureScaling
from calibrant.calibrators.linear import LinearPTS
from calibrant.calibrators.parameterized import ParameterizedTemperatureScaling
from calibrant.calibrators.smart import MarginTemperatureScaling
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.calibrators.uncalibrated import Uncalibrated

REGISTRY: dict[str, type[Calibrator]] = {
    "base": Uncalibrated,
    "ts": TemperatureScaling,
    "ets": EnsembleTemperatureScaling,
    "pts": ParameterizedTemperatureScaling,
    "pts-linear": LinearPTS,
    "hts": EntropyTemperatureScaling,
    "smart": MarginTemperatureScaling,
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
    "Calibrator",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "LinearPTS",
    "MarginTemperatureScaling",
    "ParameterizedTemperatureScaling",
    "TemperatureCalibrator",
    "TemperatureMap",
    "TemperatureScaling",
    "Uncalibrated",
    "calibrator",
]
