"""What a row's weight means: one rule, in one place.

Whole weights count repeated rows: a weight of 2 is the row twice, in every fit, metric and test
(up to 2^53 rows in all: no float counts further).
Other weights only say how much a row matters beside the others: multiplying them all by a number
changes nothing, and n rows with such weights tell as much as Kish's (sum w)^2 / sum w^2 rows of
equal weight. Rows of weight 0 are as good as absent.

Two things cannot follow: a ``CalibrationMeter`` sees its rows in parts, which do not tell whether
all weights are whole, and has Kish's number for all but weights of 1; and the SKCE of blocks pairs
the rows as they are given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats

MOST_ROWS = 2.0**53  # the last number up to which a float64 counts one by one


def are_counts(weight: Floats) -> bool:
    """Whether weights are whole, so that they count repeated rows."""
    return bool(np.array_equal(weight, np.floor(weight)) and weight.sum() <= MOST_ROWS)


def as_counts(weight: Floats) -> Floats:
    """Whole weights as they are; any others scaled to mean 1, so that no unit matters."""
    return weight if are_counts(weight) else np.asarray(weight / weight.mean())


def copies(weight: Floats) -> Floats:
    """How many rows each row stands for: its whole weight, and 1 for other weights."""
    return np.maximum(weight, 1.0) if are_counts(weight) else np.ones(len(weight))


def shares(weight: Floats) -> Floats:
    """Each row's share of the total weight."""
    return np.asarray(weight / weight.sum())


def copy_squares(weight: Floats) -> Floats:
    """What each row adds to the sum of squared weights: of a whole weight w, w copies of 1."""
    return np.asarray(weight * (weight / copies(weight)))


def row_counts(weight: Floats) -> tuple[NDArray[np.int64], Floats]:
    """How many rows each row is drawn as, and the weight of each of them."""
    if are_counts(weight):
        return weight.astype(np.int64), np.ones(len(weight))
    return np.ones(len(weight), np.int64), weight


def effective_rows(weight: Floats, counted: bool | None = None) -> float:
    """How many equally weighted rows tell as much: the sum of whole weights, or Kish's number.

    ``counted`` says whether weights count repeated rows; None takes whole weights for that.
    """
    share = weight / weight.max()
    if are_counts(weight) if counted is None else counted:
        return float(weight.sum())
    return float(share.sum() ** 2 / (share @ share))


def weighted_quantiles(values: Floats, weight: Floats, at: Floats) -> Floats:
    """The smallest values that at least such shares of the weight do not exceed."""
    return np.asarray(np.quantile(values, at, weights=weight, method="inverted_cdf"))


def weighted_mean(values: NDArray[Any], weight: Floats) -> float:
    """The weighted mean of one value per row; a row of weight 0 may be anything, even infinite."""
    counted = weight > 0.0
    values, weight = values[counted], weight[counted]
    with np.errstate(over="ignore"):
        total = weight @ values
    if np.isinf(total):  # too large a sum may still have a mean
        return float(shares(weight) @ values)
    return float(total / weight.sum())
