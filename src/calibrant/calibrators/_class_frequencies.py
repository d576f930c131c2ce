"""How often classes occur among the labels: never, or not as often as a fit gives them.

Nothing is learned about a class without a row to fit on. Held-out rows lack such a class as well,
so that cross-validation cannot reveal what a method makes of it. A method that treats all classes
alike needs no change; no method that keeps the predicted class does. Any other is fitted on the
classes that were seen. A class that was not seen gets the probability that temperature scaling
gives it, and the method divides the rest among the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calibrant.calibrators._best_temperature import scaling_start
from calibrant.calibrators._fit_info import FitInfo
from calibrant.common.arrays import to_numpy
from calibrant.common.errors import warn
from calibrant.common.types import Floats
from calibrant.data.rows import Rows
from calibrant.data.weights import copies, shares
from calibrant.formulas import ConstantTemperature, Formula, SeenClasses
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._row_functions import log_softmax

MOST_ROWS = 5_000  # are looked at
FAR = 0.05  # of all probability on the wrong classes, beyond what chance does
LEVEL = 1e-3  # of the test that the difference of a class is no chance
EXPECTED = 5.0  # rows of a class below which its absence is chance
NAMED = 10  # classes that a warning lists

Fitted = tuple[Formula, FitInfo]  # what a method's fit gives


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


def warn_of_unseen(rows: Rows) -> None:
    """Warn of classes without a row of which the logits expect ``EXPECTED`` or more."""
    unseen = np.bincount(rows.labels, rows.weight, rows.n_classes) == 0.0
    if unseen.sum() == len(unseen) - 1:
        warn(
            f"all rows have class {rows.labels[0]}, which leaves nothing to learn but a "
            "temperature: check the labels, and whether the rows were sorted by class"
        )
        return
    some = _some(rows)
    if not unseen.any() or not some.weight.any():
        return
    with np.errstate(over="ignore"):
        share = shares(some.weight) @ np.exp(log_softmax(some.logits, 1.0, NUMPY))
    missing = np.flatnonzero(unseen & (share * rows.effective_rows >= EXPECTED))
    if not len(missing):
        return
    named = ", ".join(map(str, missing[:NAMED])) + (", .." if len(missing) > NAMED else "")
    it, these = ("it", "this class") if len(missing) == 1 else ("them", "these classes")
    warn(
        f"no row has class {named}, although the scores expect {it} in "
        f"{100.0 * share[missing].sum():.3g}% of the {round(copies(rows.weight).sum())} rows. "
        f"Nothing is learned about {it}: only a temperature changes the probability. Add rows of "
        f"{these} if new data will have some"
    )


def warn_if_shares_are_off(formula: Formula, rows: Rows) -> None:
    """Warn where classes get another mean probability than their share among the labels.

    Only of formulas that keep the arg max: the others have an intercept of their own. A class is
    off where its sum of probabilities differs from its count by more than chance, at a level for
    all classes together; far off is, beside that, a matter of size.
    """
    rows = _some(rows)
    if not (formula.keeps_arg_max and rows.weight.any()):
        return
    logits = rows.with_scores(to_numpy(rows.scores), rows.input).as_logits()
    with np.errstate(over="ignore"):
        found = formula.probabilities(rows.for_formula(formula, logits), NUMPY)
    probs = np.asarray(found, np.float64)
    share = shares(rows.weight)
    counted = np.bincount(rows.labels, share, minlength=probs.shape[1])
    seen = counted > 0.0  # classes without rows are warned of elsewhere
    probs = np.where(seen, probs, 0.0)
    probs /= np.maximum(probs.sum(axis=1, keepdims=True), 1e-300)
    mean = share @ probs
    spread = np.sqrt(share**2 @ (probs * (1.0 - probs)))  # of `counted`, were `probs` right
    difference = mean - counted
    by_chance = np.sqrt(2.0 / np.pi) * spread.sum()
    if 0.5 * (np.abs(difference).sum() - by_chance) <= FAR:
        return
    worst = int(np.argmax(np.abs(difference) / np.maximum(spread, 1e-12)))
    limit = -ndtri(0.5 * LEVEL / probs.shape[1])
    if abs(difference[worst]) <= limit * spread[worst]:
        return
    remedy = "'platt' or 'auto'" if probs.shape[1] == 2 else "'svs', 'spts' or 'auto'"
    warn(
        f"class {worst} has the mean probability {mean[worst]:.3g} after the fit, but the share "
        f"{counted[worst]:.3g} of the labels: a method that keeps the arg max cannot repair a "
        f"wrong prior, as of a model with class weights. The method {remedy} can"
    )


def _some(rows: Rows) -> Rows:
    """At most ``MOST_ROWS`` rows, evenly spread."""
    return rows[:: max(1, -(-len(rows) // MOST_ROWS))]
