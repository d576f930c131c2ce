"""A formula of the classes that were fitted on, and one temperature for the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.common.types import Array
from calibrant.formulas._base import Formula
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import log_softmax, softmax
from calibrant.formulas._rows import FormulaRows
from calibrant.formulas._serialization import (
    checked_array,
    checked_part,
    checked_positive,
    require,
)


@dataclass(frozen=True, eq=False)
class SeenClasses(Formula):
    """Some classes by a formula of their own, all others by temperature scaling.

    Parameters
    ----------
    seen : array of int of shape (k,)
        The classes of the formula, in increasing order; at least two, and not all.
    place : array of int of shape (classes,)
        For each class where its probability is: for a class of the formula its place in ``seen``,
        for any other k plus the class. ``SeenClasses.of`` computes it.
    temperature : float
        The temperature T of the other classes.
    formula : Formula
        What divides the rest among the classes of the formula, from their logits alone.

    Notes
    -----
    With q = softmax(z / T), a class that is not in ``seen`` has the probability q_c. The others
    share the rest, in the proportions that the formula gives them.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas import ConstantTemperature
    >>> formula = SeenClasses.of(3, [0, 1], 1.0, ConstantTemperature(2.0))
    >>> formula(np.log([[0.4, 0.1, 0.5]])).round(3)
    array([[0.333, 0.167, 0.5  ]])
    """

    kind: ClassVar[str] = "seen-classes"

    seen: NDArray[np.int64]
    place: NDArray[np.int64]
    temperature: float
    formula: Formula

    @classmethod
    def of(cls, classes: int, seen: ArrayLike, temperature: float, formula: Formula) -> SeenClasses:
        """Make the formula from the number of classes and those that were seen.

        Parameters
        ----------
        classes : int
            The number of all classes.
        seen : array of int
            The classes of the formula.
        temperature : float
            The temperature of the others.
        formula : Formula
            The formula of those that were seen.

        Returns
        -------
        SeenClasses
            The formula of all classes.
        """
        seen = np.asarray(seen, np.int64)
        return cls(seen, _places(classes, seen), temperature, formula)

    def __post_init__(self) -> None:
        place = checked_array(self, "place", ndim=1, kind="int64")
        classes = len(place)
        seen = checked_array(self, "seen", ndim=1, kind="int64")
        require(2 <= len(seen) < classes, "seen must hold two classes at least, and not all")
        require(bool((np.diff(seen) > 0).all()), "seen must be in increasing order")
        require(seen[0] >= 0 and seen[-1] < classes, f"seen must lie in 0..{classes - 1}")
        require(np.array_equal(place, _places(classes, seen)), "place must follow from seen")
        checked_positive(self, "temperature")
        checked_part(self, "formula", Formula)
        self.formula.check_classes(len(seen))

    @property
    def keeps_arg_max(self) -> bool:
        return False

    @property
    def host_only(self) -> bool:  # type: ignore[override]
        """Whether the formula needs float64 throughout."""
        return self.formula.host_only

    @property
    def n_classes(self) -> int:
        return int(self.place.shape[0])

    @property
    def large_product(self) -> bool:
        return self.formula.large_product

    @property
    def widest(self) -> int:
        return self.formula.widest + 1

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """What its formula needs."""
        return self.formula.needs

    @property
    def covariate_names(self) -> tuple[str, ...]:
        return self.formula.covariate_names

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        every = softmax(rows.logits, ops.constant(self.temperature, rows.logits), ops)
        rest = ops.sum(ops.columns(every, self.seen))
        own = self.formula.probabilities(self.own_rows(rows, ops), self._own_ops(ops))
        return ops.columns(ops.concat([own * rest, every]), self.place)

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        every = log_softmax(rows.logits, ops.constant(self.temperature, rows.logits), ops)
        of_seen = ops.columns(every, self.seen)
        top = ops.max(of_seen)
        finite = ops.where(ops.is_masked(top), 0.0, top)
        rest = top + ops.log(ops.sum(ops.exp(of_seen - finite)))
        own = self.formula.log_probabilities(self.own_rows(rows, ops), self._own_ops(ops))
        return ops.columns(ops.concat([own + rest, every]), self.place)

    def own_rows(self, rows: FormulaRows, ops: Ops) -> FormulaRows:
        """Give the rows with the formula's classes alone, 0 where all of these are masked."""
        own = ops.columns(rows.logits, self.seen)
        return rows.with_logits(ops.where(ops.is_masked(ops.max(own)), 0.0, own))

    def share_of_seen(self, rows: FormulaRows, ops: Ops) -> Array:
        """Compute the probability of all classes of the formula together (.., 1)."""
        every = softmax(rows.logits, ops.constant(self.temperature, rows.logits), ops)
        return ops.sum(ops.columns(every, self.seen))

    def _own_ops(self, ops: Ops) -> Ops:
        return ops.for_classes(int(self.seen.shape[0]))


def _places(classes: int, seen: NDArray[Any]) -> NDArray[np.int64]:
    place = len(seen) + np.arange(classes)
    place[seen] = np.arange(len(seen))
    return place
