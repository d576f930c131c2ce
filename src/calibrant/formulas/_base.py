"""What all formulas share: logits in, probabilities out, by any operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np

from calibrant.common.types import Array
from calibrant.formulas._array_operations import ops_of
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import scaled_gaps
from calibrant.formulas._serialization import Part


class Formula(Part, ABC):
    """What a fitted calibrator computes: all that its output depends on, constants included.

    A formula is a frozen dataclass with a ``kind`` and a ``version``, which checks its own
    invariants. Its methods use the operations of ``Ops`` alone, so that NumPy, the array API,
    PyTorch and ONNX all compute the same thing from the same data. Rows are valid logits: finite,
    or -inf for masked classes, with at least one finite value per row.
    """

    #: True where the formula needs float64 throughout, and so is computed in main memory.
    host_only: ClassVar[bool] = False

    @final
    def __call__(self, logits: Array) -> Array:
        """Probabilities of an array of valid logits, computed where it lies.

        Parameters
        ----------
        logits : array of shape (rows, classes)
            Floats: finite, or -inf for masked classes. Nothing is checked here:
            ``Calibrator.predict_proba`` does that.

        Returns
        -------
        array of shape (rows, classes)
            The probabilities.
        """
        with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
            return self.probabilities(logits, ops_of(logits))

    @abstractmethod
    def probabilities(self, logits: Array, ops: Ops) -> Array:
        """Compute probabilities.

        Parameters
        ----------
        logits : array of shape (.., classes)
            Logits: finite, or -inf for masked classes.
        ops : Ops
            What computes: NumPy, an array namespace, PyTorch or an ONNX graph.

        Returns
        -------
        array of shape (.., classes)
            The probabilities, in the precision of the logits.
        """

    @abstractmethod
    def log_probabilities(self, logits: Array, ops: Ops) -> Array:
        """Compute the logarithms of the probabilities.

        Parameters
        ----------
        logits : array of shape (.., classes)
            Logits: finite, or -inf for masked classes.
        ops : Ops
            What computes: NumPy, an array namespace, PyTorch or an ONNX graph.

        Returns
        -------
        array of shape (.., classes)
            The logarithms, finite where a probability is too small for its own float.
        """

    @property
    @abstractmethod
    def keeps_arg_max(self) -> bool:
        """Whether no class ever gets a higher probability than the arg max of the logits."""

    @property
    def n_classes(self) -> int | None:
        """The number of classes that it is made for; None for any number."""
        return None

    @property
    def fewest_classes(self) -> int:
        """The fewest classes that it can read."""
        return 2

    @property
    def large_product(self) -> bool:
        """Whether it multiplies by a matrix large enough for BLAS to start threads of its own."""
        return False

    @property
    def widest(self) -> int:
        """The most numbers that it holds at once for one logit."""
        return 1

    @final
    def check_classes(self, classes: int) -> None:
        """Refuse a number of classes for which the formula is not made.

        Parameters
        ----------
        classes : int
            The number of classes.

        Raises
        ------
        ValueError
            Where the formula needs another number, or more classes.
        """
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
    def scores(self, logits: Array, ops: Ops) -> Array:
        """Compute the new logits.

        Parameters
        ----------
        logits : array of shape (.., classes)
            Logits: finite, or -inf for masked classes.
        ops : Ops
            What computes: NumPy, an array namespace, PyTorch or an ONNX graph.

        Returns
        -------
        array of shape (.., classes)
            The new logits; masked classes stay -inf.
        """

    @abstractmethod
    def gaps(self, logits: Array, ops: Ops) -> Array:
        """Compute the new logits minus the largest of their row, without overflow on the way.

        Parameters
        ----------
        logits : array of shape (.., classes)
            Logits: finite, or -inf for masked classes.
        ops : Ops
            What computes: NumPy, an array namespace, PyTorch or an ONNX graph.

        Returns
        -------
        array of shape (.., classes)
            The differences: 0 for the largest, -inf for masked classes.
        """

    @final
    def probabilities(self, logits: Array, ops: Ops) -> Array:
        return ops.cast(ops.softmax(self.gaps(logits, ops)), logits)

    @final
    def log_probabilities(self, logits: Array, ops: Ops) -> Array:
        return ops.cast(ops.log_softmax(self.gaps(logits, ops)), logits)


class TemperatureFormula(LogitMap, ABC):
    """A formula softmax(z / T), T being one number or a function of the row."""

    @abstractmethod
    def temperature(self, logits: Array, ops: Ops) -> Array:
        """Compute the temperatures of logits as ``read`` gives them.

        Parameters
        ----------
        logits : array of shape (.., classes)
            Logits: finite, or -inf for masked classes.
        ops : Ops
            What computes: NumPy, an array namespace, PyTorch or an ONNX graph.

        Returns
        -------
        array of shape (.., 1), or float
            One temperature per row, or one for all.
        """

    def read(self, logits: Array, ops: Ops) -> Array:
        """Give the logits as the formula takes them, before anything else.

        Parameters
        ----------
        logits : array of shape (.., classes)
            Logits: finite, or -inf for masked classes.
        ops : Ops
            What computes: NumPy, an array namespace, PyTorch or an ONNX graph.

        Returns
        -------
        array of shape (.., classes)
            The logits, unchanged unless a formula clips them.
        """
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
        """Compute one temperature per row.

        Parameters
        ----------
        logits : array of shape (.., classes)
            Logits: finite, or -inf for masked classes.
        ops : Ops
            What computes: NumPy, an array namespace, PyTorch or an ONNX graph.

        Returns
        -------
        array of shape (..)
            The temperatures: the shape of the logits without their last axis.
        """
        logits = self.read(logits, ops)
        temperature = self.temperature(logits, ops)
        return ops.drop(ops.full_like(ops.max(logits), 1.0) * temperature)
