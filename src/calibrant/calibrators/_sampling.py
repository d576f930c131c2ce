"""A sample of many rows, on which penalties and methods are chosen.

A few ten thousand rows decide as well as all of them. Which rows are in the sample depends on their
content and not on their places, so that the order of the rows does not matter. Rows with the same
scores and label are copies of one value. Each copy has a key of its own, so that a value with many
copies is thinned, and never kept or dropped as a whole; a whole weight counts as so many copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrik, ndtri

from calibrant._types import Floats
from calibrant._weights import are_counts
from calibrant.calibrators._labelled_logits import LabelledLogits
from calibrant.calibrators._row_order import Keys, row_keys
from calibrant.profile import TemperatureProfile

SAMPLE_ROWS = 20_000


@dataclass(frozen=True)
class Sample:
    """Rows with different values, each with the weight of its copies in the sample."""

    index: NDArray[np.intp]
    weight: Floats


def sampled(data: LabelledLogits, sample: Sample | None) -> LabelledLogits:
    """The rows of a sample; all of them where there is none."""
    if sample is None:
        return data
    return LabelledLogits(data.logits[sample.index], data.labels[sample.index], sample.weight)


def sampled_values(values: Floats, sample: Sample | None) -> Floats:
    """What the rows of a sample have of something that is given per row."""
    return values if sample is None else values[sample.index]


def sampled_profile(profile: TemperatureProfile, sample: Sample | None) -> TemperatureProfile:
    """The rows of a sample in a profile; all of them where there is none."""
    return profile if sample is None else profile.take(sample.index)._weighted(sample.weight)


def sample_of_logits(data: LabelledLogits, times: int = 1) -> Sample | None:
    """The sample of labelled logits; None where there are so few rows that all of them serve.

    One of so many ``times`` the usual size begins with the usual one.
    """
    most = times * SAMPLE_ROWS
    few = len(data.labels) <= most
    return None if few else _sample(row_keys(data.logits, data.labels), data.weight, most)


def sample_of_profile(profile: TemperatureProfile) -> Sample | None:
    """The sample of a profile's rows, told apart by their largest logits and their labels'."""
    if len(profile) <= SAMPLE_ROWS:
        return None
    seen = np.column_stack([profile.top_logits(), profile.label_gap])
    return _sample(row_keys(seen, profile.finite_classes), profile.weight, SAMPLE_ROWS)


def _sample(keys: Keys, weight: Floats, most: int) -> Sample:
    """The copies with the smallest keys, of so many different values; few values stay whole."""
    values = Values.of(keys, weight)
    if len(values) <= most:
        return Sample(values.first, values.weight)
    value, key, copy_weight = values.copies()
    smallest = np.ones(len(values))
    np.minimum.at(smallest, value, key / 2.0**64)
    many, total = values.many, values.weight[values.many]
    uniform = uniforms(values.keys[many], 0)
    smallest[many] = -np.expm1(np.log1p(-uniform) / total)  # as of so many uniform keys
    limit = np.partition(smallest, most - 1)[most - 1]
    kept = key / 2.0**64 <= limit
    weights: Floats = np.bincount(value[kept], copy_weight[kept], len(values)).astype(np.float64)
    some = np.maximum(binomials(values.keys[many], 1, total, limit), 1.0)
    weights[many] = np.where(smallest[many] <= limit, some, 0.0)
    index = np.flatnonzero(weights)
    return Sample(values.first[index], weights[index])


LAST_KEY = np.uint64(2**64 - 1)
LARGE_VARIANCE = 1e3
MOST_COPIES = 4_000_000  # of all values together that are looked at one by one
ALWAYS_COPIES = 16  # of one value, however many values there are


@dataclass(frozen=True)
class Values:
    """The different values among some rows.

    Parameters
    ----------
    keys : array of shape (values,)
        The key of each value, in increasing order.
    first : array of shape (values,)
        A row that has the value.
    weight : array of shape (values,)
        The weight of all its copies together.
    row : array of shape (rows,)
        The rows, by value and then by weight.
    of_row : array of shape (rows,)
        The value of each of these rows.
    row_weight : array of shape (rows,)
        The weight of each of these rows.
    """

    keys: Keys
    first: NDArray[np.intp]
    weight: Floats
    row: NDArray[np.intp]
    of_row: NDArray[np.intp]
    row_weight: Floats

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
    def counted(self) -> bool:
        """Whether weights are numbers of copies."""
        return are_counts(self.row_weight)

    @property
    def many(self) -> NDArray[np.bool_]:
        """Which values have too many copies to look at each of them; a draw stands for that."""
        most = max(ALWAYS_COPIES, MOST_COPIES // len(self))
        return self.weight > most if self.counted else np.zeros(len(self), bool)

    def copies(self) -> tuple[NDArray[np.intp], Keys, Floats]:
        """The copies of all values but those with ``many``: value, key and weight of each."""
        if self.counted:
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
