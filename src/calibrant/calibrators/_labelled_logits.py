"""The rows that a method is fitted on."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant._types import Floats, Labels


@dataclass(frozen=True)
class LabelledLogits:
    """Checked rows to fit on: what a ``LogitCalibrator`` gets.

    Parameters
    ----------
    logits : array of shape (rows, classes)
        Logits in float64: finite, or -inf for masked classes.
    labels : array of shape (rows,)
        Class indices, of classes that are not masked.
    weight : array of shape (rows,)
        Weights above 0.
    """

    logits: Floats
    labels: Labels
    weight: Floats

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.logits.shape[1])
