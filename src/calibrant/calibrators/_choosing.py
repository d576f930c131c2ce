"""Choosing among candidates by the losses of left-out rows, with patience for the simpler one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.arrays import TILE_ELEMENTS
from calibrant.common.types import Floats
from calibrant.data.rows import Rows
from calibrant.data.weights import copies, shares
from calibrant.formulas import Formula
from calibrant.formulas._array_operations import NUMPY

MOST_FOREGONE = 0.1  # nats per row: patience with the scores as they are ends there
WORST = 1e100  # what a loss beyond all floats counts as: losses are subtracted and squared


def simplest_of_the_best(
    names: Sequence[str], left_out: Sequence[Floats], weight: Floats, patience: float
) -> tuple[int, list[dict[str, Any]]]:
    """The first candidate about as good as the best one, and the path as a table.

    ``left_out`` holds, for every candidate, the simplest first, the loss of each row had it not
    been fitted on. A candidate is as good as the best one where its mean loss is within
    ``patience`` standard errors of the difference: the best of several is often the luckiest.
    Scores that are not calibrated at all ("base") may lose ``MOST_FOREGONE`` by it: where a few
    rows are sure and wrong, the standard error is as large as the loss, and no proof of anything.
    """
    share = shares(weight)
    scores = [float(share @ losses) for losses in left_out]
    best = int(np.argmin(scores))
    errors = [error_of_difference(losses, left_out[best], weight) for losses in left_out]
    chosen = next(
        at
        for at, (score, error) in enumerate(zip(scores, errors, strict=True))
        if at == best or score - scores[best] <= _tolerance(names[at], patience * error)
    )
    columns = ("candidate", "left_out_loss", "error_of_difference")
    rows = zip(names, scores, errors, strict=True)
    return chosen, [dict(zip(columns, row, strict=True)) for row in rows]


def _tolerance(name: str, patience: float) -> float:
    return min(patience, MOST_FOREGONE) if name == "base" else patience


def error_of_difference(one: Floats, other: Floats, weight: Floats) -> float:
    """The standard error of the mean difference of two losses on the same rows."""
    share = shares(weight)
    difference = one - other
    mean = share @ difference
    return float(np.sqrt(share * (share / copies(weight)) @ (difference - mean) ** 2))


def left_out_nll(
    fit: Callable[[NDArray[np.intp]], Formula],
    data: Rows,
    folds: Sequence[NDArray[np.intp]],
) -> Floats:
    """The NLL of each row under fits on the other folds, whose rows ``fit`` is given."""
    result = np.empty(len(data.labels))
    for fold in folds:
        kept = np.setdiff1d(np.arange(len(result)), fold)
        formula = fit(kept)
        result[fold] = row_nll(formula, data.take(fold))
    return result


def row_nll(formula: Formula | None, data: Rows) -> Floats:
    """The NLL of each row under a formula, or of the softmax of the logits as they are."""
    parts = []
    for _, tile in data.tiles(TILE_ELEMENTS):
        logits = tile.logits
        with np.errstate(over="ignore"):
            if formula is None:
                gaps = logits - logits.max(axis=1, keepdims=True)
                logs = gaps - np.log(np.exp(gaps).sum(axis=1, keepdims=True))
            else:
                logs = formula.log_probabilities(tile.for_formula(formula, logits), NUMPY)
        parts.append(-logs[np.arange(len(logs)), tile.labels])
    return np.minimum(np.concatenate(parts), WORST)
