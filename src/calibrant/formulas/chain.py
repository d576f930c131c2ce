"""One map of logits after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant.common.types import Array
from calibrant.formulas._base import Formula, LogitMap, all_covariates, all_needs
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import keep_arg_max_of_scores
from calibrant.formulas._rows import FormulaRows
from calibrant.formulas._serialization import checked_part, require

MOST_MAPS = 8
LARGEST = 1e30  # scores beyond it count as this, so that the next map's differences stay numbers


@dataclass(frozen=True, eq=False)
class Chain(Formula):
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
        sizes = {formula.n_classes for formula in self._all} - {None}
        all_covariates(*self._all)  # which must agree
        require(len(sizes) <= 1, f"all parts must be made for the same classes, got {sizes}")

    @property
    def _all(self) -> tuple[Formula, ...]:
        return (*self.maps, self.last)

    @property
    def keeps_arg_max(self) -> bool:
        return all(formula.keeps_arg_max for formula in self._all)

    @property
    def host_only(self) -> bool:  # type: ignore[override]
        """Whether one of its formulas needs float64 throughout."""
        return any(formula.host_only for formula in self._all)

    @property
    def n_classes(self) -> int | None:
        sizes = [f.n_classes for f in self._all if f.n_classes is not None]
        return sizes[0] if sizes else None

    @property
    def fewest_classes(self) -> int:
        return max(formula.fewest_classes for formula in self._all)

    @property
    def large_product(self) -> bool:
        return any(formula.large_product for formula in self._all)

    @property
    def widest(self) -> int:
        return max(formula.widest for formula in self._all)

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """What any of its formulas needs."""
        return all_needs(*self._all)

    @property
    def covariate_names(self) -> tuple[str, ...]:
        return all_covariates(*self._all)

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
