"""Methods for two classes: new log-odds from the old ones."""

from calibrant.calibrators.binary.beta import BetaCalibration
from calibrant.calibrators.binary.platt import PlattScaling

__all__ = ["BetaCalibration", "PlattScaling"]
