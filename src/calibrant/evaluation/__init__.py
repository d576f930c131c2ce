"""Judging probabilities: one set of them, methods side by side, diagrams, plots and a report."""

from calibrant.evaluation.comparison import Comparison, Difference, MethodResult, compare
from calibrant.evaluation.decomposition import Decomposition, ScoreParts, decompose
from calibrant.evaluation.evaluation import Evaluation, evaluate

__all__ = [
    "Comparison",
    "Decomposition",
    "Difference",
    "Evaluation",
    "MethodResult",
    "ScoreParts",
    "compare",
    "decompose",
    "evaluate",
]
