"""What the one-vs-all methods are fitted on: labelled probabilities or log-odds, class by class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.common.arrays import row_tiles
from calibrant.common.threads import available_cores, mapping
from calibrant.common.types import Floats, Labels, Report
from calibrant.data.rows import Rows
from calibrant.data.weights import as_counts
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._curves import LARGEST
from calibrant.formulas._row_functions import class_log_odds, softmax

Outcome = TypeVar("Outcome")

FEW = 50_000  # scores: the fits of so few are over before threads have started
TIE_BREAK = 1e-9  # the share of the plain probability that Zhang et al. add to break ties
TIED = 1e-9  # of a probability, and of what it lacks to 1: closer ones are equal
CERTAIN = 1.0 - 1e-9  # the largest top confidence given: the logarithms of the others stay finite


@dataclass(frozen=True)
class Column:
    """One class against all others: its scores, whether it was the label, weights."""

    score: Floats
    hit: NDArray[np.bool_]
    weight: Floats


@dataclass(frozen=True)
class ClassColumns:
    """Labelled scores, class by class; masked entries are left out."""

    scores: Floats  # (classes, rows): probabilities or log-odds
    masked: NDArray[np.bool_] | None  # (classes, rows)
    labels: Labels
    weight: Floats

    @classmethod
    def from_logits(cls, data: Rows, temperature: float = 1.0) -> ClassColumns:
        """The columns of softmax(z / T)."""
        masked = np.isneginf(data.logits)
        return cls(
            _by_class(data.logits, lambda tile: softmax(tile, temperature, NUMPY)),
            np.ascontiguousarray(masked.T) if masked.any() else None,
            data.labels,
            as_counts(data.weight),
        )

    @classmethod
    def of_log_odds(cls, data: Rows) -> ClassColumns:
        """The log-odds of each class against all others, where it has others."""
        finite = np.isfinite(data.logits)
        unusable = ~finite | (finite.sum(axis=1, keepdims=True) < 2)
        return cls(
            np.clip(_by_class(data.logits, _log_odds_of_tile), -LARGEST, LARGEST),
            np.ascontiguousarray(unusable.T) if unusable.any() else None,
            data.labels,
            as_counts(data.weight),
        )

    def __len__(self) -> int:
        return len(self.scores)

    def column(self, index: int) -> Column:
        """One class."""
        score, hit = self.scores[index], self.labels == index
        if self.masked is None or not self.masked[index].any():
            return Column(score, hit, self.weight)
        seen = ~self.masked[index]
        return Column(score[seen], hit[seen], self.weight[seen])

    def fit_each(self, fit: Callable[[Column], Outcome], report: Report) -> list[Outcome]:
        """One fit per class, on threads."""
        results = []
        threads = available_cores() if self.scores.size > FEW else 1
        with mapping(threads) as on_threads:
            for fitted in on_threads(lambda index: fit(self.column(index)), range(len(self))):
                results.append(fitted)
                report(len(results), len(self))
        return results

    @property
    def absent_classes(self) -> int:
        """How many classes no label names."""
        return int((np.bincount(self.labels, minlength=len(self)) == 0).sum())


def tie_width(probs: Floats) -> Floats:
    """How far apart equal probabilities may be by rounding, near 0 and near 1 as well."""
    return np.asarray(TIED * probs * (1.0 - probs))


def grouped_sums(group: NDArray[np.intp], values: Floats) -> Floats:
    """The sum of the values of each group, the groups being numbered from 0."""
    return np.asarray(np.bincount(group, values), np.float64)


def top_column(data: Rows) -> Column:
    """The (first) arg max against all others: its probability, whether it was the label."""
    top = data.logits.argmax(axis=1)
    confidence = 1.0 / np.exp(NUMPY.gaps(data.logits)).sum(axis=1)
    return Column(confidence, data.labels == top, as_counts(data.weight))


def _log_odds_of_tile(logits: Floats) -> Floats:
    with np.errstate(over="ignore"):  # a gap too large for its float
        return np.asarray(class_log_odds(logits, NUMPY), np.float64)


def _by_class(logits: Floats, function: Callable[[Floats], Floats]) -> Floats:
    """A function of rows, transposed: a class' values lie side by side."""
    result = np.empty(logits.shape[::-1])

    def fill(rows: slice) -> None:
        with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
            result[:, rows] = function(logits[rows]).T

    tiles = row_tiles(logits)
    with mapping(min(available_cores(), len(tiles))) as on_threads:
        list(on_threads(fill, tiles))
    return result
