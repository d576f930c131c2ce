"""Classes without a row to fit on: nothing is learned about them.

Held-out rows lack such a class as well, so that cross-validation cannot reveal what a method makes
of it. A method that treats all classes alike needs no change; every method that keeps the predicted
class does. Any other is fitted on the classes that were seen. A class that was not seen gets the
probability that temperature scaling gives it, and the method divides the rest among the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._best_temperature import scaling_start
from calibrant.calibrators._fit_info import FitInfo
from calibrant.common.errors import warn
from calibrant.common.types import Floats
from calibrant.data.rows import Rows
from calibrant.data.weights import copies, shares
from calibrant.formulas import ConstantTemperature, Formula, SeenClasses
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._row_functions import log_softmax

EXPECTED = 5.0  # rows of a class below which its absence is chance
NAMED = 10  # classes that a warning lists

Fitted = tuple[Formula, FitInfo]


@dataclass(frozen=True)
class SeenPart:
    """The columns and labels of the classes that were seen, and one temperature for all classes."""

    seen: NDArray[np.intp]
    data: Rows
    temperature: float
    all_classes: Rows

    @classmethod
    def of(cls, data: Rows) -> SeenPart | None:
        """The part; None where all classes were seen."""
        seen, labels = np.unique(data.labels, return_inverse=True)
        if len(seen) == data.n_classes:
            return None
        start = scaling_start(data, prior_rows="auto")
        columns = np.ascontiguousarray(data.logits[:, seen])
        part = replace(data, scores=columns, labels=labels.astype(np.int64), classes=None)
        return cls(seen, part, start.temperature, data)

    def fitted(self, formula: Formula, info: FitInfo) -> Fitted:
        """The formula for all classes, and the report that names those without rows."""
        unseen = np.setdiff1d(np.arange(self.all_classes.n_classes), self.seen)
        details = {**info.details, "unseen_classes": unseen.tolist()}
        whole = SeenClasses.of(self.all_classes.n_classes, self.seen, self.temperature, formula)
        return whole, replace(info, details=details)

    @property
    def loss_beside(self) -> Floats:
        """What the log loss of each row has beside that among the classes that were seen."""
        logs = log_softmax(self.all_classes.logits, self.temperature, NUMPY)[:, self.seen]
        return -np.log(np.exp(logs).sum(axis=1))


def fit_seen(fit: Callable[[Rows], Fitted], data: Rows) -> Fitted:
    """Fit on the classes that have rows; with a single one, all that is left is a temperature."""
    part = SeenPart.of(data)
    if part is None:
        return fit(data)
    if len(part.seen) == 1:
        return ConstantTemperature(part.temperature), FitInfo(True, "temperature scaling")
    return part.fitted(*fit(part.data))


def warn_of_unseen(rows: Rows, some: Rows) -> None:
    """Warn of classes without a row of which ``some`` rows' scores expect ``EXPECTED`` or more."""
    unseen = np.bincount(rows.labels, rows.weight, rows.n_classes) == 0.0
    if unseen.sum() == len(unseen) - 1:
        warn(
            f"all rows have class {rows.labels[0]}, which leaves nothing to learn but a "
            "temperature: check the labels, and whether the rows were sorted by class"
        )
        return
    if not unseen.any() or not some.weight.any():
        return
    with np.errstate(over="ignore"):
        share = shares(some.weight) @ np.exp(log_softmax(some.logits, 1.0, NUMPY))
    missing = np.flatnonzero(unseen & (share * rows.effective_rows >= EXPECTED))
    if len(missing):
        warn(_message(missing, share[missing], round(copies(rows.weight).sum())))


def _message(missing: NDArray[np.intp], share: Floats, rows: int) -> str:
    named = ", ".join(map(str, missing[:NAMED])) + (", .." if len(missing) > NAMED else "")
    one = len(missing) == 1
    return (
        f"no row has class {named}, although the scores expect "
        f"{'it' if one else 'them'} in {100.0 * share.sum():.3g}% of the {rows} rows. Nothing is "
        f"learned about {'it' if one else 'them'}: only a temperature changes the probability. Add "
        f"rows of {'this class' if one else 'these classes'} if new data will have some"
    )
