"""New log-odds: of two classes by a function of their log-odds, of more by a curve for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from calibrant.common.types import Array
from calibrant.formulas._base import FormulaRows, LogitMap
from calibrant.formulas._curves import LARGEST as LARGEST_ODDS
from calibrant.formulas._curves import Cubics
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import class_log_odds, log_sigmoid
from calibrant.formulas._serialization import (
    LARGEST,
    checked_count,
    checked_number,
    checked_part,
    require,
)


class WideMap(LogitMap, ABC):
    """New logits that are computed in float64; a masked class keeps probability 0."""

    host_only: ClassVar[bool] = True
    keeps_arg_max: ClassVar[bool] = False

    @abstractmethod
    def _wide_scores(self, logits: Array, ops: Ops) -> Array:
        """The new logits in float64."""

    @final
    def scores(self, rows: FormulaRows, ops: Ops) -> Array:
        return ops.cast(self._wide_scores(rows.logits, ops), rows.logits)

    @final
    def gaps(self, rows: FormulaRows, ops: Ops) -> Array:
        return ops.gaps(self._wide_scores(rows.logits, ops))


class TwoClassMap(WideMap, ABC):
    """New log-odds from the old ones, z_1 - z_0.

    Computed in float64; a masked class keeps probability 0.
    """

    n_classes: ClassVar[int] = 2

    @abstractmethod
    def log_odds(self, score: Array, ops: Ops) -> Array:
        """Compute the new log-odds (.., 1) of finite ones in float64."""

    def _wide_scores(self, logits: Array, ops: Ops) -> Array:
        """Half of the new log-odds for class 1, minus that for class 0."""
        wide = ops.cast(logits, "float64")
        masked = ops.is_masked(wide)
        some = ops.any(masked)
        safe = ops.where(masked, 0.0, wide) if some else wide
        bounded = ops.clip(safe, -LARGEST, LARGEST)  # finite, also times a coefficient
        score = bounded[..., 1:2] - bounded[..., 0:1]
        if some:
            alone = ops.max(ops.cast(masked, wide)) > 0.5  # one of both is masked
            score = ops.where(alone, 0.0, score)
        half = 0.5 * self.log_odds(score, ops)
        scores = ops.concat([-half, half])
        if some:
            scores = ops.where(masked, -np.inf, ops.where(alone, 0.0, scores))
        return scores


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


@dataclass(frozen=True, eq=False)
class OddsMap(WideMap):
    """A curve of each class' log-odds against all others: of quadratic and spline calibration.

    Parameters
    ----------
    curves : Cubics
        The functions g_c of the log-odds, one per class.
    classes : int
        The number of classes.

    Notes
    -----
    The value of class c is 1 / (1 + exp(-g_c(x_c))), x_c = log(p_c / (1 - p_c)) with
    p = softmax(z), and the probabilities are the values divided by their sum. Of two classes with
    g_0(-x) = -g_1(x), as the fits give them, the values sum to 1 already. Computed in float64; a
    masked class keeps probability 0.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas import Cubics
    >>> halved = ([0.0], [0.0], [0.5])  # the straight line g(x) = x / 2
    >>> formula = OddsMap(Cubics.join([halved, halved]), classes=2)
    >>> formula(np.array([[0.0, 2.0]])).round(3)
    array([[0.269, 0.731]])
    """

    kind: ClassVar[str] = "odds-map"

    curves: Cubics
    classes: int

    def __post_init__(self) -> None:
        checked_part(self, "curves", Cubics)
        checked_count(self, "classes", low=2)
        count = self.curves.count
        require(count == self.classes, f"there must be {self.classes} curves, got {count}")

    def _wide_scores(self, logits: Array, ops: Ops) -> Array:
        """The logarithms of the values: their softmax divides the values by their sum."""
        wide = ops.cast(logits, "float64")
        odds = ops.clip(class_log_odds(wide, ops), -LARGEST_ODDS, LARGEST_ODDS)
        scores = log_sigmoid(ops.look_up(odds, self.curves), ops)
        masked = ops.is_masked(wide)
        return ops.where(masked, -np.inf, scores) if ops.any(masked) else scores
