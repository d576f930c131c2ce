"""The log loss and the Brier score in parts: what calibration would save, and what would remain."""

from calibrant.evaluation.decomposition import Decomposition, ScoreParts, decompose

__all__ = ["Decomposition", "ScoreParts", "decompose"]
