"""Curves of log-odds: of two classes, or of each class against all others."""

from calibrant.calibrators.odds.beta import BetaCalibration
from calibrant.calibrators.odds.platt import PlattScaling
from calibrant.calibrators.odds.quadratic import QuadraticScaling
from calibrant.calibrators.odds.smoothing_spline import SmoothingSpline

__all__ = ["BetaCalibration", "PlattScaling", "QuadraticScaling", "SmoothingSpline"]
