"""Accuracy and the proper scores: each row first, then the weighted mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import Array, RowRule, like, row_sums
from calibrant.metrics._door import Floats, Labelled, labelled, take_class


def accuracy(
    probs: Any, labels: Any, *, sample_weight: Any = None, rows: RowRule = "strict"
) -> float:
    """The share of rows whose largest probability (the first of ties) is the true class'.

    >>> accuracy([[0.8, 0.2], [0.6, 0.4]], [0, 1])
    0.5
    """
    data = labelled(probs, labels, sample_weight, rows)
    return data.mean(data.top()[1])


def nll(probs: Any, labels: Any, *, sample_weight: Any = None, rows: RowRule = "strict") -> float:
    """The mean of minus the log-probability of the true class; inf where one is 0.

    >>> round(nll([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
    0.4904
    """
    data = labelled(probs, labels, sample_weight, rows)
    return data.mean(nll_rows(data))


def brier(probs: Any, labels: Any, *, sample_weight: Any = None, rows: RowRule = "strict") -> float:
    """The mean squared distance to the one-hot label, summed over the classes (0 to 2).

    >>> brier([[0.5, 0.5], [0.0, 1.0]], [0, 1])
    0.25
    """
    data = labelled(probs, labels, sample_weight, rows)
    return data.mean(brier_rows(data))


def nll_per_row(probs: Any, labels: Any, *, rows: RowRule = "strict") -> Array:
    """Minus the log-probability of the true class of each row, in the array kind of ``probs``."""
    data = labelled(probs, labels, rows=rows)
    return like(nll_rows(data), data.probs)


def brier_per_row(probs: Any, labels: Any, *, rows: RowRule = "strict") -> Array:
    """The squared distance of each row to its one-hot label, in the array kind of ``probs``."""
    data = labelled(probs, labels, rows=rows)
    return like(brier_rows(data), data.probs)


def calibration_gain(
    base_probs: Any,
    probs: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> float:
    """How much a calibrator lowers the Brier score: brier(base) - brier(calibrated).

    A map that loses no information leaves the refinement part of the score alone, so this is the
    drop of the squared calibration error over all classes. Higher is better.

    >>> round(calibration_gain([[0.9, 0.1]], [[0.8, 0.2]], [1]), 2)
    0.34
    """
    options: dict[str, Any] = {"sample_weight": sample_weight, "rows": rows}
    return brier(base_probs, labels, **options) - brier(probs, labels, **options)


def nll_rows(data: Labelled) -> Floats:
    """Minus the log-probability of the true class, a row."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(data.true_class()))


def brier_rows(data: Labelled) -> Floats:
    """The squared distance to the one-hot label, a row."""

    def distance(tile: Array, labels: NDArray[np.int64]) -> Array:
        return row_sums(tile * tile) - 2.0 * take_class(tile, labels) + 1.0

    return data.by_tile(distance)
