"""Many methods side by side: fitted on the same rows, judged on the same other rows."""

from calibrant.evaluation.comparison import Comparison, Difference, Estimate, MethodResult, compare

__all__ = ["Comparison", "Difference", "Estimate", "MethodResult", "compare"]
