"""How much each of several methods counts in their average, from the losses of held-out rows.

With mean held-out losses l_k of n rows, the weight of method k is proportional to
a_k exp(-n (l_k - min l) / 2), a_k being its prior weight: the posterior probability of the method
if half the rows counted, since held-out losses of few rows are too noisy to count in full. With few
rows the methods share the weight; with many rows the best method has all of it. The average never
loses more than -log w per row to a method of weight w, so the prior weight of the scores as they
are limits the harm.

``docs/auto-study.md`` has the measurements behind the rule and its two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.data.weights import copies, effective_rows, shares
from calibrant.formulas.pool import MOST_MEMBERS

RATE = 0.5  # of the rows count
UNCALIBRATED = "base"
PRIOR_OF_UNCALIBRATED = 2.0  # the prior weight of the scores as they are; other methods have 1
NEGLIGIBLE = 0.02  # smaller weights are dropped ..
TOLERANCE = 5e-4  # .. and so are members that change the held-out loss by less, in nats
DRAWS, HALVINGS = 50, 40  # of the bootstrap, and of rows cut into two halves
SMALLEST = 1e-300  # of a likelihood, whose logarithm is taken
MOST_TERMS = 4_000_000  # that the draws compute at once

Draw = Callable[[np.random.Generator, Floats], NDArray[Any]]  # how often each row is drawn


@dataclass(frozen=True)
class Judged:
    """The held-out losses of several methods, one row of ``losses`` for each of them."""

    names: Sequence[str]
    losses: Floats  # (methods, rows)
    weight: Floats  # of the rows
    group: NDArray[np.intp] | None = None  # of each row, where rows depend on each other

    def weights(self, mean: Floats, rows: float) -> Floats:
        """The weights of the methods (.., methods) from their mean losses (.., methods)."""
        prior = [PRIOR_OF_UNCALIBRATED if n == UNCALIBRATED else 1.0 for n in self.names]
        log_weight = np.log(prior) - RATE * rows * (mean - mean.min(axis=-1, keepdims=True))
        weights = np.exp(log_weight - log_weight.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    @property
    def rows(self) -> float:
        """How many independent rows of equal weight tell as much."""
        rows = effective_rows(self.weight)
        if self.group is None:
            return rows
        of_group = np.bincount(self.group, self.weight)
        return min(rows, float(of_group.sum() ** 2 / (of_group @ of_group)))

    @property
    def means(self) -> Floats:
        """The mean loss of each method."""
        return np.asarray(self.losses @ shares(self.weight))

    def pooled(self, weights: Floats) -> Floats:
        """The loss of each row under averages of the methods with weights (.., methods)."""
        lowest, likelihoods = self._likelihoods
        return np.asarray(lowest - np.log(np.maximum(weights @ likelihoods, SMALLEST)))

    @cached_property
    def _likelihoods(self) -> tuple[Floats, Floats]:
        """The lowest loss of each row, and how likely its label is in relation to that."""
        lowest = self.losses.min(axis=0)
        return lowest, np.exp(lowest - self.losses)

    def chosen(self) -> Floats:
        """The weights; 0 for methods that the average does without."""
        weights, share = self.weights(self.means, self.rows), shares(self.weight)
        smallest = max(NEGLIGIBLE, np.sort(weights)[-MOST_MEMBERS:][0])
        weights = _renormalised(np.where(weights < smallest, 0.0, weights))
        full = float(share @ self.pooled(weights))
        for least in np.argsort(weights, kind="stable"):
            fewer = weights.copy()
            fewer[least] = 0.0
            if weights[least] == 0.0 or not fewer.any():
                continue
            fewer = _renormalised(fewer)
            if abs(float(share @ self.pooled(fewer)) - full) <= TOLERANCE:
                weights = fewer
        return weights

    def error(self, losses: Floats) -> float:
        """The standard error of the mean of one loss per row."""
        share = shares(self.weight)
        spread = share * (losses - share @ losses)
        if self.group is not None:
            return float(np.linalg.norm(np.bincount(self.group, spread)))
        return float(np.sqrt(np.sum(spread**2 / copies(self.weight))))

    def optimism(self) -> float:
        """By how much the held-out loss of the average is too low, because it chose the weights.

        By the bootstrap: weights are chosen on drawn rows, and their loss on these rows is compared
        with that on all rows, beside the same for weights that no draw chose. No method is fitted
        again.
        """
        own = self.pooled(self.weights(self.means, self.rows))
        drawn = self._drawn(lambda rng, number: rng.poisson(number), DRAWS)
        share, total = shares(self.weight), 0.0
        for some in np.array_split(drawn, -(-drawn.size // MOST_TERMS)):
            of_draw = some / some.sum(axis=1, keepdims=True)
            weights = self.weights(of_draw @ self.losses.T, self.rows)
            losses = self.pooled(weights) - own
            total += float((losses @ share - np.vecdot(of_draw, losses)).sum())
        return total / len(drawn)

    def agreement(self) -> float:
        """In which share of random halvings of the rows both halves prefer the same method."""
        half = self._drawn(lambda rng, number: rng.binomial(number.astype(np.int64), 0.5), HALVINGS)
        best = [
            self.weights(_means(part, self.losses), 0.5 * self.rows).argmax(axis=1)
            for part in (half, np.maximum(self.weight - half, 0.0))
        ]
        return float((best[0] == best[1]).mean())

    def _drawn(self, draw: Draw, count: int) -> Floats:
        """Weights of the rows (draws, rows): each copy of a row drawn by itself, or each group."""
        rng, number = np.random.default_rng(0), copies(self.weight)
        if self.group is None:
            drawn = np.stack([draw(rng, number) for _ in range(count)]) * (self.weight / number)
        else:
            each = np.ones(self.group.max() + 1)
            drawn = np.stack([draw(rng, each)[self.group] for _ in range(count)]) * self.weight
        return np.asarray(np.where(drawn.any(axis=1, keepdims=True), drawn, self.weight))


def _means(weight: Floats, losses: Floats) -> Floats:
    return np.asarray(weight @ losses.T / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300))


def _renormalised(weights: Floats) -> Floats:
    return np.asarray(weights / weights.sum())
