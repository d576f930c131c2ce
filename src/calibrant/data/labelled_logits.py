"""The rows that a method is fitted on."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.common.types import Floats, Labels
from calibrant.data.row_order import canonical_rows


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

    def in_canonical_order(self) -> LabelledLogits:
        """The rows in an order of their own; copies of a row are one row with their weight.

        Returns
        -------
        LabelledLogits
            Rows that do not depend on the order in which these were given.
        """
        index, weight = canonical_rows(self.logits, self.labels, self.weight)
        return LabelledLogits(self.logits[index], self.labels[index], weight)
