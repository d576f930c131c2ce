"""New log-odds of two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant._ops import Ops
from calibrant._parts import checked_number
from calibrant._rows import log_sigmoid
from calibrant._types import Array
from calibrant.formulas._base import LogitMap


@dataclass(frozen=True, eq=False)
class TwoClassMap(LogitMap):
    """New log-odds of two classes: of Platt scaling and beta calibration.

    Parameters
    ----------
    a : float
        What multiplies ln p.
    b : float
        What multiplies -ln(1 - p).
    c : float
        The intercept.

    Notes
    -----
    The log-odds are a ln p - b ln(1 - p) + c, p being the probability of class 1; with a = b they
    are a times the old ones, plus c. They are computed in float64; a masked class keeps
    probability 0.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant._ops import NUMPY
    >>> TwoClassMap(2.0, 2.0, 0.0).scores(np.array([[0.0, 1.0]]), NUMPY)
    array([[-1.,  1.]])
    """

    kind: ClassVar[str] = "two-class-map"
    host_only: ClassVar[bool] = True

    a: float
    b: float
    c: float

    def __post_init__(self) -> None:
        for name in ("a", "b", "c"):
            checked_number(self, name)

    @property
    def keeps_arg_max(self) -> bool:
        return False

    @property
    def n_classes(self) -> int:
        return 2

    def scores(self, logits: Array, ops: Ops) -> Array:
        return ops.cast(self._wide_scores(logits, ops), logits)

    def gaps(self, logits: Array, ops: Ops) -> Array:
        return ops.gaps(self._wide_scores(logits, ops))

    def _wide_scores(self, logits: Array, ops: Ops) -> Array:
        """Half of the new log-odds for class 1, minus that for class 0."""
        wide = ops.cast(logits, "float64")
        masked = ops.is_masked(wide)
        alone = ops.max(ops.cast(masked, wide)) > 0.5  # one of both is masked
        safe = ops.where(masked, 0.0, wide)
        score = ops.where(alone, 0.0, safe[..., 1:2] - safe[..., 0:1])
        a, b, c = (ops.constant(value, wide) for value in (self.a, self.b, self.c))
        half = 0.5 * (a * log_sigmoid(score, ops) - b * log_sigmoid(-score, ops) + c)
        scores = ops.where(alone, 0.0, ops.concat([-half, half]))
        return ops.where(masked, -np.inf, scores)
