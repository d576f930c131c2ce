"""Keys for the copies of a value in a stream, so that each is kept or dropped by itself."""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from calibrant.data.copies import LAST_KEY, Keys, copy_keys

MOST_VALUES = 2**20  # different values whose copies are counted: 16 MB


class CopyKeys:
    """Gives every copy of a value its own key: that of the n-th copy depends on n alone.

    The keys of a value's copies are therefore the same in whatever order the rows come. The copies
    so far are counted for a bounded number of values, those with the smallest keys, which are the
    only ones whose first copy can still be kept. Copies of the other values within one batch have
    keys that depend on the number of that batch.

    Parameters
    ----------
    salt : int, default 0
        What tells copies in one part of the rows from those in another, where several machines
        count for themselves. The key of a value's first copy does not depend on it.
    most : int, default 2**20
        For how many values copies are counted.
    """

    def __init__(self, salt: int = 0, most: int = MOST_VALUES) -> None:
        self.salt, self.most = salt, most
        self._last = LAST_KEY  # copies of values with larger keys are not counted
        self._batches = 0
        self._values = np.empty(0, np.uint64)
        self._counts = np.empty(0, np.int64)

    def of(self, keys: Keys) -> Keys:
        """The keys of the rows of a batch, given the keys of their values."""
        value, of_row, count = np.unique(keys, return_inverse=True, return_counts=True)
        number = self._before(value, count)[of_row] + _rank(of_row, count)
        found = copy_keys(keys, number, self.salt)
        uncounted = ((value > self._last) & (count > 1))[of_row]
        if uncounted.any():
            batch = crc32(f"{self.salt}:{self._batches}".encode())
            found[uncounted] = copy_keys(keys[uncounted], number[uncounted] + 1, batch)
        self._batches += 1
        return found

    def _before(self, value: Keys, count: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many copies of each value came before this batch, which is then counted as well."""
        at = np.searchsorted(self._values, value)
        known = np.zeros(len(value), bool)
        inside = at < len(self._values)
        known[inside] = self._values[at[inside]] == value[inside]
        before = np.zeros(len(value), np.int64)
        before[known] = self._counts[at[known]]
        self._counts[at[known]] += count[known]
        new = ~known & (value <= self._last)
        self._values = np.insert(self._values, at[new], value[new])[: self.most]
        self._counts = np.insert(self._counts, at[new], count[new])[: self.most]
        if len(self._values) == self.most:
            self._last = self._values[-1]
        return before


def _rank(of_row: NDArray[np.intp], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row, how many rows of the same value stand before it."""
    order = np.argsort(of_row, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    return rank
