"""Probabilities through curves: of every class, of the top class alone, or two for every class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Array, Floats
from calibrant.formulas._base import Formula, FormulaRows
from calibrant.formulas._curves import Lines, ProbabilityCurves, Steps
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import (
    keep_arg_max,
    keep_arg_max_of_scores,
    log_softmax,
    sigmoid,
    softmax,
)
from calibrant.formulas._serialization import (
    SMALLEST,
    Part,
    checked_array,
    checked_count,
    checked_flag,
    checked_number,
    checked_part,
    require,
)

SMALLEST_DIVISOR = 1e-300  # keeps 0 / 0 away: any such number gives the same result


@dataclass(frozen=True, eq=False)
class ClassSigmoids(Part):
    """A sigmoid of each class' log-odds.

    Parameters
    ----------
    slope : array of shape (classes,)
        The slopes.
    intercept : array of shape (classes,)
        The intercepts.
    clip : float
        How far probabilities are kept from 0 and 1 before their log-odds are taken.

    Notes
    -----
    1 / (1 + exp(-(slope_c x_c + intercept_c))), x_c = log(p_c / (1 - p_c)).

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas._array_operations import NUMPY
    >>> sigmoids = ClassSigmoids([0.5, 0.5], [0.0, 0.0], 1e-6)
    >>> sigmoids.values(np.array([[0.8, 0.2]]), NUMPY).round(3)
    array([[0.667, 0.333]])
    """

    kind: ClassVar[str] = "class-sigmoids"

    slope: Floats
    intercept: Floats
    clip: float

    def __post_init__(self) -> None:
        size = len(checked_array(self, "slope", ndim=1))
        checked_array(self, "intercept", ndim=1, shape=(size,))
        checked_number(self, "clip", 1e-15, 0.1)  # below, 1 - clip would round to 1

    def values(self, probs: Array, ops: Ops) -> Array:
        """Compute the sigmoids of probabilities in float64."""
        clip = ops.constant(self.clip, probs)
        inside = ops.clip(probs, clip, 1.0 - clip)
        log_odds = ops.log(inside) - ops.log1p(-inside)
        slope, intercept = ops.constant(self.slope, probs), ops.constant(self.intercept, probs)
        return sigmoid(slope * log_odds + intercept, ops)


@dataclass(frozen=True, eq=False)
class ColumnMap(Formula):
    """Each class' probability through a function: of isotonic regression and binning.

    Parameters
    ----------
    curves : Lines or Steps
        The functions f_c: one per class, or one for all.
    classes : int
        The number of classes.
    temperature : float
        T, by which the logits are divided first.
    sigmoids : ClassSigmoids or None
        Sigmoids that the probabilities go through before the curves.
    kept : array of bool of shape (classes,), or None
        The classes whose probability stays as it is.
    tie_break : float
        The share of the plain probability that is added, to break ties.
    normalize : bool
        Whether each row is divided by its sum.
    keep_arg_max : bool
        Whether what rounding does to the arg max is undone.

    Notes
    -----
    f_c(p_c) + tie_break p_c with p = softmax(z / T), divided by its sum over the classes. All is
    computed in float64, in which the functions were fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas import Steps
    >>> formula = ColumnMap(Steps.join([([0.5], [0.3, 0.9])]), classes=2)
    >>> formula(np.array([[2.0, 0.0]])).round(3)  # 0.9 and 0.3, divided by their sum
    array([[0.75, 0.25]])
    """

    kind: ClassVar[str] = "column-map"
    host_only: ClassVar[bool] = True

    curves: ProbabilityCurves
    classes: int
    temperature: float = 1.0
    sigmoids: ClassSigmoids | None = None
    kept: NDArray[np.bool_] | None = None
    tie_break: float = 0.0
    normalize: bool = True
    keep_arg_max: bool = False

    def __post_init__(self) -> None:
        checked_part(self, "curves", ProbabilityCurves)
        checked_count(self, "classes", low=2)
        require(
            self.curves.count in (1, self.classes),
            f"there must be one curve or {self.classes}, got {self.curves.count}",
        )
        checked_number(self, "temperature", SMALLEST)
        checked_flag(self, "normalize")
        checked_flag(self, "keep_arg_max")
        if self.sigmoids is not None:
            checked_part(self, "sigmoids", ClassSigmoids)
            same = len(self.sigmoids.slope) == self.classes
            require(same, "there must be as many sigmoids as classes")
        if self.kept is not None:
            checked_array(self, "kept", ndim=1, shape=(self.classes,), kind="bool")
        # values that cannot be divided by their sum, or cannot keep the arg max, are refused
        if checked_number(self, "tie_break", 0.0, 1.0 if self.normalize else 1e-6):
            checked_number(self, "tie_break", SMALLEST)
        elif self.normalize:
            require(self.curves.lowest > 0.0, "without a tie_break no value may be 0")
        if isinstance(self.curves, Lines):
            require(self.curves.rising, "the lines must not fall")
        if self.keep_arg_max:
            alike = self.curves.count == 1 and self.sigmoids is None and self.kept is None
            require(
                alike and self.curves.rising,
                "to keep the arg max, all classes must go through one curve that does not fall",
            )

    @property
    def keeps_arg_max(self) -> bool:
        return self.keep_arg_max

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        values, total = self._values(logits, ops)
        result = ops.cast(values / total if self.normalize else values, logits)
        return keep_arg_max(result, logits, ops) if self.keep_arg_max else result

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        # where a value underflows, only its tie break is left, whose logarithm is known
        values, total = self._values(logits, ops)
        positive = values > 0.0
        logs = ops.where(positive, ops.log(ops.where(positive, values, 1.0)), -np.inf)
        if self.tie_break:
            wide = ops.cast(logits, "float64")
            plain = log_softmax(wide, ops.constant(self.temperature, wide), ops)
            share = ops.full_like(values, 1.0) * ops.constant(self.tie_break, values)
            logs = ops.where(positive, logs, ops.log(share) + plain)
        result = ops.cast(logs - ops.log(total) if self.normalize else logs, logits)
        return keep_arg_max_of_scores(result, logits, ops) if self.keep_arg_max else result

    def _values(self, logits: Array, ops: Ops) -> tuple[Array, Array]:
        """The mapped values, 0 for masked classes, and their sums."""
        wide = ops.cast(logits, "float64")
        probs = softmax(wide, ops.constant(self.temperature, wide), ops)
        scores = probs if self.sigmoids is None else self.sigmoids.values(probs, ops)
        values = ops.look_up(scores, self.curves)
        if self.kept is not None:
            values = ops.where(ops.constant(self.kept, probs), probs, values)
        if self.tie_break:
            values = values + ops.constant(self.tie_break, probs) * probs
        masked = ops.is_masked(logits)
        if ops.any(masked):
            values = ops.where(masked, 0.0, values)
        return values, ops.sum(values)


@dataclass(frozen=True, eq=False)
class VennAbersMap(Formula):
    """The Venn-Abers probabilities of each class as steps of its probability.

    Parameters
    ----------
    lower : Steps
        The functions l_c, one per class: the isotonic regression at the row where its label is
        taken to be another class.
    upper : Steps
        The functions u_c, one per class: the same where its label is taken to be class c.
    classes : int
        The number of classes.

    Notes
    -----
    The value of class c is u / (1 - l + u), l = l_c(p_c) and u = u_c(p_c) with p = softmax(z), and
    the probabilities are the values divided by their sum. All is computed in float64, in which the
    functions were fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas import Steps
    >>> lower, upper = Steps.join([([0.5], [0.0, 0.6])] * 2), Steps.join([([0.5], [0.4, 1.0])] * 2)
    >>> formula = VennAbersMap(lower, upper, classes=2)
    >>> formula(np.array([[2.0, 0.0]])).round(3)  # 1 / 1.4 and 0.4 / 1.4
    array([[0.714, 0.286]])
    """

    kind: ClassVar[str] = "venn-abers-map"
    host_only: ClassVar[bool] = True
    keeps_arg_max: ClassVar[bool] = False

    lower: Steps
    upper: Steps
    classes: int

    def __post_init__(self) -> None:
        checked_count(self, "classes", low=2)
        for name in ("lower", "upper"):
            checked_part(self, name, Steps)
            count = getattr(self, name).count
            require(count == self.classes, f"{name} must have {self.classes} curves, got {count}")
        require(bool((self.lower.levels < 1.0).all()), "the levels of lower must lie below 1")
        require(bool((self.upper.levels > 0.0).all()), "the levels of upper must lie above 0")

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        values = self._values(rows, ops)
        return ops.cast(values / ops.sum(values), rows.logits)

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        values = self._values(rows, ops)
        shown = values > 0.0
        logs = ops.where(shown, ops.log(ops.where(shown, values, 1.0)), -np.inf)
        return ops.cast(logs - ops.log(ops.sum(values)), rows.logits)

    def bounds(self, rows: FormulaRows, ops: Ops) -> tuple[Array, Array]:
        """Compute the lower and the upper probability of every class, in float64."""
        wide = ops.cast(rows.logits, "float64")
        probs = softmax(wide, 1.0, ops)
        return ops.look_up(probs, self.lower), ops.look_up(probs, self.upper)

    def _values(self, rows: FormulaRows, ops: Ops) -> Array:
        """One probability for both, the best in the worst case of the log loss; 0 where masked."""
        lower, upper = self.bounds(rows, ops)
        values = upper / (1.0 - lower + upper)
        masked = ops.is_masked(rows.logits)
        return ops.where(masked, 0.0, values) if ops.any(masked) else values


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
    keeps_arg_max: ClassVar[bool] = True

    curve: ProbabilityCurves
    classes: int
    certain: float

    def __post_init__(self) -> None:
        checked_part(self, "curve", ProbabilityCurves)
        require(self.curve.count == 1, f"there must be one curve, got {self.curve.count}")
        checked_count(self, "classes", low=2)
        checked_number(self, "certain", 0.5, 1.0)

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        spread = self._spread(logits, ops)
        others = spread.shares(1.0 - spread.confidence, ops)
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
        confidence = ops.maximum(ops.look_up(old, self.curve), 1.0 / (others + 1.0))
        confidence = ops.minimum(confidence, ops.constant(self.certain, confidence))
        confidence = ops.where(alone, 1.0, confidence)
        even = 1.0 / ops.maximum(others, 1.0)
        # how much of equal shares makes (1 - confidence) * share <= confidence
        largest = ops.where(alone, 0.0, 1.0 / total)
        room = confidence / ops.maximum(1.0 - confidence, SMALLEST_DIVISOR)
        excess = ops.maximum(largest - room, 0.0) / ops.maximum(largest - even, SMALLEST_DIVISOR)
        mixing = ops.minimum(excess, 1.0)
        return _Spread(first, masked, confidence, below, weight, total, even, mixing)


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
