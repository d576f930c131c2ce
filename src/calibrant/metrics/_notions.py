"""What "calibrated" may mean, and the scores and outcomes that each meaning compares.

| notion | calibrated means |
|---|---|
| "confidence" | of the rows whose largest probability is c, a share c is right |
| "top-label" | the same of the rows that predict the same class |
| "class-1" | of the rows that give class 1 of two the probability p, a share p is of it |
| "classwise" | the same of every class |
| "canonical" | of the rows with the probabilities q, the classes have the shares q |

Canonical calibration implies all others; with two classes it is that of class 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import to_numpy
from calibrant._binning import BinStats, Scheme
from calibrant._types import Floats
from calibrant.metrics._labelled import Labelled

ScoreNotion = Literal["confidence", "class-1", "classwise"]
Notion = Literal["confidence", "top-label", "class-1", "classwise", "canonical"]


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


def score_notion(data: Labelled, asked: str | None) -> ScoreNotion:
    """The notion that was asked for; by default class 1's of two, and else the confidence's."""
    if asked is None:
        return "class-1" if data.n_classes == 2 else "confidence"
    if asked == "class-1":
        check_two_classes(data)
        return "class-1"
    if asked == "confidence":
        return "confidence"
    if asked == "classwise":
        return "classwise"
    rule = 'notion must be "confidence", "class-1" or "classwise"'
    raise ValueError(f"{rule}, got {asked!r}")


def check_two_classes(data: Labelled) -> None:
    """Refuse what asks for class 1 of more than two."""
    if data.n_classes != 2:
        raise ValueError(f"class 1 of two is asked for, but there are {data.n_classes} classes")


def outcomes_of(data: Labelled, notion: ScoreNotion) -> Iterator[Outcomes]:
    """What a notion compares: one pair of columns, or one for every class."""
    if notion == "confidence":
        confidence, correct = data.top_label
        yield Outcomes(np.clip(confidence, 0.0, 1.0), correct, data.weight)
        return
    for index in [1] if notion == "class-1" else range(data.n_classes):
        yield class_outcomes(data, index)


def class_outcomes(data: Labelled, index: int) -> Outcomes:
    """The probability of a class, and whether a row is of it."""
    score = to_numpy(data.probs[:, index]).astype(np.float64)
    return Outcomes(np.clip(score, 0.0, 1.0), data.labels == index, data.weight)
