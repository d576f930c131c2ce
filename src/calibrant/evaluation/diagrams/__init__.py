"""What diagrams show, as numbers: nothing here draws, and ``calibrant.plots`` computes nothing."""

from calibrant.evaluation.diagrams.bin_sweep import BinSweep, ece_by_bins
from calibrant.evaluation.diagrams.class_gaps import ClassGaps, class_gaps
from calibrant.evaluation.diagrams.learning import LearningCurves, capacity_curves, learning_curves
from calibrant.evaluation.diagrams.reliability import (
    Kind,
    Reliability,
    reliability,
    reliability_by_class,
    reliability_by_segment,
)
from calibrant.evaluation.diagrams.risk_coverage import RiskCoverage, risk_coverage
from calibrant.evaluation.diagrams.temperatures import Temperatures, temperatures

__all__ = [
    "BinSweep",
    "ClassGaps",
    "Kind",
    "LearningCurves",
    "Reliability",
    "RiskCoverage",
    "Temperatures",
    "capacity_curves",
    "class_gaps",
    "ece_by_bins",
    "learning_curves",
    "reliability",
    "reliability_by_class",
    "reliability_by_segment",
    "risk_coverage",
    "temperatures",
]
