"""Diagrams drawn by matplotlib: what ``calibrant.diagrams`` computes, as pictures."""

from calibrant.evaluation.plots import (
    ReliabilityDisplay,
    class_gaps,
    ece_by_bins,
    learning_curves,
    reliability,
    reliability_grid,
    risk_coverage,
    temperatures,
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
