"""Every class' probability through its own function, or all through one; then a distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Array, Floats
from calibrant.formulas._base import Formula
from calibrant.formulas._curves import Lines, ProbabilityCurves
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import (
    keep_arg_max,
    keep_arg_max_of_scores,
    log_softmax,
    sigmoid,
    softmax,
)
from calibrant.formulas._rows import FormulaRows
from calibrant.formulas._serialization import (
    Part,
    checked_array,
    checked_count,
    checked_flag,
    checked_number,
    checked_part,
    checked_positive,
    require,
)


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
        """Compute the sigmoids.

        Parameters
        ----------
        probs : array of shape (.., classes)
            Probabilities in float64.
        ops : Ops
            What computes: NumPy, an array namespace, PyTorch or an ONNX graph.

        Returns
        -------
        array of shape (.., classes)
            The values of the sigmoids.
        """
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
        checked_positive(self, "temperature")
        checked_flag(self, "normalize")
        checked_flag(self, "keep_arg_max")
        if self.sigmoids is not None:
            checked_part(self, "sigmoids", ClassSigmoids)
            same = len(self.sigmoids.slope) == self.classes
            require(same, "there must be as many sigmoids as classes")
        if self.kept is not None:
            checked_array(self, "kept", ndim=1, shape=(self.classes,), kind="bool")
        self._check_values()

    def _check_values(self) -> None:
        """Refuse values that cannot be divided by their sum, or cannot keep the arg max."""
        if checked_number(self, "tie_break", 0.0, 1.0 if self.normalize else 1e-6):
            checked_positive(self, "tie_break")
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

    @property
    def n_classes(self) -> int:
        return self.classes

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
            logs = ops.where(positive, logs, ops.log(_tie_break(self, values, ops)) + plain)
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


def _tie_break(formula: ColumnMap, values: Array, ops: Ops) -> Array:
    return ops.full_like(values, 1.0) * ops.constant(formula.tie_break, values)
