"""Diagrams drawn by matplotlib: what ``calibrant.diagrams`` computes, as pictures.

Every function takes a diagram, or several by name, and an ``ax`` to draw on (a new figure where
there is none), passes further keywords on to its main artist, and returns the ``ax``. Texts and
axes follow the style in use, light or dark; no setting of matplotlib is changed.
"""

from calibrant.evaluation.plots._calibrators import learning_curves, temperatures
from calibrant.evaluation.plots._errors import class_gaps, ece_by_bins, risk_coverage
from calibrant.evaluation.plots._reliability import (
    ReliabilityDisplay,
    reliability,
    reliability_grid,
)

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
