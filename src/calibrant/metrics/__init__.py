"""How good are probabilities? All metrics return fractions, and take ``sample_weight``."""

from calibrant._binning import BinStats
from calibrant.metrics.binned import bin_stats, ece
from calibrant.metrics.scores import accuracy, brier, nll

__all__ = ["BinStats", "accuracy", "bin_stats", "brier", "ece", "nll"]
