"""Some of the rows of a stream, drawn so that neither order nor machines matter.

Every row has a key: a hash of its content and of the seed. The reservoir keeps the rows with the
smallest keys, so that the reservoir of all rows is that of the reservoirs of any parts. Copies of a
row (the same scores, label, weight and covariates) have keys of their own: a value with many copies
is thinned, and never kept or dropped as a whole. The order of the rows does not matter. Where
reservoirs are merged, how copies are spread over them may change which of the copies are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.types import Floats, Labels
from calibrant.data.copies import LAST_KEY, Keys, copy_keys, row_keys, stirred
from calibrant.data.rows import Rows

MOST_VALUES = 2**20  # different values whose copies are counted: 16 MB
_ROOM = 1.25  # times the rows that are kept: so many wait before they are sorted out
_SPREAD = 6.0  # standard deviations of the number of keys below a ceiling
_ALL = 2**64


@dataclass(frozen=True)
class Draw:
    """Which rows are kept."""

    max_rows: int  # in all; with ``stratify`` in equal shares for the classes
    seed: int = 0  # another one draws other rows
    stratify: bool = False  # every class is drawn by itself, and its rows weigh as all of it
    ceiling: int = _ALL  # keys from here on are not looked at: see ``ceiling_for``


def ceiling_for(max_rows: int, n_rows: int | None, seed: int) -> Draw:
    """A draw that looks only at keys that can be among the smallest of so many rows.

    Where it turns out to have too few, since rows were left out, it must be repeated without a
    ceiling.
    """
    share = 1.0 if not n_rows else max_rows / n_rows
    share += 0.0 if not n_rows else _SPREAD * np.sqrt(share / n_rows)
    return Draw(max_rows, seed, False, _ALL if share >= 1.0 else int(share * _ALL))


@dataclass(frozen=True)
class _Part:
    """Rows with their keys; where a profile of them is kept, the rows have no scores."""

    keys: Keys
    rows: Rows
    profile: TemperatureProfile | None

    def take(self, index: NDArray[np.intp], weight: Floats) -> _Part:
        """Some of the rows, with other weights."""
        profile = self.profile
        if profile is not None:
            association = profile._association  # of the first rows, whichever are kept
            profile = profile.take(index)
            profile._association = association
        return _Part(self.keys[index], self.rows.take(index).with_weight(weight), profile)


class Reservoir:
    """The rows with the smallest keys so far, and how much there was of every class."""

    def __init__(self, draw: Draw, n_classes: int, salt: int = 0) -> None:
        self.draw = draw
        self._copies = CopyKeys(salt)
        self.class_weight = np.zeros(n_classes)
        self.n_rows = 0
        self._parts: list[_Part] = []
        self._sorted = True
        share = draw.max_rows // n_classes if draw.stratify else draw.max_rows
        self._most = max(1, share)  # of a class, or of all
        self._limits = np.full(
            n_classes if draw.stratify else 1, min(draw.ceiling, _ALL - 1), np.uint64
        )

    def add(self, rows: Rows, profiled: Callable[[Rows], TemperatureProfile] | None = None) -> None:
        """Count rows, and keep those whose keys are small: themselves, or a profile of them."""
        self.n_rows += len(rows)
        self.class_weight += np.bincount(rows.labels, rows.weight, len(self.class_weight))
        keys = self._copies.of(_keys(rows, self.draw.seed))
        limits = self._limits[rows.labels] if self.draw.stratify else self._limits
        chosen = np.flatnonzero((keys <= limits) & (rows.weight > 0.0))
        if not len(chosen):
            return
        kept, profile = rows.with_weight(rows.weight).take(chosen), None
        if profiled is not None:
            profile = profiled(kept)
            kept = kept.with_scores(np.empty((len(kept), 0)))
        self._parts.append(_Part(keys[chosen], kept, profile))
        self._sorted = False
        groups = len(self._limits)
        if sum(len(part.keys) for part in self._parts) > _ROOM * self._most * groups:
            self._sort_out()

    def merge(self, other: Reservoir) -> Reservoir:
        """A new reservoir, of the rows of both."""
        merged = Reservoir(self.draw, len(self.class_weight))
        merged.class_weight = self.class_weight + other.class_weight
        merged.n_rows = self.n_rows + other.n_rows
        merged._parts, merged._sorted = [*self._parts, *other._parts], False
        merged._sort_out()
        return merged

    @property
    def rows(self) -> Rows:
        """The rows that are kept; classes that were drawn by themselves weigh what they had."""
        rows = self._only().rows
        if not self.draw.stratify:
            return rows
        kept = np.bincount(rows.labels, rows.weight, len(self.class_weight))
        factor = np.divide(self.class_weight, kept, out=np.zeros_like(kept), where=kept > 0.0)
        weight: Floats = rows.weight * factor[rows.labels]
        if not np.array_equal(kept, self.class_weight):
            weight = weight * (rows.weight.sum() / weight.sum())  # as many rows as are kept
        return rows.with_weight(weight)

    @property
    def profile(self) -> TemperatureProfile:
        """The profile of the rows that are kept, with their weights."""
        profile = self._only().profile
        assert profile is not None
        return profile._weighted(self.rows.weight)

    @property
    def is_short(self) -> bool:
        """Whether a ceiling has left out rows for which there was room."""
        return self.draw.ceiling < _ALL and len(self) < self.draw.max_rows

    def __len__(self) -> int:
        return len(self._only().keys) if self._parts else 0

    def __getstate__(self) -> dict[str, Any]:
        """A reservoir that travels has seen its rows, and need not count copies any more."""
        return {**vars(self), "_copies": CopyKeys()}

    def _only(self) -> _Part:
        if not self._parts:
            raise ValueError("there are no rows to fit on")
        if not self._sorted:
            self._sort_out()
        return self._parts[0]

    def _sort_out(self) -> None:
        """Sort all rows by their keys, add up rows with the same one, and keep the first ones."""
        if not self._parts:
            return
        joined = self._parts[0]
        if len(self._parts) > 1:
            profiles = [part.profile for part in self._parts if part.profile is not None]
            joined = _Part(
                np.concatenate([part.keys for part in self._parts]),
                Rows.concat([part.rows for part in self._parts]),
                TemperatureProfile.concat(profiles) if profiles else None,
            )
        order = np.argsort(joined.keys, kind="stable")
        first = np.flatnonzero(np.append(True, np.diff(joined.keys[order]) > 0))
        weight = np.add.reduceat(joined.rows.weight[order], first)
        order = order[first]
        if self.draw.stratify:
            kept = _first_of_each(joined.rows.labels[order], self._most)
        else:
            kept = np.arange(min(len(order), self._most))
        part = joined.take(order[kept], weight[kept])
        self._parts, self._sorted = [part], True
        if self.draw.stratify:
            counts = np.bincount(part.rows.labels, minlength=len(self._limits))
            full = counts == self._most
            last = np.zeros_like(self._limits)
            np.maximum.at(last, part.rows.labels, part.keys)
            self._limits[full] = last[full]
        elif len(part.keys) == self._most:
            self._limits[0] = part.keys[-1]


def _first_of_each(labels: Labels, most: int) -> NDArray[np.intp]:
    """The first rows of each class, in order."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(labels[order]) > 0))
    sizes = np.diff(np.append(starts, len(labels)))
    rank = np.arange(len(labels)) - np.repeat(starts, sizes)
    return np.sort(order[rank < most])


def _keys(rows: Rows, seed: int) -> Keys:
    """A key for the content of each row, stirred with a seed: any range of keys holds its share.

    Rows that differ in their weights or covariates are no copies; a weight of 1 adds nothing.
    """
    weight = rows.weight
    keys = row_keys(rows.scores, rows.labels)
    keys = keys + np.where(weight == 1.0, np.uint64(0), stirred(weight.view(np.uint64)))
    for name, column in (rows.covariates or {}).items():
        values = (column.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
        keys = keys + stirred(values ^ np.uint64(crc32(name.encode())))
    return stirred(keys ^ np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


class CopyKeys:
    """Gives every copy of a value its own key: that of the n-th copy depends on n alone.

    The keys of a value's copies are therefore the same in whatever order the rows come. The copies
    so far are counted for a bounded number of values (``most``), those with the smallest keys,
    which are the only ones whose first copy can still be kept. Copies of the other values within
    one batch have keys that depend on the number of that batch. ``salt`` tells copies in one part
    of the rows from those in another, where several machines count for themselves; the key of a
    value's first copy does not depend on it.
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
        order = np.argsort(of_row, kind="stable")
        rank = np.empty(len(order), np.int64)  # how many rows of the same value stand before
        rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
        number = self._before(value, count)[of_row] + rank
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
