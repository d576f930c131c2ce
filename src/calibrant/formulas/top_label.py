"""A new confidence for the top class alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant._curves import Curves
from calibrant._ops import Ops
from calibrant._parts import checked_count, checked_number, checked_part, require
from calibrant._rows import keep_arg_max_of_logs
from calibrant._types import Array
from calibrant.formulas._base import Formula

SMALLEST_DIVISOR = 1e-300


@dataclass(frozen=True, eq=False)
class TopLabelMap(Formula):
    """The largest probability through a function; the other classes share the rest.

    Parameters
    ----------
    curve : Curves
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
    """

    kind: ClassVar[str] = "top-label-map"
    host_only: ClassVar[bool] = True

    curve: Curves
    classes: int
    certain: float

    def __post_init__(self) -> None:
        checked_part(self, "curve", Curves)
        require(self.curve.count == 1, f"there must be one curve, got {self.curve.count}")
        checked_count(self, "classes", low=2)
        checked_number(self, "certain", above=0.5, high=1.0)

    @property
    def keeps_arg_max(self) -> bool:
        return True

    @property
    def n_classes(self) -> int:
        return self.classes

    def probabilities(self, logits: Array, ops: Ops) -> Array:
        first, wide, share, _ = self._spread(logits, ops)
        confidence = ops.cast(wide, logits)
        # rounded, no tied class may pass the first, and no smaller one may reach it
        below = confidence * (1.0 - ops.eps(logits) / 2.0)
        limit = ops.where(logits < ops.max(logits), below, confidence)
        others = ops.minimum(ops.cast((1.0 - wide) * share, logits), limit)
        return ops.where(first, confidence, others)

    def log_probabilities(self, logits: Array, ops: Ops) -> Array:
        first, confidence, share, log_share = self._spread(logits, ops)
        logs = ops.where(share > 0.0, ops.log(ops.where(share > 0.0, share, 1.0)), log_share)
        logs = logs + ops.log1p(-confidence)
        result = ops.cast(ops.where(first, ops.log(confidence), logs), logits)
        return keep_arg_max_of_logs(result, logits, ops)

    def _spread(self, logits: Array, ops: Ops) -> tuple[Array, Array, Array, Array]:
        """Which class is first, its confidence, and the others' shares and first log-shares."""
        wide = ops.cast(logits, "float64")
        first = ops.first_largest(wide)
        rest = ops.where(first, -np.inf, wide)
        others = ops.sum(ops.cast(ops.invert(ops.is_masked(logits)), wide)) - 1.0
        alone = others < 0.5
        second = ops.where(alone, 0.0, ops.max(rest))
        below = rest - second
        weight = ops.exp(below)
        total = ops.sum(weight)
        # by the same sum as in the fit: a curve may be steep, and rounding would show
        old = 1.0 / ops.sum(ops.exp(ops.gaps(wide)))
        confidence = self._possible(ops.look_up(old, self.curve), others, alone, ops)
        safe = ops.maximum(total, 1.0)
        share = _evened(weight / safe, rest, confidence, others, ops)
        return first, confidence, share, below - ops.log(safe)

    def _possible(self, confidence: Array, others: Array, alone: Array, ops: Ops) -> Array:
        """The nearest confidence that an arg max can have."""
        lowest = 1.0 / (others + 1.0)
        raised = ops.maximum(confidence, lowest)
        return ops.where(alone, 1.0, ops.minimum(raised, ops.constant(self.certain, raised)))


def _evened(share: Array, rest: Array, confidence: Array, others: Array, ops: Ops) -> Array:
    """Shares mixed with equal ones so far that (1 - confidence) * share <= confidence."""
    room = confidence / ops.maximum(1.0 - confidence, SMALLEST_DIVISOR)
    largest = ops.max(share)
    crowded = largest > room
    if not ops.any(crowded):
        return share
    even = 1.0 / ops.maximum(others, 1.0)
    excess = ops.maximum(largest - room, 0.0) / ops.maximum(largest - even, SMALLEST_DIVISOR)
    equal = ops.where(ops.is_masked(rest), 0.0, ops.full_like(share, 1.0) * even)
    return share + ops.minimum(excess, 1.0) * (equal - share)
