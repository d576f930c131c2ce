"""What all formulas share: logits in, probabilities out, by any operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, final

from calibrant._ops import Ops
from calibrant._parts import Part
from calibrant._rows import scaled_gaps
from calibrant._types import Array


class Formula(Part, ABC):
    """All that the output of a fitted calibrator depends on, constants included.

    A frozen dataclass with a ``kind`` and a ``version``, which checks its own invariants. Its
    methods are written in ``calibrant._ops`` alone, so that NumPy, the array API, PyTorch and ONNX
    all compute the same thing from the same data. Rows are valid logits: finite, or -inf for masked
    classes, with at least one finite value per row.
    """

    #: True where the formula needs float64 throughout, and so is computed in main memory.
    host_only: ClassVar[bool] = False

    @abstractmethod
    def probabilities(self, logits: Array, ops: Ops) -> Array:
        """Probabilities (.., classes), in the precision of the logits."""

    @abstractmethod
    def log_probabilities(self, logits: Array, ops: Ops) -> Array:
        """Their logarithms, finite where a probability is too small for its own float."""

    @property
    @abstractmethod
    def keeps_arg_max(self) -> bool:
        """Whether no class ever gets a higher probability than the arg max of the logits."""

    @property
    def n_classes(self) -> int | None:
        """The number of classes that it is made for; None where any will do."""
        return None

    @property
    def fewest_classes(self) -> int:
        """The fewest classes that it can read."""
        return 2

    @property
    def large_product(self) -> bool:
        """Whether it multiplies by a matrix large enough for BLAS to start threads of its own."""
        return False

    @final
    def check_classes(self, classes: int) -> None:
        """Refuse scores with a number of classes for which the formula is not made."""
        if classes < self.fewest_classes:
            raise ValueError(
                f"the formula reads the top {self.fewest_classes} logits, got {classes} classes"
            )
        if self.n_classes not in (None, classes):
            raise ValueError(f"fitted with {self.n_classes} classes, got {classes}")


class LogitMap(Formula, ABC):
    """softmax of new logits: such maps can follow one another (``Chain``)."""

    @abstractmethod
    def scores(self, logits: Array, ops: Ops) -> Array:
        """The new logits; masked classes stay masked."""

    @abstractmethod
    def gaps(self, logits: Array, ops: Ops) -> Array:
        """The new logits minus their row's largest, without overflow on the way."""

    @final
    def probabilities(self, logits: Array, ops: Ops) -> Array:
        return ops.cast(ops.softmax(self.gaps(logits, ops)), logits)

    @final
    def log_probabilities(self, logits: Array, ops: Ops) -> Array:
        return ops.cast(ops.log_softmax(self.gaps(logits, ops)), logits)


class TemperatureFormula(LogitMap, ABC):
    """softmax(z / T), T being a number or a function of the row."""

    @abstractmethod
    def temperature(self, logits: Array, ops: Ops) -> Array:
        """Temperatures (.., 1), or one number."""

    def read(self, logits: Array, ops: Ops) -> Array:
        """The logits as the formula takes them, before anything else."""
        return logits

    @final
    def scores(self, logits: Array, ops: Ops) -> Array:
        logits = self.read(logits, ops)
        return ops.divide(logits, self.temperature(logits, ops))

    @final
    def gaps(self, logits: Array, ops: Ops) -> Array:
        logits = self.read(logits, ops)
        return scaled_gaps(logits, self.temperature(logits, ops), ops)

    @final
    def row_temperatures(self, logits: Array, ops: Ops) -> Array:
        """One temperature per row, (..)."""
        logits = self.read(logits, ops)
        temperature = self.temperature(logits, ops)
        return ops.drop(ops.full_like(ops.max(logits), 1.0) * temperature)
