"""Probabilities of exactly 0 and 1: how much of the uniform distribution is mixed in before a fit.

A probability of 0 has no logarithm, and a model that says 0 or 1 and is wrong has an infinite loss.
Mixing, p -> (1 - a) p + a / C, keeps the order of the classes and makes no ties; clipping would
make ties and could change the predicted class. The share a is the one under which temperature
scaling has the lowest cross-validated log loss. The best share of richer methods is close to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._best_temperature import best_temperature, scaled_profile
from calibrant.calibrators._choosing import (
    held_out_nll,
    sample_of_logits,
    sampled,
    simplest_of_the_best,
)
from calibrant.common.arrays import DEVICE_TILE_ELEMENTS, row_tiles, to_numpy
from calibrant.common.types import Array, Floats
from calibrant.data.folds import Folds, folds_of
from calibrant.data.rows import Rows
from calibrant.formulas import ConstantTemperature
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._row_functions import log_odds

PATIENCE = 0.5  # standard errors by which less mixing may be worse, unless a zero was wrong
SHARES = (1e-6, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.35)


def has_zeros(probs: Array) -> bool:
    """Whether some class has no probability at all in some row."""
    return any(bool((probs[tile] <= 0.0).any()) for tile in row_tiles(probs, DEVICE_TILE_ELEMENTS))


def mixed(probs: Array, share: float) -> Array:
    """Probabilities with a share of the uniform distribution."""
    return (1.0 - share) * probs + share / probs.shape[1]


def uniform_share(rows: Rows) -> float:
    """The share to mix in; 0 (no mixing) is a candidate unless a true class has probability 0."""
    probs = to_numpy(rows.scores).astype(np.float64).clip(0.0, 1.0)
    rows = rows.with_scores(probs, "probs")
    wrong = bool((probs[np.arange(len(rows)), rows.labels] <= 0.0).any())
    rows = sampled(rows, sample_of_logits(rows))
    folds = folds_of(rows)
    rows = folds.rows(rows)
    shares = SHARES if wrong else (0.0, *SHARES)
    if not folds.parts:
        return shares[0]
    losses = [_held_out(rows, folds, share) for share in shares]
    # Zeros that were never wrong may be right, and one of them must not change a fit for nothing.
    patience, names = 0.0 if wrong else PATIENCE, [str(share) for share in shares]
    return shares[simplest_of_the_best(names, losses, rows.weight, patience)[0]]


def _held_out(probs: Rows, folds: Folds, share: float) -> Floats:
    """The cross-validated log loss of each row after mixing and temperature scaling."""
    data = probs.with_scores(log_odds(mixed(probs.scores, share), NUMPY))
    profile = scaled_profile(data)

    def scaling(kept: NDArray[np.intp]) -> ConstantTemperature:
        return ConstantTemperature(best_temperature(profile.take(kept)).temperature)

    return held_out_nll(scaling, data, folds.parts)
