"""What all formulas share: rows in, probabilities out, by any operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from calibrant.common.types import Array
from calibrant.formulas._array_operations import ops_of
from calibrant.formulas._operations import Ops
from calibrant.formulas._serialization import Part


@dataclass(frozen=True, slots=True)
class FormulaRows:
    """The logits of some rows, and the other columns that a formula declares in ``needs``.

    Labels and weights are not here: what a calibrator computes must not depend on them.

    Parameters
    ----------
    logits : array of shape (.., classes)
        Finite, or -inf for masked classes, with at least one finite value per row.
    covariates : array of shape (.., columns), optional
        Numbers that a calibrator may condition on.

    Examples
    --------
    >>> import numpy as np
    >>> rows = FormulaRows(np.zeros((2, 3)), covariates=np.ones((2, 1)))
    >>> rows.with_logits(np.ones((2, 3))).covariates.shape
    (2, 1)
    """

    logits: Array
    covariates: Array | None = None

    def with_logits(self, logits: Array) -> FormulaRows:
        """The same rows with other logits: what the next map of a chain reads."""
        return FormulaRows(logits, self.covariates)


class Formula(Part, ABC):
    """What a fitted calibrator computes: all that its output depends on, constants included.

    A formula is a frozen dataclass with a ``kind`` and a ``version``, which checks its own
    invariants. Its methods take rows (``FormulaRows``: valid logits of shape (.., classes), and the
    columns named in ``needs``) and operations (``Ops``). They use these operations alone, so that
    NumPy, the array API, PyTorch and ONNX all compute the same thing from the same data. Results
    have the precision of the logits.
    """

    #: True where the formula needs float64 throughout, and so is computed in main memory.
    host_only: ClassVar[bool] = False
    #: What it reads of a row beside the logits: names of fields of ``FormulaRows``.
    needs: ClassVar[tuple[str, ...]] = ()
    #: True where it multiplies by a matrix large enough for BLAS to start threads of its own.
    large_product: ClassVar[bool] = False
    #: The most numbers that it holds at once for one logit.
    widest: ClassVar[int] = 1
    #: The columns of the covariates, in their order, for a formula that needs them.
    covariate_names: ClassVar[tuple[str, ...]] = ()
    #: The fewest classes that it can read.
    fewest_classes: ClassVar[int] = 2

    @final
    def __call__(self, logits: Array, covariates: Array | None = None) -> Array:
        """Probabilities of an array of valid logits, computed where it lies.

        Parameters
        ----------
        logits : array of shape (rows, classes)
            Floats: finite, or -inf for masked classes. Nothing is checked here:
            ``Calibrator.predict_proba`` does that.
        covariates : array of shape (rows, columns), optional
            For formulas that need them.

        Returns
        -------
        array of shape (rows, classes)
            The probabilities.
        """
        with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
            return self.probabilities(FormulaRows(logits, covariates), ops_of(logits))

    @abstractmethod
    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        """Compute probabilities (.., classes)."""

    @abstractmethod
    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        """Compute their logarithms, finite where a probability is too small for its own float."""

    @property
    @abstractmethod
    def keeps_arg_max(self) -> bool:
        """Whether no class ever gets a higher probability than the arg max of the logits."""

    @property
    def n_classes(self) -> int | None:
        """The number of classes that it is made for, its field ``classes``; None for any number."""
        return getattr(self, "classes", None)

    @final
    def check_classes(self, classes: int) -> None:
        """Refuse a number of classes for which the formula is not made, by a ValueError."""
        if classes < self.fewest_classes:
            raise ValueError(
                f"the calibrator reads the top {self.fewest_classes} logits, got {classes} classes"
            )
        if self.n_classes not in (None, classes):
            raise ValueError(f"fitted with {self.n_classes} classes, got {classes}")


class LogitMap(Formula, ABC):
    """A formula that is the softmax of new logits.

    Such maps can follow one another, see ``Chain``.
    """

    @abstractmethod
    def scores(self, rows: FormulaRows, ops: Ops) -> Array:
        """Compute the new logits (.., classes); masked classes stay -inf."""

    def gaps(self, rows: FormulaRows, ops: Ops) -> Array:
        """Compute the new logits minus the largest of their row, without overflow on the way."""
        return ops.gaps(self.scores(rows, ops))

    @final
    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        probs = ops.softmax(self.gaps(rows, ops))
        return probs if probs.dtype == rows.logits.dtype else ops.cast(probs, rows.logits)

    @final
    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        logs = ops.log_softmax(self.gaps(rows, ops))
        return logs if logs.dtype == rows.logits.dtype else ops.cast(logs, rows.logits)


class TemperatureFormula(LogitMap, ABC):
    """A formula softmax(z / T), T being one number or a function of the row."""

    @abstractmethod
    def temperature(self, rows: FormulaRows, ops: Ops) -> Array:
        """Compute temperatures of rows as ``read`` gives them: one per row (.., 1), or a float."""

    def read(self, rows: FormulaRows, ops: Ops) -> FormulaRows:
        """Give the rows as the formula takes them: unchanged, unless it clips logits."""
        return rows

    @final
    def scores(self, rows: FormulaRows, ops: Ops) -> Array:
        rows = self.read(rows, ops)
        return ops.divide(rows.logits, self.temperature(rows, ops))

    @final
    def gaps(self, rows: FormulaRows, ops: Ops) -> Array:
        rows = self.read(rows, ops)
        return ops.gaps(rows.logits, self.temperature(rows, ops))

    @final
    def row_temperatures(self, rows: FormulaRows, ops: Ops) -> Array:
        """Compute one temperature per row: the shape of the logits without their last axis."""
        rows = self.read(rows, ops)
        temperature = self.temperature(rows, ops)
        return ops.drop(ops.full_like(ops.max(rows.logits), 1.0) * temperature)
