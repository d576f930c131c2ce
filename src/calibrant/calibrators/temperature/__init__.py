"""The temperature family: fitted from a ``TemperatureProfile`` alone, and keeps the arg max."""

from calibrant.calibrators.temperature.ensemble import EnsembleTemperatureScaling
from calibrant.calibrators.temperature.entropy import EntropyTemperatureScaling
from calibrant.calibrators.temperature.margin import MarginTemperatureScaling
from calibrant.calibrators.temperature.parameterized import (
    LinearPTS,
    ParameterizedTemperatureScaling,
)
from calibrant.calibrators.temperature.scaling import TemperatureScaling
from calibrant.calibrators.temperature.uncalibrated import Uncalibrated

__all__ = [
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "LinearPTS",
    "MarginTemperatureScaling",
    "ParameterizedTemperatureScaling",
    "TemperatureScaling",
    "Uncalibrated",
]
