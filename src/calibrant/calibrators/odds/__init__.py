"""Curves of each class' log-odds against all other classes."""

from calibrant.calibrators.odds.quadratic import QuadraticScaling
from calibrant.calibrators.odds.smoothing_spline import SmoothingSpline

__all__ = ["QuadraticScaling", "SmoothingSpline"]
