"""What a formula reads of some rows, in the arrays of whatever computes it."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.common.types import Array


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
