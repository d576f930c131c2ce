"""Probabilities of exactly 0 and 1, mixed with the uniform distribution before anything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

from calibrant.common.types import Array
from calibrant.formulas._base import Formula, LogitMap, TemperatureFormula
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import keep_arg_max_of_scores
from calibrant.formulas._rows import FormulaRows
from calibrant.formulas._serialization import (
    SMALLEST,
    checked_count,
    checked_number,
    checked_part,
    require,
)


@dataclass(frozen=True, eq=False)
class Smoothed(Formula):
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

    @property
    def host_only(self) -> bool:  # type: ignore[override]
        """Whether the formula needs float64 throughout."""
        return self.formula.host_only

    @property
    def n_classes(self) -> int:
        return self.classes

    @property
    def fewest_classes(self) -> int:
        return self.formula.fewest_classes

    @property
    def large_product(self) -> bool:
        return self.formula.large_product

    @property
    def widest(self) -> int:
        return self.formula.widest

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """What its formula needs."""
        return self.formula.needs

    @property
    def covariate_names(self) -> tuple[str, ...]:
        return self.formula.covariate_names

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
