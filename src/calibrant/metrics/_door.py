"""Probabilities and labels on their way into a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant._arrays import (
    Array,
    as_labels,
    as_scores,
    as_weights,
    as_working_float,
    check_probabilities,
    to_numpy,
)


@dataclass(frozen=True)
class Labelled:
    """Valid probabilities on their device; labels and weights in main memory."""

    probs: Array
    labels: NDArray[np.int64]
    weight: NDArray[np.float64]

    def mean(self, rows: NDArray[Any]) -> float:
        """The weighted mean of one value a row; a row of weight 0 may be anything."""
        counted = self.weight > 0.0
        return float((self.weight[counted] @ rows[counted]) / self.weight.sum())

    def true_class(self) -> NDArray[np.float64]:
        """The probability of the true class, a row."""
        xp = array_namespace(self.probs)
        index = xp.asarray(self.labels[:, None], device=self.probs.device)
        return to_numpy(xp.take_along_axis(self.probs, index, axis=1)[:, 0]).astype(np.float64)

    def top(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The largest probability, a row, and whether its class (the first of ties) is right."""
        xp = array_namespace(self.probs)
        confidence = to_numpy(xp.max(self.probs, axis=1)).astype(np.float64)
        return confidence, to_numpy(xp.argmax(self.probs, axis=1)) == self.labels


def labelled(probs: Any, labels: Any, sample_weight: Any = None) -> Labelled:
    """Check once, at the door."""
    array = as_working_float(as_scores(probs, "probs"))
    check_probabilities(array)
    rows, classes = array.shape
    return Labelled(array, as_labels(labels, rows, classes), as_weights(sample_weight, rows))
