"""New log-odds of two classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from calibrant.common.types import Array
from calibrant.formulas._base import LogitMap
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import log_sigmoid
from calibrant.formulas._rows import FormulaRows
from calibrant.formulas._serialization import LARGEST, checked_number


class TwoClassMap(LogitMap, ABC):
    """New log-odds from the old ones, z_1 - z_0.

    Computed in float64; a masked class keeps probability 0.
    """

    host_only: ClassVar[bool] = True

    @abstractmethod
    def log_odds(self, score: Array, ops: Ops) -> Array:
        """The new log-odds.

        Parameters
        ----------
        score : array of shape (.., 1)
            Finite log-odds z_1 - z_0 in float64.
        ops : Ops
            What computes.

        Returns
        -------
        array of shape (.., 1)
            The new log-odds.
        """

    @property
    def keeps_arg_max(self) -> bool:
        return False

    @property
    def n_classes(self) -> int:
        return 2

    @final
    def scores(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        return ops.cast(self._wide_scores(logits, ops), logits)

    @final
    def gaps(self, rows: FormulaRows, ops: Ops) -> Array:
        return ops.gaps(self._wide_scores(rows.logits, ops))

    def _wide_scores(self, logits: Array, ops: Ops) -> Array:
        """Half of the new log-odds for class 1, minus that for class 0."""
        wide = ops.cast(logits, "float64")
        masked = ops.is_masked(wide)
        if not ops.any(masked):
            return self._halves(_difference(wide, ops), ops)
        alone = ops.max(ops.cast(masked, wide)) > 0.5  # one of both is masked
        safe = ops.where(masked, 0.0, wide)
        score = ops.where(alone, 0.0, _difference(safe, ops))
        scores = ops.where(alone, 0.0, self._halves(score, ops))
        return ops.where(masked, -np.inf, scores)

    def _halves(self, score: Array, ops: Ops) -> Array:
        half = 0.5 * self.log_odds(score, ops)
        return ops.concat([-half, half])


def _difference(logits: Array, ops: Ops) -> Array:
    """z_1 - z_0 of finite logits: finite, also times a coefficient."""
    bounded = ops.clip(logits, -LARGEST, LARGEST)
    return bounded[..., 1:2] - bounded[..., 0:1]


@dataclass(frozen=True, eq=False)
class LinearOdds(TwoClassMap):
    """Log-odds slope * s + intercept: Platt's sigmoid.

    Parameters
    ----------
    slope : float
        What multiplies the old log-odds s.
    intercept : float
        What is added.

    Notes
    -----
    The probability of class 1 is 1 / (1 + exp(-(slope s + intercept))), s = z_1 - z_0.

    Examples
    --------
    >>> import numpy as np
    >>> LinearOdds(slope=0.5, intercept=0.0)(np.array([[0.0, 2.0]])).round(3)
    array([[0.269, 0.731]])
    """

    kind: ClassVar[str] = "linear-odds"

    slope: float
    intercept: float

    def __post_init__(self) -> None:
        checked_number(self, "slope")
        checked_number(self, "intercept")

    def log_odds(self, score: Array, ops: Ops) -> Array:
        slope, intercept = ops.constant(self.slope, score), ops.constant(self.intercept, score)
        return slope * score + intercept


@dataclass(frozen=True, eq=False)
class BetaOdds(TwoClassMap):
    """Log-odds a ln p - b ln(1 - p) + c, p being the probability of class 1.

    Parameters
    ----------
    a, b : float
        The slopes, at least 0.
    c : float
        The intercept.

    Notes
    -----
    The probability of class 1 is 1 / (1 + exp(-(a ln p - b ln(1 - p) + c))), with
    p = 1 / (1 + exp(z_0 - z_1)). With a = b = 1 and c = 0 it is p itself.

    Examples
    --------
    >>> import numpy as np
    >>> BetaOdds(a=2.0, b=1.0, c=0.0)(np.array([[0.0, 0.0]])).round(3)
    array([[0.667, 0.333]])
    """

    kind: ClassVar[str] = "beta-odds"

    a: float
    b: float
    c: float

    def __post_init__(self) -> None:
        checked_number(self, "a", 0.0)
        checked_number(self, "b", 0.0)
        checked_number(self, "c")

    def log_odds(self, score: Array, ops: Ops) -> Array:
        a, b, c = (ops.constant(value, score) for value in (self.a, self.b, self.c))
        return a * log_sigmoid(score, ops) - b * log_sigmoid(-score, ops) + c
