"""Diagrams drawn by matplotlib: what ``calibrant.diagrams`` computes, as pictures.

Every function takes a diagram, or several by name, and an ``ax`` to draw on (a new figure where
there is none), passes further keywords on to its main artist, and returns the ``ax``. Texts and
axes follow the style in use, light or dark; no setting of matplotlib is changed.
"""

from calibrant.evaluation.plots._bin_sweep import ece_by_bins
from calibrant.evaluation.plots._class_gaps import class_gaps
from calibrant.evaluation.plots._display import ReliabilityDisplay
from calibrant.evaluation.plots._grid import reliability_grid
from calibrant.evaluation.plots._learning import learning_curves
from calibrant.evaluation.plots._reliability import reliability
from calibrant.evaluation.plots._risk_coverage import risk_coverage
from calibrant.evaluation.plots._temperatures import temperatures

__all__ = [
    "ReliabilityDisplay",
    "class_gaps",
    "ece_by_bins",
    "learning_curves",
    "reliability",
    "reliability_grid",
    "risk_coverage",
    "temperatures",
]
