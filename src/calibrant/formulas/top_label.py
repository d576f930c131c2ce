"""A new confidence for the top class alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant.common.types import Array
from calibrant.formulas._base import Formula
from calibrant.formulas._curves import ProbabilityCurves
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import keep_arg_max_of_scores
from calibrant.formulas._rows import FormulaRows
from calibrant.formulas._serialization import checked_count, checked_number, checked_part, require

SMALLEST_DIVISOR = 1e-300  # keeps 0 / 0 away: any such number gives the same result


@dataclass(frozen=True, eq=False)
class TopLabelMap(Formula):
    """The largest probability through a function; the other classes share the rest.

    Parameters
    ----------
    curve : Lines or Steps
        The function f, one alone.
    classes : int
        The number of classes.
    certain : float
        The largest confidence given, so that the logarithms of the others stay finite.

    Notes
    -----
    The top class gets f(max p), and the others share 1 - f(max p) in proportion to their
    probabilities. Where the second would then pass the first, their shares are mixed with equal
    ones just far enough. A confidence below 1 / C, C being the number of finite logits, cannot be
    that of the arg max and is raised to it. All is computed in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas import Lines
    >>> formula = TopLabelMap(Lines.join([([0.0, 1.0], [0.4, 1.0])]), classes=3, certain=1.0 - 1e-9)
    >>> formula(np.log([[0.5, 0.3, 0.2]])).round(3)
    array([[0.7 , 0.18, 0.12]])
    """

    kind: ClassVar[str] = "top-label-map"
    host_only: ClassVar[bool] = True

    curve: ProbabilityCurves
    classes: int
    certain: float

    def __post_init__(self) -> None:
        checked_part(self, "curve", ProbabilityCurves)
        require(self.curve.count == 1, f"there must be one curve, got {self.curve.count}")
        checked_count(self, "classes", low=2)
        checked_number(self, "certain", 0.5, 1.0)

    @property
    def keeps_arg_max(self) -> bool:
        return True

    @property
    def n_classes(self) -> int:
        return self.classes

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        spread = self._spread(logits, ops)
        rest = 1.0 - spread.confidence
        others = spread.shares(rest, ops)
        confidence = ops.cast(spread.confidence, logits)
        # rounded, no tied class may pass the first, and no smaller one may reach it
        below = confidence * (1.0 - ops.eps(logits) / 2.0)
        limit = ops.where(logits < ops.max(logits), below, confidence)
        return ops.where(spread.first, confidence, ops.minimum(ops.cast(others, logits), limit))

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        spread = self._spread(logits, ops)
        share = spread.shares(ops.full_like(spread.confidence, 1.0), ops)
        positive = share > 0.0
        logs = ops.log(ops.where(positive, share, 1.0))
        logs = ops.where(positive, logs, spread.below - ops.log(spread.total))
        logs = logs + ops.log1p(-spread.confidence)
        result = ops.cast(ops.where(spread.first, ops.log(spread.confidence), logs), logits)
        return keep_arg_max_of_scores(result, logits, ops)

    def _spread(self, logits: Array, ops: Ops) -> _Spread:
        wide, masked = ops.cast(logits, "float64"), ops.is_masked(logits)
        first = ops.first_largest(logits)
        rest = ops.where(first, -np.inf, wide)
        others = ops.sum(ops.cast(ops.invert(masked), wide)) - 1.0
        alone = others < 0.5
        below = rest - ops.where(alone, 0.0, ops.max(rest))
        weight = ops.exp(below)
        total = ops.maximum(ops.sum(weight), 1.0)
        # by the same sum as in the fit: a curve may be steep, and rounding would show
        old = 1.0 / ops.sum(ops.exp(ops.gaps(wide)))
        confidence = self._possible(ops.look_up(old, self.curve), others, alone, ops)
        even = 1.0 / ops.maximum(others, 1.0)
        mixing = _mixing(ops.where(alone, 0.0, 1.0 / total), even, confidence, ops)
        return _Spread(first, masked, confidence, below, weight, total, even, mixing)

    def _possible(self, confidence: Array, others: Array, alone: Array, ops: Ops) -> Array:
        """The nearest confidence that an arg max can have."""
        lowest = 1.0 / (others + 1.0)
        raised = ops.maximum(confidence, lowest)
        return ops.where(alone, 1.0, ops.minimum(raised, ops.constant(self.certain, raised)))


@dataclass(frozen=True)
class _Spread:
    """What the top class leaves, and how the others share it."""

    first: Array  # True at the top class
    masked: Array
    confidence: Array  # of the top class, (.., 1)
    below: Array  # the others' logits minus the second largest
    weight: Array  # exp(below)
    total: Array  # its sum, (.., 1)
    even: Array  # an equal share, (.., 1)
    mixing: Array  # how far shares are mixed with equal ones, (.., 1)

    def shares(self, amount: Array, ops: Ops) -> Array:
        """The others' shares of a number per row; what stands at the top class does not count."""
        mixed = self.weight * (amount * (1.0 - self.mixing) / self.total)
        mixed = mixed + amount * self.mixing * self.even
        return ops.where(self.masked, 0.0, mixed) if ops.any(self.masked) else mixed


def _mixing(largest: Array, even: Array, confidence: Array, ops: Ops) -> Array:
    """How much of equal shares makes (1 - confidence) * share <= confidence."""
    room = confidence / ops.maximum(1.0 - confidence, SMALLEST_DIVISOR)
    excess = ops.maximum(largest - room, 0.0) / ops.maximum(largest - even, SMALLEST_DIVISOR)
    return ops.minimum(excess, 1.0)
