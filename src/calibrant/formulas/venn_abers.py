"""Two probabilities of each class, one for either label that a row may have, and one of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant.common.types import Array
from calibrant.formulas._base import Formula
from calibrant.formulas._curves import Steps
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import softmax
from calibrant.formulas._rows import FormulaRows
from calibrant.formulas._serialization import checked_count, checked_part, require


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

    @property
    def keeps_arg_max(self) -> bool:
        return False

    @property
    def n_classes(self) -> int:
        return self.classes

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        values = self._values(rows, ops)
        return ops.cast(values / ops.sum(values), logits)

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        values = self._values(rows, ops)
        shown = values > 0.0
        logs = ops.where(shown, ops.log(ops.where(shown, values, 1.0)), -np.inf)
        return ops.cast(logs - ops.log(ops.sum(values)), logits)

    def bounds(self, rows: FormulaRows, ops: Ops) -> tuple[Array, Array]:
        """Compute both probabilities of every class.

        Parameters
        ----------
        rows : FormulaRows
            The logits, and whatever else the formula needs.
        ops : Ops
            What computes: NumPy, an array namespace, PyTorch or an ONNX graph.

        Returns
        -------
        lower : array of shape (.., classes)
            The probabilities where the label is taken to be another class, in float64.
        upper : array of shape (.., classes)
            The probabilities where it is taken to be this one, in float64.
        """
        wide = ops.cast(rows.logits, "float64")
        probs = softmax(wide, 1.0, ops)
        return ops.look_up(probs, self.lower), ops.look_up(probs, self.upper)

    def _values(self, rows: FormulaRows, ops: Ops) -> Array:
        """One probability for both, the best in the worst case of the log loss; 0 where masked."""
        lower, upper = self.bounds(rows, ops)
        values = upper / (1.0 - lower + upper)
        masked = ops.is_masked(rows.logits)
        return ops.where(masked, 0.0, values) if ops.any(masked) else values
