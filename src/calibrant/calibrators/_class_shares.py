"""A fit that cannot give the classes their frequencies is told so."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from calibrant.common.errors import warn
from calibrant.data.rows import Rows
from calibrant.data.weights import shares
from calibrant.formulas import Formula
from calibrant.formulas._array_operations import NUMPY

MOST_ROWS = 5_000  # are looked at
FAR = 0.05  # of all probability on the wrong classes, beyond what chance does
LEVEL = 1e-3  # of the test that the difference of a class is no chance


def warn_if_shares_are_off(formula: Formula, rows: Rows) -> None:
    """Warn where classes get another mean probability than their share among the labels.

    Only of formulas that keep the arg max: the others have an intercept of their own. A class is
    off where its sum of probabilities differs from its count by more than chance, at a level for
    all classes together; far off is, beside that, a matter of size.
    """
    if not (formula.keeps_arg_max and rows.weight.any()):
        return
    with np.errstate(over="ignore"):
        probs = np.asarray(
            formula.probabilities(rows.for_formula(formula, rows.logits), NUMPY), np.float64
        )
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
    if abs(difference[worst]) > limit * spread[worst]:
        warn(_message(worst, mean[worst], counted[worst], probs.shape[1]))


def _message(worst: int, mean: float, counted: float, classes: int) -> str:
    remedy = "'platt' or 'auto'" if classes == 2 else "'svs', 'spts' or 'auto'"
    return (
        f"class {worst} has the mean probability {mean:.3g} after the fit, but the share "
        f"{counted:.3g} of the labels: a method that keeps the arg max cannot repair a wrong "
        f"prior, as of a model with class weights. The method {remedy} can"
    )


def some_rows(rows: int) -> slice:
    """At most ``MOST_ROWS`` rows, evenly spread."""
    return slice(None, None, max(1, -(-rows // MOST_ROWS)))
