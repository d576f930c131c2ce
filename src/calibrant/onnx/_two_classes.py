"""Maps of the log-odds of two classes as nodes, in float64."""

from __future__ import annotations

import numpy as np

from calibrant._plan import TwoClassMap
from calibrant.onnx._builder import Tensor, where


def two_class_map(logits: Tensor, formula: TwoClassMap) -> Tensor:
    """Probabilities of both classes; a masked class keeps 0."""
    wide = logits.cast(np.float64)
    score = wide.columns(1, 2) - wide.columns(0, 1)
    finite = score.apply("Abs") < np.inf
    safe = where(finite, score, 0.0)
    new = _log_sigmoid(safe) * formula.a - _log_sigmoid(-safe) * formula.b + formula.c
    margin = where(finite, new, score)
    return _sigmoid(-margin).concat(_sigmoid(margin)).cast(logits.dtype)


def _log_sigmoid(score: Tensor) -> Tensor:
    """Nothing overflows: the exponential is of minus the absolute value."""
    return score.at_most(0.0) - ((-score.apply("Abs")).exp() + 1.0).log()


def _sigmoid(score: Tensor) -> Tensor:
    return 1.0 / ((-score).exp() + 1.0)
