"""Folds for cross-validation: which rows are held out together.

Every copy of a value (the same scores and label) has a key of its own. The copies are sorted by
their keys and cut into folds of about equal weight, which is a random split that depends on the
content of the rows and not on their order. Copies must not share a fold: with few different scores
a fold would hold out all correct answers at a score and train on all wrong ones. Nor may they be
dealt evenly over the folds: every fold would repeat the frequencies of the others, and the held-out
loss would be the training loss.

A whole weight counts as so many copies, which may lie in several folds. Such a row is split: it
takes part in every fold with the weight of the copies there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.data.copies import Values, binomials, row_keys, stirred
from calibrant.data.weights import copies

if TYPE_CHECKING:
    from calibrant.data.rows import Rows

LARGE = 2_000_000  # logits from which on two folds must do
FEWEST_PER_FOLD = 5
MOST_COPIES = 1_000_000  # that are dealt one by one


@dataclass(frozen=True)
class Folds:
    """Rows that lie in one fold each, and the folds."""

    index: NDArray[np.intp] | None  # which given row each of them is; None where no row is split
    weight: Floats  # of each of them
    parts: list[NDArray[np.intp]]  # for each fold, which of them it holds out

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """What the rows have of something that is given per row."""
        return values if self.index is None else values[self.index]

    def rows(self, data: Rows) -> Rows:
        """The rows themselves."""
        return data if self.index is None else data.take(self.index).with_weight(self.weight)


def folds_of(data: Rows, most: int | None = None, by_place: bool = False) -> Folds:
    """Split rows into at most so many folds; by default five, or two where five take too long.

    ``by_place`` splits by the places of the rows and not by their content, for rows that are in
    their canonical order: scores that differ by rounding alone then have the same folds.
    """
    count = most or (5 if data.scores.size <= LARGE else 2)
    if data.groups is None:
        count = min(count, max(2, int(data.effective_rows) // FEWEST_PER_FOLD))
        copied = copies(data.weight)
        if by_place and copied.sum() <= MOST_COPIES:
            return _by_place(data.weight, copied.astype(np.int64), count)
        values = Values.of(row_keys(data.scores, data.labels), data.weight)
        value, key, weight = values.copies()
    else:  # groups in random order, none of which is divided
        names, value = np.unique(np.asarray(data.groups), return_inverse=True)
        if len(names) < 2:
            raise ValueError("cross-validation needs rows of at least two groups, got one group")
        count = min(count, len(names))
        weight = np.asarray(np.bincount(value, data.weight), np.float64)
        key = stirred(np.arange(len(names), dtype=np.uint64))
    order = np.argsort(key, kind="stable")
    middle = np.cumsum(weight[order]) - 0.5 * weight[order]
    fold = np.empty(len(key), np.intp)
    fold[order] = np.minimum(count * middle / weight.sum(), count - 1).astype(np.intp)
    if data.groups is not None:
        return Folds(None, data.weight, _parts(fold[value], count))
    if len(value) == len(values.row):  # every row is one copy: rows and copies are in one order
        of_row = np.empty(len(fold), np.intp)
        of_row[values.row] = fold
        return Folds(None, data.weight, _parts(of_row, count))
    held_out = np.zeros((len(values), count))
    np.add.at(held_out, (value, fold), weight)
    many = values.many
    left = values.weight[many]
    for number in range(count - 1):
        held_out[many, number] = binomials(values.keys[many], number, left, 1 / (count - number))
        left = left - held_out[many, number]
    held_out[many, count - 1] = left
    split, fold = np.nonzero(held_out)
    return Folds(values.first[split], held_out[split, fold], _parts(fold, count))


def _by_place(weight: Floats, number: NDArray[np.int64], count: int) -> Folds:
    """Folds of the copies of rows, by their places among all copies."""
    row, share = np.repeat(np.arange(len(number)), number), weight / number
    order = np.argsort(stirred(np.arange(len(row), dtype=np.uint64)), kind="stable")
    fold = np.empty(len(row), np.intp)
    fold[order] = count * np.arange(len(row)) // len(row)
    if len(row) == len(number):
        return Folds(None, weight, _parts(fold, count))
    held_out = np.zeros((len(number), count))
    np.add.at(held_out, (row, fold), share[row])
    split, fold = np.nonzero(held_out)
    return Folds(split, held_out[split, fold], _parts(fold, count))


def _parts(fold: NDArray[np.intp], count: int) -> list[NDArray[np.intp]]:
    """The rows of each fold that has some and leaves some."""
    parts = [np.flatnonzero(fold == number) for number in range(count)]
    return [part for part in parts if 0 < len(part) < len(fold)]
