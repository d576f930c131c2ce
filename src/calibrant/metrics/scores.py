"""Accuracy and the proper scores: each row first, then the weighted mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant._arrays import to_numpy
from calibrant.metrics._door import Labelled, labelled


def accuracy(probs: Any, labels: Any, *, sample_weight: Any = None) -> float:
    """The share of rows whose largest probability (the first of ties) is the true class'.

    >>> accuracy([[0.8, 0.2], [0.6, 0.4]], [0, 1])
    0.5
    """
    data = labelled(probs, labels, sample_weight)
    return data.mean(data.top()[1])


def nll(probs: Any, labels: Any, *, sample_weight: Any = None) -> float:
    """The mean of minus the log-probability of the true class; inf where one is 0.

    >>> round(nll([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
    0.4904
    """
    data = labelled(probs, labels, sample_weight)
    return data.mean(nll_rows(data))


def brier(probs: Any, labels: Any, *, sample_weight: Any = None) -> float:
    """The mean squared distance to the one-hot label, summed over the classes (0 to 2).

    >>> brier([[0.5, 0.5], [0.0, 1.0]], [0, 1])
    0.25
    """
    data = labelled(probs, labels, sample_weight)
    return data.mean(brier_rows(data))


def nll_rows(data: Labelled) -> NDArray[np.float64]:
    """Minus the log-probability of the true class, a row."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(data.true_class()))


def brier_rows(data: Labelled) -> NDArray[np.float64]:
    """The squared distance to the one-hot label, a row."""
    xp = array_namespace(data.probs)
    squares = to_numpy(xp.sum(data.probs * data.probs, axis=1)).astype(np.float64)
    return np.asarray(squares - 2.0 * data.true_class() + 1.0)
