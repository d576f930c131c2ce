"""What diagrams show, as numbers: nothing here draws, and ``calibrant.plots`` computes nothing."""

from calibrant.evaluation.diagrams import (
    BinSweep,
    ClassGaps,
    Kind,
    LearningCurves,
    Reliability,
    RiskCoverage,
    Temperatures,
    capacity_curves,
    class_gaps,
    ece_by_bins,
    learning_curves,
    reliability,
    reliability_by_class,
    reliability_by_segment,
    risk_coverage,
    temperatures,
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
