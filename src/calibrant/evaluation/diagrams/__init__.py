"""What diagrams show, as numbers: nothing here draws, and ``calibrant.plots`` computes nothing."""

from calibrant.evaluation.diagrams.calibrators import (
    LearningCurves,
    Temperatures,
    capacity_curves,
    learning_curves,
    temperatures,
)
from calibrant.evaluation.diagrams.errors import (
    BinSweep,
    ClassGaps,
    RiskCoverage,
    class_gaps,
    ece_by_bins,
    risk_coverage,
)
from calibrant.evaluation.diagrams.reliability import (
    Kind,
    Reliability,
    reliability,
    reliability_by_class,
    reliability_by_segment,
)

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
