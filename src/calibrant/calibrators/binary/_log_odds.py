"""What the methods for two classes are fitted on: one log-odds per row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.data.rows import Rows
from calibrant.data.weights import as_counts, weighted_mean
from calibrant.formulas._serialization import LARGEST

SMALLEST = 1e-25  # smaller scores are 0: their slopes would leave the range of floats


@dataclass(frozen=True)
class LogOdds:
    """Finite log-odds s = z_1 - z_0, whether the label is class 1, weights; maybe no rows."""

    score: Floats
    hit: NDArray[np.bool_]
    weight: Floats

    @classmethod
    def of(cls, data: Rows) -> LogOdds:
        """Those of the rows with two finite logits: a masked class says nothing."""
        used = np.isfinite(data.logits).all(axis=1)
        bounded = np.clip(data.logits[used], -LARGEST, LARGEST)  # as the formulas do
        score = bounded[:, 1] - bounded[:, 0]
        score = np.where(np.abs(score) < SMALLEST, 0.0, score)
        weight = data.weight[used]
        return cls(score, data.labels[used] == 1, as_counts(weight) if len(weight) else weight)

    def mean_loss(self, score: Floats) -> float:
        """The mean NLL of log-odds for these rows."""
        losses = np.logaddexp(0.0, np.where(self.hit, -score, score))
        return weighted_mean(losses, self.weight)
