"""Step functions of probabilities: bins, and the share of hits in them."""

from calibrant.calibrators.binning.bayesian import BayesianBinning
from calibrant.calibrators.binning.histogram import HistogramBinning
from calibrant.calibrators.binning.platt_binner import PlattBinner

__all__ = ["BayesianBinning", "HistogramBinning", "PlattBinner"]
