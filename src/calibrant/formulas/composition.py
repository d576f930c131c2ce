"""Formulas of formulas: one after another, of smoothed probabilities, of some classes alone."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.common.types import Array
from calibrant.formulas._base import Formula, FormulaRows, LogitMap, TemperatureFormula
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import keep_arg_max_of_scores, log_softmax, softmax
from calibrant.formulas._serialization import (
    SMALLEST,
    checked_array,
    checked_count,
    checked_number,
    checked_part,
    require,
)

MOST_MAPS = 8  # of a chain
LARGEST = 1e30  # scores beyond it count as this, so that the next map's differences stay numbers


class Composed(Formula, ABC):
    """A formula that is made of others, and needs what they need."""

    formula: Formula

    @property
    def _inner(self) -> tuple[Formula, ...]:
        """The formulas that it is made of."""
        return (self.formula,)

    @property
    def host_only(self) -> bool:  # type: ignore[override]
        """Whether one of its formulas needs float64 throughout."""
        return any(formula.host_only for formula in self._inner)

    @property
    def large_product(self) -> bool:  # type: ignore[override]
        """Whether one of its formulas multiplies by a large matrix."""
        return any(formula.large_product for formula in self._inner)

    @property
    def widest(self) -> int:  # type: ignore[override]
        """The most numbers that one of its formulas holds at once for one logit."""
        return max(formula.widest for formula in self._inner)

    @property
    def fewest_classes(self) -> int:  # type: ignore[override]
        """The fewest classes that all of its formulas can read."""
        return max(formula.fewest_classes for formula in self._inner)

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """What any of its formulas needs, each name once."""
        return tuple(dict.fromkeys(name for formula in self._inner for name in formula.needs))

    @property
    def covariate_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of the covariates that its formulas read."""
        names = {formula.covariate_names for formula in self._inner if formula.covariate_names}
        require(len(names) <= 1, f"all parts must read the same covariates, got {sorted(names)}")
        return next(iter(names), ())


@dataclass(frozen=True, eq=False)
class Chain(Composed):
    """Maps of logits one after the other, then a formula of any kind.

    Parameters
    ----------
    maps : tuple of LogitMap
        The maps, the first one first; at most 8.
    last : Formula
        The formula that gives the probabilities; no chain.

    Notes
    -----
    last(..(second(first(z))..)).

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas import ConstantTemperature
    >>> chain = Chain((ConstantTemperature(2.0),), ConstantTemperature(3.0))
    >>> chain(np.array([[6.0, 0.0]])).round(3)
    array([[0.731, 0.269]])
    """

    kind: ClassVar[str] = "chain"

    maps: tuple[LogitMap, ...]
    last: Formula

    def __post_init__(self) -> None:
        if not isinstance(self.maps, tuple) or not all(isinstance(m, LogitMap) for m in self.maps):
            raise TypeError("maps must be a tuple of maps of logits")
        require(len(self.maps) <= MOST_MAPS, f"there must be at most {MOST_MAPS} maps")
        checked_part(self, "last", Formula)
        require(not isinstance(self.last, Chain), "maps of an inner chain belong to the outer one")
        sizes = {formula.n_classes for formula in self._inner} - {None}
        _ = self.covariate_names  # which must agree
        require(len(sizes) <= 1, f"all parts must be made for the same classes, got {sizes}")

    @property
    def _inner(self) -> tuple[Formula, ...]:
        return (*self.maps, self.last)

    @property
    def keeps_arg_max(self) -> bool:
        return all(formula.keeps_arg_max for formula in self._inner)

    @property
    def n_classes(self) -> int | None:
        return next((f.n_classes for f in self._inner if f.n_classes is not None), None)

    def inner(self, rows: FormulaRows, ops: Ops) -> FormulaRows:
        """Give what the last formula reads: no rounding moves the arg max, nothing overflows."""
        for step in self.maps:
            scores = ops.clip(step.scores(rows, ops), -LARGEST, LARGEST)
            if step.keeps_arg_max:
                scores = keep_arg_max_of_scores(scores, rows.logits, ops)
            rows = rows.with_logits(ops.where(ops.is_masked(rows.logits), -np.inf, scores))
        return rows

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        return self.last.probabilities(self.inner(rows, ops), ops)

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        return self.last.log_probabilities(self.inner(rows, ops), ops)


@dataclass(frozen=True, eq=False)
class Smoothed(Composed):
    """A formula of probabilities that are mixed with the uniform distribution first.

    Parameters
    ----------
    share : float
        The share a of the uniform distribution, above 0 and below 1.
    classes : int
        The number of classes C.
    formula : Formula
        What reads the logits of the mixture; not smoothed itself.

    Notes
    -----
    The formula reads log((1 - a) softmax(z) + a / C). A class of probability 0 (the logit -inf) is
    as likely as a / C there, so that it is no special case, and the order of the classes stays.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas import ConstantTemperature
    >>> Smoothed(0.1, 2, ConstantTemperature(1.0))(np.array([[0.0, -np.inf]])).round(3)
    array([[0.95, 0.05]])
    """

    kind: ClassVar[str] = "smoothed"

    share: float
    classes: int
    formula: Formula

    def __post_init__(self) -> None:
        checked_number(self, "share", SMALLEST, 1.0)
        require(self.share < 1.0, "share must be below 1")
        checked_count(self, "classes", low=2)
        checked_part(self, "formula", Formula)
        require(not isinstance(self.formula, Smoothed), "formula must not be smoothed itself")
        self.formula.check_classes(self.classes)

    @property
    def keeps_arg_max(self) -> bool:
        return self.formula.keeps_arg_max

    def read(self, rows: FormulaRows, ops: Ops) -> FormulaRows:
        """Give the rows with the finite logits of the mixture, whose arg max is the given one."""
        logits = rows.logits
        share = ops.constant(self.share, logits)
        probs = ops.softmax(ops.gaps(logits))
        logs = ops.log(probs * (1.0 - share) + share / self.classes)
        return rows.with_logits(keep_arg_max_of_scores(logs - ops.mean(logs), logits, ops))

    def row_temperatures(self, rows: FormulaRows, ops: Ops) -> Array:
        """Compute one temperature per row, where the formula divides logits by temperatures."""
        formula = cast("TemperatureFormula", self.formula)
        return formula.row_temperatures(self.read(rows, ops), ops)

    def scores(self, rows: FormulaRows, ops: Ops) -> Array:
        """Compute the new logits, where the formula is a map of logits."""
        return cast("LogitMap", self.formula).scores(self.read(rows, ops), ops)

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        return self.formula.probabilities(self.read(rows, ops), ops)

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        return self.formula.log_probabilities(self.read(rows, ops), ops)


def unsmoothed(formula: Formula) -> Formula:
    """The formula inside a smoothed one; any other as it is."""
    return formula.formula if isinstance(formula, Smoothed) else formula


@dataclass(frozen=True, eq=False)
class SeenClasses(Composed):
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
    keeps_arg_max: ClassVar[bool] = False
    fewest_classes: ClassVar[int] = 2

    seen: NDArray[np.int64]
    place: NDArray[np.int64]
    temperature: float
    formula: Formula

    @classmethod
    def of(cls, classes: int, seen: ArrayLike, temperature: float, formula: Formula) -> SeenClasses:
        """Make the formula from the number of all classes and those that were seen."""
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
        checked_number(self, "temperature", SMALLEST)
        checked_part(self, "formula", Formula)
        self.formula.check_classes(len(seen))

    @property
    def n_classes(self) -> int:
        return int(self.place.shape[0])

    @property
    def widest(self) -> int:  # type: ignore[override]
        """The most numbers for one logit: those of its formula, and those of all classes."""
        return self.formula.widest + 1

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        every = softmax(rows.logits, ops.constant(self.temperature, rows.logits), ops)
        rest = ops.sum(ops.columns(every, self.seen))
        own_ops = ops.for_classes(int(self.seen.shape[0]))
        own = self.formula.probabilities(self.own_rows(rows, ops), own_ops)
        return ops.columns(ops.concat([own * rest, every]), self.place)

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        every = log_softmax(rows.logits, ops.constant(self.temperature, rows.logits), ops)
        of_seen = ops.columns(every, self.seen)
        top = ops.max(of_seen)
        finite = ops.where(ops.is_masked(top), 0.0, top)
        rest = top + ops.log(ops.sum(ops.exp(of_seen - finite)))
        own_ops = ops.for_classes(int(self.seen.shape[0]))
        own = self.formula.log_probabilities(self.own_rows(rows, ops), own_ops)
        return ops.columns(ops.concat([own + rest, every]), self.place)

    def own_rows(self, rows: FormulaRows, ops: Ops) -> FormulaRows:
        """Give the rows with the formula's classes alone, 0 where all of these are masked."""
        own = ops.columns(rows.logits, self.seen)
        return rows.with_logits(ops.where(ops.is_masked(ops.max(own)), 0.0, own))

    def share_of_seen(self, rows: FormulaRows, ops: Ops) -> Array:
        """Compute the probability of all classes of the formula together (.., 1)."""
        every = softmax(rows.logits, ops.constant(self.temperature, rows.logits), ops)
        return ops.sum(ops.columns(every, self.seen))


def _places(classes: int, seen: NDArray[Any]) -> NDArray[np.int64]:
    place = len(seen) + np.arange(classes)
    place[seen] = np.arange(len(seen))
    return place
