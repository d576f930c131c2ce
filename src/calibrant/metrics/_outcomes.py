"""The scores that a notion of calibration judges, and the events that they promise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.data.binning import BinStats, Scheme
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._notions import ScoreNotion


class Outcomes(NamedTuple):
    """Scores in [0, 1], each the promised chance of an event, and whether the event came."""

    score: Floats
    hit: NDArray[np.bool_]
    weight: Floats

    def of_rows(self, rows: NDArray[np.bool_]) -> Outcomes:
        """Those of some rows."""
        return Outcomes(self.score[rows], self.hit[rows], self.weight[rows])

    def bins(self, n_bins: int, scheme: Scheme = "equal-mass") -> BinStats:
        """The scores and events in bins."""
        return BinStats.from_confidence(self.score, self.hit, n_bins, self.weight, scheme=scheme)


def outcomes_of(data: Labelled, notion: ScoreNotion) -> Iterator[Outcomes]:
    """What a notion compares: one pair of columns, or one for every class."""
    if notion == "confidence":
        confidence, correct = data.top_label
        yield Outcomes(np.clip(confidence, 0.0, 1.0), correct, data.weight)
        return
    for index in [1] if notion == "class-1" else range(data.n_classes):
        yield class_outcomes(data, index)


def judged_outcomes(data: Labelled) -> Outcomes:
    """What the rows' own notion compares."""
    (part,) = outcomes_of(data, data.notion)
    return part


def class_outcomes(data: Labelled, index: int) -> Outcomes:
    """The probability of a class, and whether a row is of it."""
    return Outcomes(*data.one_class(index), data.weight)
