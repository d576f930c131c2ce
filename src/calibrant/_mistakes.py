"""Mistakes that arrays of the right shape give away: told, where they would otherwise be silent.

Probabilities given as logits, labels among the scores, labels of other rows. All are looked for on
a few rows, so that looking costs next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray

from calibrant._array_ops import NUMPY
from calibrant._arrays import (
    SUM_TOLERANCE,
    TILE_ELEMENTS,
    as_working_float,
    place_of,
    to_numpy,
)
from calibrant._errors import warn
from calibrant._rows import softmax
from calibrant._types import Array, Floats, InputKind, Labels

FEW = 16  # rows that tell what an array holds


def _some(rows: int, count: int) -> NDArray[np.int64]:
    """So many places among the rows at most, evenly spread."""
    return np.linspace(0, rows - 1, min(rows, count)).astype(np.int64)


def _taken(scores: Array, places: NDArray[np.int64]) -> NDArray[Any]:
    """Some rows of an array of any kind, in main memory."""
    if is_numpy_array(scores):
        return scores[places]
    xp = array_namespace(scores)
    return to_numpy(xp.take(scores, xp.asarray(places, **place_of(scores)), axis=0))


# --- probabilities given as logits ------------------------------------------------------------


def warn_if_probabilities(scores: Array, fitted: bool = False) -> None:
    """Warn when an array given as logits, maybe to a calibrator fitted on such, looks otherwise."""
    if look_like_probabilities(scores):
        remedy = 'If it is, say input="probs"'
        if fitted:
            remedy = 'The calibrator was fitted on logits: give such, or fit it with input="probs"'
        warn(
            "the array given as logits has non-negative rows that sum to 1: it looks like "
            f"probabilities. {remedy}"
        )


def look_like_probabilities(scores: Array) -> bool:
    """Whether some rows are distributions, or many scores of a binary model all lie in (0, 1)."""
    if is_numpy_array(scores) and scores.size:  # most logits are told from their two ends
        first, last = scores.item(0), scores.item(-1)
        if not (0.0 <= first <= 1.0 and 0.0 <= last <= 1.0):
            return False
    rows, classes = scores.shape
    values = _taken(scores, _some(rows, FEW)).astype(np.float64)
    if not (len(values) and values.min() >= 0.0 and values.max() <= 1.0 + SUM_TOLERANCE):
        return False
    if classes == 2 and not values[:, 0].any():  # the logits (0, s) of a binary model
        inside = (values[:, 1] > 0.0) & (values[:, 1] < 1.0)
        return len(values) == FEW and bool(np.sum(inside) >= FEW // 2)
    # a row or two may sum to 1 by chance, and logits that somebody types in are often 0 and 1
    chance = len(values) < 4 and "16" not in str(scores.dtype)
    near = np.abs(values.sum(axis=1) - 1.0) < (1e-5 if chance else SUM_TOLERANCE)
    typed_in = len(values) < FEW // 2 and bool(np.isin(values, (0.0, 1.0)).all())
    return bool(near.all()) and not typed_in


# --- labels among the scores ------------------------------------------------------------------


def refuse_label_column(scores: Array, labels: Labels) -> None:
    """Refuse logits of which one column is the labels, as in a table that was not taken apart.

    Votes, which are 0 and 1, may equal the labels of two classes.
    """
    rows = len(labels)
    if rows < FEW or labels.min() == labels.max():
        return
    places = _some(rows, FEW)
    values = _taken(scores, places)
    for column in np.flatnonzero((values == labels[places][:, None]).all(axis=0)):
        others = np.delete(values, column, axis=1)
        same = bool((to_numpy(scores[:, int(column)]) == labels).all())
        if same and not np.isin(others, (0.0, 1.0)).all():
            raise ValueError(
                f"column {column} of the logits equals the labels in every row: it is no class. "
                f"Leave it out, as in np.delete(logits, {column}, axis=1)"
            )


# --- labels of other rows ---------------------------------------------------------------------


@dataclass(frozen=True)
class Association:
    """How much labels have to do with scores, beside what labels in random order would show.

    Let p be the softmax of a row's scores, y its label and f the shares of the classes among the
    labels. In random order the labels give p_y the mean p . f; were p right, its mean would be
    p . p. Sums over rows add up over batches of them.

    Parameters
    ----------
    rows : int
        The rows looked at.
    agreement : float
        The sum of p_y - p . f.
    variance : float
        Its variance for labels in random order.
    claimed : float
        The sum of p . p - p . f: what the agreement would be, were p right.
    """

    rows: int = 0
    agreement: float = 0.0
    variance: float = 0.0
    claimed: float = 0.0

    @classmethod
    def of(cls, probs: Floats, labels: Labels, share: Floats) -> Association:
        """Of probabilities (rows, classes), their labels and the shares f."""
        expected = probs @ share
        squares = probs * probs
        return cls(
            len(labels),
            float((probs[np.arange(len(labels)), labels] - expected).sum()),
            float(np.maximum(squares @ share - expected**2, 0.0).sum()),
            float((squares.sum(axis=1) - expected).sum()),
        )

    def __add__(self, other: Association) -> Association:
        return Association(
            self.rows + other.rows,
            self.agreement + other.agreement,
            self.variance + other.variance,
            self.claimed + other.claimed,
        )

    @property
    def is_clear(self) -> bool:
        """Whether there is no doubt that labels and scores belong together."""
        return self.agreement > 6.0 * self.variance**0.5

    @property
    def looks_absent(self) -> bool:
        """Whether labels in random order would look like this, and those of a worse model not.

        That is: the agreement is not significant, and even at the upper end of its noise it is
        less than a quarter of what the scores claim. A model that is weak and says so claims
        little; one that claims four times too much agrees with its labels all the same.
        """
        noise = self.variance**0.5
        return self.agreement < 3.0 * noise and self.agreement + 4.0 * noise < self.claimed / 4.0


FIRST_ROWS, MOST_ROWS, MOST_ELEMENTS = 256, 8192, 2**21


def association(
    scores: Array, labels: Labels, weight: Floats | None, kind: InputKind
) -> Association:
    """That of valid scores: of a few rows where these are clear, else of more."""
    used = np.arange(len(labels)) if weight is None else np.flatnonzero(weight > 0.0)
    most = min(len(used), MOST_ROWS, max(1, MOST_ELEMENTS // scores.shape[1]))
    count = min(FIRST_ROWS, most)
    while True:
        found = _of_rows(scores, labels, used[_some(len(used), count)], kind)
        if found.is_clear or count == most:
            return found
        count = min(8 * count, most)


def _of_rows(
    scores: Array, labels: Labels, places: NDArray[np.int64], kind: InputKind
) -> Association:
    """That of some rows, a tile at a time."""
    classes = scores.shape[1]
    share = np.bincount(labels[places], minlength=classes) / len(places)
    step = max(1, TILE_ELEMENTS // classes)
    tiles = (places[start : start + step] for start in range(0, len(places), step))
    parts = (
        Association.of(_probabilities(_taken(scores, tile), kind), labels[tile], share)
        for tile in tiles
    )
    return sum(parts, Association())


def _probabilities(rows: NDArray[Any], kind: InputKind) -> Floats:
    values = as_working_float(rows)
    if kind == "logits":
        with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
            values = softmax(values, 1.0, NUMPY)
    return np.asarray(values, np.float64)


def warn_if_unrelated(found: Association) -> None:
    """Warn when labels and scores look as if they were of different rows."""
    if found.looks_absent:
        warn(
            "the labels look unrelated to the scores: the classes that these favour are right no "
            "more often than by chance. Check that labels and scores are in the same order, and "
            "that the label c is the class of column c"
        )
