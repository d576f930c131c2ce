"""What the one-vs-all methods are fitted on: labelled probabilities or log-odds, class by class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.common.arrays import row_tiles
from calibrant.common.progress import reporter
from calibrant.common.threads import available_cores, mapping
from calibrant.common.types import Floats, Progress
from calibrant.data.rows import Rows
from calibrant.data.weights import as_counts, weighted_mean
from calibrant.formulas import _curves, _serialization
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._row_functions import class_log_odds, softmax

Outcome = TypeVar("Outcome")

FEW = 50_000  # scores: the fits of so few are over before threads have started
SMALLEST = 1e-25  # smaller log-odds are 0: their slopes would leave the range of floats
TIE_BREAK = 1e-9  # the share of the plain probability that Zhang et al. add to break ties
TIED = 1e-9  # of a probability, and of what it lacks to 1: closer ones are equal
CERTAIN = 1.0 - 1e-9  # the largest top confidence given: the logarithms of the others stay finite


@dataclass(frozen=True)
class Column:
    """One class against all others: its score in each row, whether it was the label, weights."""

    score: Floats  # a probability or log-odds
    hit: NDArray[np.bool_]
    weight: Floats

    @classmethod
    def of_top_label(cls, data: Rows) -> Column:
        """The probability of each row's (first) arg max."""
        top = data.logits.argmax(axis=1)
        confidence = 1.0 / np.exp(NUMPY.gaps(data.logits)).sum(axis=1)
        return cls(confidence, data.labels == top, as_counts(data.weight))

    @classmethod
    def of_second_class(cls, data: Rows) -> Column:
        """The log-odds z_1 - z_0 of the rows in which no class is masked; maybe of no rows."""
        used = np.isfinite(data.logits).all(axis=1)
        largest = _serialization.LARGEST  # as the formulas do
        bounded = np.clip(data.logits[used], -largest, largest)
        score = bounded[:, 1] - bounded[:, 0]
        score = np.where(np.abs(score) < SMALLEST, 0.0, score)
        weight = data.weight[used]
        return cls(score, data.labels[used] == 1, as_counts(weight) if len(weight) else weight)

    def __len__(self) -> int:
        return len(self.score)

    @property
    def target(self) -> Floats:
        """1 for hits and 0 for the others."""
        return self.hit.astype(np.float64)

    @property
    def platts_target(self) -> Floats:
        """(n1 + 1) / (n1 + 2) for the n1 hits and 1 / (n0 + 2) for the n0 others (Platt 1999)."""
        ones, zeros = (float(self.weight[rows].sum()) for rows in (self.hit, ~self.hit))
        return np.where(self.hit, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))

    def mean_nll(self, log_odds: Floats) -> float:
        """The mean NLL of log-odds for these rows."""
        losses = np.logaddexp(0.0, np.where(self.hit, -log_odds, log_odds))
        return weighted_mean(losses, self.weight)


@dataclass(frozen=True)
class ClassColumns:
    """Labelled rows, class by class; masked entries are left out."""

    rows: Rows  # their weights are counts, or have mean 1
    scores: Floats  # (classes, rows): probabilities or log-odds
    masked: NDArray[np.bool_] | None  # (classes, rows)

    @classmethod
    def of_probabilities(cls, data: Rows, temperature: float = 1.0) -> ClassColumns:
        """The columns of softmax(z / T)."""
        masked = np.asarray(np.isneginf(data.logits))
        return cls._of(data, masked, lambda tile: softmax(tile, temperature, NUMPY))

    @classmethod
    def of_log_odds(cls, data: Rows) -> ClassColumns:
        """The log-odds of each class against all others, where it has others."""
        finite, end = np.isfinite(data.logits), _curves.LARGEST
        masked = ~finite | (finite.sum(axis=1, keepdims=True) < 2)
        return cls._of(data, masked, lambda tile: np.clip(class_log_odds(tile, NUMPY), -end, end))

    @classmethod
    def _of(
        cls, data: Rows, masked: NDArray[np.bool_], function: Callable[[Floats], Floats]
    ) -> ClassColumns:
        """The columns of a function of logits: a class' values lie side by side."""
        scores = np.empty(data.logits.shape[::-1])

        def fill(rows: slice) -> None:
            with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
                scores[:, rows] = function(data.logits[rows]).T

        tiles = row_tiles(data.logits)
        with mapping(min(available_cores(), len(tiles))) as on_threads:
            list(on_threads(fill, tiles))
        by_class = np.ascontiguousarray(masked.T) if masked.any() else None
        return cls(data.with_weight(as_counts(data.weight)), scores, by_class)

    def __len__(self) -> int:
        return len(self.scores)

    def column(self, index: int) -> Column:
        """One class."""
        score, hit, weight = self.scores[index], self.rows.labels == index, self.rows.weight
        if self.masked is None or not self.masked[index].any():
            return Column(score, hit, weight)
        seen = ~self.masked[index]
        return Column(score[seen], hit[seen], weight[seen])

    def fit_each(
        self, fit: Callable[[Column], Outcome], title: str, progress: Progress
    ) -> list[Outcome]:
        """One fit per class, on threads."""
        results = []
        threads = available_cores() if self.scores.size > FEW else 1
        with reporter(f"fitting {title}", progress) as report, mapping(threads) as on_threads:
            for fitted in on_threads(lambda index: fit(self.column(index)), range(len(self))):
                results.append(fitted)
                report(len(results), len(self))
        return results

    @property
    def absent_classes(self) -> int:
        """How many classes no label names."""
        return int((np.bincount(self.rows.labels, minlength=len(self)) == 0).sum())


def tie_width(probs: Floats) -> Floats:
    """How far apart equal probabilities may be by rounding, near 0 and near 1 as well."""
    return np.asarray(TIED * probs * (1.0 - probs))


def grouped_sums(group: NDArray[np.intp], values: Floats) -> Floats:
    """The sum of the values of each group, the groups being numbered from 0."""
    return np.asarray(np.bincount(group, values), np.float64)
