"""What the one-vs-all methods share: each class' probabilities in, a distribution out."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import row_tiles
from calibrant._numerics import log_softmax, softmax
from calibrant._progress import Report
from calibrant.calibrators._base import LogitCalibrator
from calibrant.profile import available_cores

Floats = NDArray[np.float64]
Fitted = TypeVar("Fitted")

TIE_BREAK = 1e-9  # the share of the plain probability that Zhang et al. add to break ties


class ColumnCalibrator(LogitCalibrator):
    """A map of each class' own probability, one function a class.

    ``normalize=True`` adds 1e-9 p to the mapped values, which breaks ties and keeps logarithms
    finite, and divides by the row sum; ``normalize=False`` gives the authors' raw values.
    """

    accuracy_preserving = False
    _host_only = True
    #: True where the authors' raw values hold the 1e-9 p already.
    _raw_breaks_ties: ClassVar[bool] = False

    normalize: bool

    @property
    def _temperature(self) -> float:
        """The temperature of the probabilities that are mapped."""
        return 1.0

    def _map_columns(self, probs: Floats) -> Floats:
        """The mapped values (rows, classes) of probabilities (rows, classes)."""
        raise NotImplementedError

    def _probabilities(self, logits: NDArray[Any]) -> NDArray[Any]:
        values, total = self._values(logits)
        return (values / total).astype(logits.dtype)

    def _log_probabilities(self, logits: NDArray[Any]) -> NDArray[Any]:
        """Where a value underflows, only its 1e-9 p is left, whose logarithm is known."""
        values, total = self._values(logits)
        with np.errstate(divide="ignore"):
            logs = np.log(values)
        if self._breaks_ties:
            floor = np.log(TIE_BREAK) + log_softmax(logits.astype(np.float64), self._temperature)
            logs = np.where(values > 0.0, logs, floor)
        return (logs - np.log(total)).astype(logits.dtype)

    @property
    def _breaks_ties(self) -> bool:
        return self.normalize or self._raw_breaks_ties

    def _values(self, logits: NDArray[Any]) -> tuple[Floats, Floats | float]:
        """The mapped values, 0 for masked classes, and what to divide each row by."""
        probs = softmax(logits.astype(np.float64), self._temperature)
        values = self._map_columns(probs)
        if self._breaks_ties:
            values += TIE_BREAK * probs
        values[np.isneginf(logits)] = 0.0
        return values, values.sum(axis=1, keepdims=True) if self.normalize else 1.0


@dataclass(frozen=True)
class Column:
    """One class against all others: its probabilities, whether it was the label, weights."""

    score: Floats
    hit: NDArray[np.bool_]
    weight: Floats


@dataclass(frozen=True)
class ClassColumns:
    """Labelled probabilities, class by class. Rows of weight 0 and masked entries are left out."""

    probs: Floats  # (classes, rows)
    masked: NDArray[np.bool_] | None  # (classes, rows)
    labels: NDArray[np.int64]
    weight: Floats

    @classmethod
    def from_logits(
        cls,
        logits: Floats,
        labels: NDArray[np.int64],
        weight: Floats,
        temperature: float = 1.0,
    ) -> ClassColumns:
        used = weight > 0.0
        if not used.all():
            logits, labels, weight = logits[used], labels[used], weight[used]
        masked = np.isneginf(logits)
        return cls(
            _softmax_columns(logits, temperature),
            np.ascontiguousarray(masked.T) if masked.any() else None,
            labels,
            as_counts(weight),
        )

    def __len__(self) -> int:
        return len(self.probs)

    def column(self, index: int) -> Column:
        score, hit = self.probs[index], self.labels == index
        if self.masked is None or not self.masked[index].any():
            return Column(score, hit, self.weight)
        seen = ~self.masked[index]
        return Column(score[seen], hit[seen], self.weight[seen])

    def fit_each(self, fit: Callable[[Column], Fitted], report: Report) -> list[Fitted]:
        """One fit a class, on threads."""
        results = []
        with ThreadPoolExecutor(available_cores()) as pool:
            for fitted in pool.map(lambda index: fit(self.column(index)), range(len(self))):
                results.append(fitted)
                report(len(results), len(self))
        return results

    @property
    def absent(self) -> NDArray[np.bool_]:
        """The classes that no label names."""
        return np.asarray(np.bincount(self.labels, minlength=len(self)) == 0)


def as_counts(weight: Floats) -> Floats:
    """Whole weights count repeated rows; any others are scaled to mean 1, so no unit matters."""
    if np.array_equal(weight, np.floor(weight)):
        return weight
    return np.asarray(weight / weight.mean())


def _softmax_columns(logits: Floats, temperature: float) -> Floats:
    """softmax(z / T), transposed: a class' probabilities lie side by side."""
    result = np.empty(logits.shape[::-1])

    def fill(rows: slice) -> None:
        result[:, rows] = softmax(logits[rows], temperature).T

    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(fill, row_tiles(logits)))
    return result
