"""One column of scores and events, recalibrated by isotonic regression (CORP)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.data.weights import copy_squares, row_counts
from calibrant.metrics._outcomes import Outcomes


class IsotonicColumn(NamedTuple):
    """Distinct scores, and the weights and events of the rows at each."""

    chance: Floats
    weight: Floats
    events: Floats
    squares: Floats  # sums of squared weights
    group: NDArray[np.intp]  # the row's place among the scores
    copies: NDArray[np.int64]  # how many rows a row stands for, each of weight ``one``
    one: Floats

    @classmethod
    def of(cls, part: Outcomes) -> IsotonicColumn:
        """The column of the rows that count."""
        part = part.of_rows(part.weight > 0.0)
        chance, group = np.unique(part.score, return_inverse=True)
        weight = np.bincount(group, part.weight).astype(np.float64)
        events = np.bincount(group, part.weight * part.hit).astype(np.float64)
        squares = np.bincount(group, copy_squares(part.weight)).astype(np.float64)
        return cls(chance, weight, events, squares, group, *row_counts(part.weight))

    def drawn(self, rng: np.random.Generator, chance: Floats) -> Floats:
        """Events that come with these chances, one for each distinct score."""
        hits = rng.binomial(self.copies, chance[self.group])
        return np.bincount(self.group, self.one * hits).astype(np.float64)

    def fitted(self, events: Floats) -> Floats:
        """The frequency at each score, by isotonic regression."""
        from scipy.optimize import isotonic_regression  # takes longer to import than all metrics

        return np.asarray(isotonic_regression(events / self.weight, weights=self.weight).x)

    def saved(self, events: Floats) -> float:
        """The squared error, less that of the isotonic fit; equal probabilities stay equal."""
        frequency = events / self.weight
        # The spread of the labels at one probability is in both errors.
        before, after = ((values - frequency) ** 2 for values in (self.chance, self.fitted(events)))
        return float(self.weight @ (before - after))
