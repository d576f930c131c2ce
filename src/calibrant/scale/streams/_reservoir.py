"""Some of the rows of a stream, drawn so that neither order nor machines matter.

Every row has a key: a hash of its content and of the seed. The reservoir keeps the rows with the
smallest keys, so that the reservoir of all rows is that of the reservoirs of any parts. Copies of a
row (the same scores, label and weight) have keys of their own: a value with many copies is thinned,
and never kept or dropped as a whole. The order of the rows does not matter. Where reservoirs are
merged, how copies are spread over them may change which of the copies are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.types import Floats, Labels
from calibrant.data.copies import Keys, row_keys, stirred
from calibrant.scale.streams._copies import CopyKeys

_ROOM = 1.25  # times the rows that are kept: so many wait before they are sorted out
_SPREAD = 6.0  # standard deviations of the number of keys below a ceiling
_ALL = 2**64


class Rows(Protocol):
    """What is kept of rows: logits, or a profile of them."""

    def __len__(self) -> int: ...
    def taken(self, index: NDArray[np.intp]) -> Self:
        """Some of them."""

    def joined(self, others: list[Self]) -> Self:
        """These, and others behind them."""


R = TypeVar("R", bound=Rows)


@dataclass(frozen=True)
class ScoreRows:
    """The scores themselves."""

    scores: NDArray[Any]

    def __len__(self) -> int:
        return len(self.scores)

    def taken(self, index: NDArray[np.intp]) -> ScoreRows:
        return ScoreRows(self.scores[index])

    def joined(self, others: list[ScoreRows]) -> ScoreRows:
        return ScoreRows(np.concatenate([self.scores, *(other.scores for other in others)]))


@dataclass(frozen=True)
class ProfileRows:
    """Rows of a profile, a few hundred bytes each however many classes there are."""

    profile: TemperatureProfile

    def __len__(self) -> int:
        return len(self.profile)

    def taken(self, index: NDArray[np.intp]) -> ProfileRows:
        part = self.profile.take(index)
        part._association = self.profile._association  # of the first rows, whichever are kept
        return ProfileRows(part)

    def joined(self, others: list[ProfileRows]) -> ProfileRows:
        parts = [self.profile, *(other.profile for other in others)]
        return ProfileRows(TemperatureProfile.concat(parts))


@dataclass(frozen=True)
class Draw:
    """Which rows are kept.

    Parameters
    ----------
    max_rows : int
        How many, in all; with ``stratify`` in equal shares for the classes.
    seed : int
        Another one draws other rows.
    stratify : bool
        Whether every class is drawn by itself, and its rows weigh as all of it.
    ceiling : int
        Keys from here on are not looked at: see ``ceiling_for``.
    """

    max_rows: int
    seed: int = 0
    stratify: bool = False
    ceiling: int = _ALL


def ceiling_for(max_rows: int, n_rows: int | None, seed: int) -> Draw:
    """A draw that looks only at keys that can be among the smallest of so many rows.

    Where it turns out to have too few, since rows were left out, it must be repeated without a
    ceiling.
    """
    share = 1.0 if not n_rows else max_rows / n_rows
    share += 0.0 if not n_rows else _SPREAD * np.sqrt(share / n_rows)
    return Draw(max_rows, seed, False, _ALL if share >= 1.0 else int(share * _ALL))


@dataclass(frozen=True)
class _Waiting(Generic[R]):
    keys: Keys
    labels: Labels
    weight: Floats
    rows: R


class Reservoir(Generic[R]):
    """The rows with the smallest keys so far, and how much there was of every class."""

    def __init__(self, draw: Draw, n_classes: int, salt: int = 0) -> None:
        self.draw = draw
        self._copies = CopyKeys(salt)
        self.class_weight = np.zeros(n_classes)
        self.n_rows = 0
        self._parts: list[_Waiting[R]] = []
        self._sorted = True
        share = draw.max_rows // n_classes if draw.stratify else draw.max_rows
        self._most = max(1, share)  # of a class, or of all
        self._limits = np.full(
            n_classes if draw.stratify else 1, min(draw.ceiling, _ALL - 1), np.uint64
        )

    # --- rows in ---

    def chosen(self, scores: NDArray[Any], labels: Labels, weight: Floats) -> NDArray[np.intp]:
        """Which rows of a batch might be kept; it counts all of them. ``add`` must follow."""
        self.n_rows += len(labels)
        self.class_weight += np.bincount(labels, weight, len(self.class_weight))
        values = _seeded(row_keys(scores, labels) + _weight_keys(weight), self.draw.seed)
        self._keys = self._copies.of(values)
        return np.flatnonzero((self._keys <= self._limit_of(labels)) & (weight > 0.0))

    def add(self, chosen: NDArray[np.intp], labels: Labels, weight: Floats, rows: R | None) -> None:
        """Keep the chosen rows of the batch; ``rows`` is what is kept of them."""
        if rows is None or not len(chosen):
            return
        part = _Waiting(self._keys[chosen], labels[chosen], weight[chosen], rows)
        self._parts.append(part)
        self._sorted = False
        groups = len(self._limits)
        if sum(len(part.keys) for part in self._parts) > _ROOM * self._most * groups:
            self._sort_out()

    def merge(self, other: Reservoir[R]) -> Reservoir[R]:
        """A new reservoir, of the rows of both."""
        merged: Reservoir[R] = Reservoir(self.draw, len(self.class_weight))
        merged.class_weight = self.class_weight + other.class_weight
        merged.n_rows = self.n_rows + other.n_rows
        merged._parts, merged._sorted = [*self._parts, *other._parts], False
        merged._sort_out()
        return merged

    # --- rows out ---

    @property
    def labels(self) -> Labels:
        """The labels of the rows that are kept."""
        return self._only().labels

    @property
    def rows(self) -> R:
        """The rows that are kept."""
        return self._only().rows

    @property
    def weight(self) -> Floats:
        """Their weights; classes that were drawn by themselves weigh what they had."""
        part = self._only()
        if not self.draw.stratify:
            return part.weight
        kept = np.bincount(part.labels, part.weight, len(self.class_weight))
        factor = np.divide(self.class_weight, kept, out=np.zeros_like(kept), where=kept > 0.0)
        weight: Floats = part.weight * factor[part.labels]
        if np.array_equal(kept, self.class_weight):
            return weight
        return weight * (part.weight.sum() / weight.sum())  # as many rows as there are, not seen

    @property
    def is_short(self) -> bool:
        """Whether a ceiling has left out rows for which there was room."""
        return self.draw.ceiling < _ALL and len(self) < self.draw.max_rows

    def __len__(self) -> int:
        return len(self._only().keys) if self._parts else 0

    # --- inside ---

    def __getstate__(self) -> dict[str, Any]:
        """A reservoir that travels has seen its rows, and need not count copies any more."""
        return {**vars(self), "_copies": CopyKeys()}

    def _only(self) -> _Waiting[R]:
        if not self._parts:
            raise ValueError("there are no rows to fit on")
        if not self._sorted:
            self._sort_out()
        return self._parts[0]

    def _limit_of(self, labels: Labels) -> Keys:
        return self._limits[labels] if self.draw.stratify else self._limits

    def _sort_out(self) -> None:
        """Sort all rows by their keys, add up rows with the same one, and keep the first ones."""
        if not self._parts:
            return
        keys, labels, weight = (
            np.concatenate([getattr(part, name) for part in self._parts])
            for name in ("keys", "labels", "weight")
        )
        order = np.argsort(keys, kind="stable")
        first = np.flatnonzero(np.append(True, np.diff(keys[order]) > 0))
        weight = np.add.reduceat(weight[order], first)
        order = order[first]
        kept = _first_of_each(labels[order] if self.draw.stratify else None, self._most, len(order))
        order, weight = order[kept], weight[kept]
        head, *tail = (part.rows for part in self._parts)
        rows = (head.joined(tail) if tail else head).taken(order)
        self._parts = [_Waiting(keys[order], labels[order], weight, rows)]
        self._sorted = True
        self._lower_limits()

    def _lower_limits(self) -> None:
        part = self._parts[0]
        if not self.draw.stratify:
            if len(part.keys) == self._most:
                self._limits[0] = part.keys[-1]
            return
        counts = np.bincount(part.labels, minlength=len(self._limits))
        full = counts == self._most
        last = np.zeros_like(self._limits)
        np.maximum.at(last, part.labels, part.keys)
        self._limits[full] = last[full]


def _first_of_each(labels: Labels | None, most: int, rows: int) -> NDArray[np.intp]:
    """The first rows of all, or of each class, in order."""
    if labels is None:
        return np.arange(min(rows, most))
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(labels[order]) > 0))
    sizes = np.diff(np.append(starts, rows))
    rank = np.arange(rows) - np.repeat(starts, sizes)
    return np.sort(order[rank < most])


def _seeded(keys: Keys, seed: int) -> Keys:
    """The keys stirred with a seed: any range of them holds its share."""
    return stirred(keys ^ np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def _weight_keys(weight: Floats) -> Keys:
    """A number per weight, 0 for 1: rows of different weights are no copies."""
    return np.where(weight == 1.0, np.uint64(0), stirred(weight.view(np.uint64)))
