"""Weighted averages of formulas, and the shares of the classes as a formula of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from reprlib import repr as shown
from typing import ClassVar

import numpy as np

from calibrant.common.types import Array, Floats
from calibrant.formulas._base import Formula, FormulaRows
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import keep_arg_max, keep_arg_max_of_scores
from calibrant.formulas._serialization import SMALLEST, Part, checked_array, require
from calibrant.formulas.composition import Composed, Smoothed

MOST_MEMBERS = 16  # of a pool
SUM_SLACK = 1e-9  # by which weights and shares may miss the sum 1


@dataclass(frozen=True, eq=False)
class ClassShares(Formula):
    """The same distribution for every row, whatever the scores.

    Parameters
    ----------
    shares : array of shape (classes,)
        The probability s_c of each class: above 0, with the sum 1.

    Notes
    -----
    s_c, divided by the sum of s over the classes that are not masked. The masked classes have
    probability 0. The uniform distribution, which keeps the arg max, is a ``Mixture``.

    Examples
    --------
    >>> import numpy as np
    >>> formula = ClassShares([0.5, 0.3, 0.2])
    >>> formula(np.array([[1.0, 2.0, 3.0], [-np.inf, 2.0, 3.0]])).round(3)
    array([[0.5, 0.3, 0.2],
           [0. , 0.6, 0.4]])
    """

    kind: ClassVar[str] = "class-shares"
    keeps_arg_max: ClassVar[bool] = False

    shares: Floats

    def __post_init__(self) -> None:
        shares = _checked_shares(self, "shares")
        require(len(shares) >= 2, f"there must be at least two classes, got {len(shares)}")

    @property
    def n_classes(self) -> int:
        return int(self.shares.shape[0])

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        masked = ops.is_masked(rows.logits)
        shares = ops.where(masked, 0.0, ops.constant(self.shares, rows.logits))
        return shares / ops.sum(shares)

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        masked = ops.is_masked(rows.logits)
        shares = ops.where(masked, 1.0, self.probabilities(rows, ops))
        return ops.where(masked, -np.inf, ops.log(shares))


@dataclass(frozen=True, eq=False)
class Pool(Composed):
    """A weighted average of the probabilities of several formulas.

    Parameters
    ----------
    weights : array of shape (members,)
        The weight w_k of each formula: above 0, with the sum 1.
    members : tuple of Formula
        The formulas, two to 16 of them, for the same classes. None of them is a ``Pool`` or a
        ``Smoothed``. Where probabilities are smoothed, the ``Smoothed`` holds the pool.

    Notes
    -----
    sum_k w_k p_k, p_k being the probabilities of the formula k. If all formulas keep the arg max
    of the scores, so does their average.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas import ConstantTemperature
    >>> pool = Pool([0.5, 0.5], (ConstantTemperature(1.0), ClassShares([0.5, 0.5])))
    >>> pool(np.log([[0.9, 0.1]])).round(3)
    array([[0.7, 0.3]])
    """

    kind: ClassVar[str] = "pool"

    weights: Floats
    members: tuple[Formula, ...]

    def __post_init__(self) -> None:
        members = self.members
        if not isinstance(members, tuple) or not all(isinstance(one, Formula) for one in members):
            raise TypeError(f"members must be a tuple of formulas, got {shown(members)}")
        count = len(members)
        require(2 <= count <= MOST_MEMBERS, f"members must be 2 to {MOST_MEMBERS}, got {count}")
        for member in members:
            name = type(member).__name__
            allowed = not isinstance(member, Pool | Smoothed)
            require(allowed, f"no member may be a Pool or a Smoothed, got a {name}")
        _checked_shares(self, "weights", shape=(count,))
        sizes = {member.n_classes for member in members} - {None}
        require(len(sizes) <= 1, f"all members must be made for the same classes, got {sizes}")
        if self.n_classes is not None:
            self.check_classes(self.n_classes)  # that no member reads more logits than there are
        _ = self.covariate_names  # which must agree

    @property
    def _inner(self) -> tuple[Formula, ...]:
        return self.members

    @property
    def keeps_arg_max(self) -> bool:
        return all(member.keeps_arg_max for member in self.members)

    @property
    def n_classes(self) -> int | None:
        return next((one.n_classes for one in self.members if one.n_classes is not None), None)

    @property
    def widest(self) -> int:  # type: ignore[override]
        """The most numbers for one logit: those of a member, and the results of all members."""
        return max(member.widest for member in self.members) + len(self.members)

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        probs = reduce(
            add, (weight * one.probabilities(rows, ops) for weight, one in self._pairs(rows, ops))
        )
        return keep_arg_max(probs, rows.logits, ops) if self.keeps_arg_max else probs

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        parts = [
            ops.log(weight) + one.log_probabilities(rows, ops)
            for weight, one in self._pairs(rows, ops)
        ]
        # less the largest part, so that nothing underflows; where all are -inf, so is their sum
        largest = reduce(ops.maximum, parts)
        nowhere = ops.is_masked(largest)
        largest = ops.where(nowhere, 0.0, largest)
        total = reduce(add, (ops.exp(part - largest) for part in parts))
        logs = largest + ops.log(ops.where(nowhere, 1.0, total))
        logs = ops.where(nowhere, -np.inf, logs)
        return keep_arg_max_of_scores(logs, rows.logits, ops) if self.keeps_arg_max else logs

    def _pairs(self, rows: FormulaRows, ops: Ops) -> Iterator[tuple[Array, Formula]]:
        """Each weight as an array (1,), and its formula."""
        weights = ops.constant(self.weights, rows.logits)
        for index, member in enumerate(self.members):
            yield weights[index : index + 1], member


def _checked_shares(part: Part, name: str, shape: tuple[int] | None = None) -> Floats:
    """A field as an array of positive numbers with the sum 1."""
    shares = checked_array(part, name, ndim=1, shape=shape, low=SMALLEST, high=1.0)
    total = float(shares.sum())
    require(abs(total - 1.0) <= SUM_SLACK, f"{name} must sum to 1, got {total}")
    return shares
