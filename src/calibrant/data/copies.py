"""What follows from the content of rows: keys, copies of a value, and an order of the rows.

A value is what rows with the same scores and label have in common, and a key is a number that
depends on the content of a row. Every copy of a value has a key of its own, so that samples and
folds can thin a value with many copies instead of taking or leaving it whole; a whole weight counts
as so many copies.

Sums of the same numbers in another order differ in their last digits. Fits of networks, and fits in
single precision, amplify such differences until they show in the probabilities. So these fits
first put the rows into an order that does not depend on how they were given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrik, ndtri

from calibrant.common.arrays import row_tiles
from calibrant.common.types import Floats
from calibrant.data.weights import are_counts

Keys = NDArray[np.uint64]


def row_keys(values: Floats, labels: NDArray[np.integer]) -> Keys:
    """A number per row, the same for the same values and label, and else hardly ever."""
    rows, columns = values.shape
    factors = np.random.default_rng(0).integers(2**63, size=columns, dtype=np.uint64) * 2 + 1
    keys = np.empty(rows, np.uint64)
    for tile in row_tiles(values):
        bits = (values[tile].astype(np.float64) + 0.0).view(np.uint64)
        bits ^= bits >> np.uint64(32)  # numbers with few digits end in zeros
        keys[tile] = (bits * factors).sum(axis=1, dtype=np.uint64)
    return keys + labels.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


LAST_KEY = np.uint64(2**64 - 1)
LARGE_VARIANCE = 1e3
MOST_COPIES = 4_000_000  # of all values together that are looked at one by one
ALWAYS_COPIES = 16  # of one value, however many values there are


@dataclass(frozen=True)
class Values:
    """The different values among some rows."""

    keys: Keys  # of each value, in increasing order
    first: NDArray[np.intp]  # a row that has the value
    weight: Floats  # of all its copies together
    row: NDArray[np.intp]  # the rows, by value and then by weight
    of_row: NDArray[np.intp]  # the value of each of these rows
    row_weight: Floats  # of each of these rows

    @classmethod
    def of(cls, keys: Keys, weight: Floats) -> Values:
        """Rows with the same key have the same value."""
        row = np.lexsort((weight, keys))
        starts = np.append(True, np.diff(keys[row]) > 0)
        first = np.flatnonzero(starts)
        row_weight = weight[row]
        total = np.add.reduceat(row_weight, first)
        return cls(keys[row[first]], row[first], total, row, np.cumsum(starts) - 1, row_weight)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def many(self) -> NDArray[np.bool_]:
        """Which values have too many copies to look at each of them; a draw stands for that."""
        most = max(ALWAYS_COPIES, MOST_COPIES // len(self))
        return (self.weight > most) & are_counts(self.row_weight)

    def copies(self) -> tuple[NDArray[np.intp], Keys, Floats]:
        """The copies of all values but those with ``many``: value, key and weight of each."""
        if are_counts(self.row_weight):
            number_of = np.where(self.many, 0.0, self.weight).astype(np.intp)
            value = np.repeat(np.arange(len(self)), number_of)
            weight = np.ones(len(value))
            before = np.cumsum(number_of) - number_of
        else:
            value, weight = self.of_row, self.row_weight
            before = np.searchsorted(value, np.arange(len(self)))
        number = np.arange(len(value)) - before[value]
        return value, copy_keys(self.keys[value], number), weight


def uniforms(keys: Keys, number: int) -> Floats:
    """Uniform random numbers, above 0 and below 1, that follow from keys and a number."""
    stir = stirred(keys ^ stirred(np.array([number + 1], np.uint64)))
    return ((stir >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def binomials(keys: Keys, number: int, total: Floats, share: float) -> Floats:
    """Draws of how many of so many copies fall into a share of all."""
    uniform = uniforms(keys, number)
    mean, variance = total * share, total * share * (1.0 - share)
    large = variance > LARGE_VARIANCE  # a normal distribution is as good, and never fails
    counts = np.round(mean + np.sqrt(variance) * ndtri(uniform))
    if not large.all() and 0.0 < share < 1.0:
        exact = np.ceil(bdtrik(uniform[~large], total[~large], share))
        counts[~large] = np.where(np.isfinite(exact), exact, counts[~large])
    return np.asarray(np.clip(counts, 0.0, total))


def copy_keys(keys: Keys, number: NDArray[np.integer], salt: int = 0) -> Keys:
    """The key of each copy of a value; that of the first one, number 0, is the value's own."""
    # Stirred twice: keys of one score with different labels differ by a constant.
    steps = stirred(number.astype(np.uint64) + np.uint64(salt) * np.uint64(2**32))
    return np.where(number == 0, keys, stirred(keys + steps))


def stirred(keys: Keys) -> Keys:
    """Keys whose bits all depend on all of theirs (the finalizer of splitmix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))


# --- an order of the rows ---------------------------------------------------------------------


def canonical_rows(
    values: Floats, labels: NDArray[np.integer], weight: Floats
) -> tuple[NDArray[np.intp], Floats]:
    """The rows in their own order, and their weights.

    They are sorted by the label's value, so that rows at equal distances are a fair sample, and so
    that scores which differ by rounding alone keep their order. The rest of a row decides ties.

    Whole weights count repeated rows, so copies of a row become one row with the sum of their
    weights. Other weights are not added up: they would stand for another number of rows.
    """
    own = values[np.arange(len(labels)), labels]
    order, tied = sorted_with_ties(own)
    keys = row_keys(values[order[tied]], labels[order[tied]])
    inner = np.lexsort((weight[order[tied]], keys, own[order[tied]]))
    order[tied] = order[tied][inner]
    if not are_counts(weight):
        return order, weight[order]
    starts = np.ones(len(order), bool)
    starts[tied] = np.append(True, (np.diff(own[order[tied]]) > 0) | (np.diff(keys[inner]) != 0))
    first = np.flatnonzero(starts)
    return order[first], np.add.reduceat(weight[order], first)


def sorted_with_ties(values: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An order of rising values, and the places in it of values that occur more than once."""
    order = np.argsort(values)
    same = np.diff(values[order]) == 0.0
    return order, np.flatnonzero(np.append(same, False) | np.append(False, same))
