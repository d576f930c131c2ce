"""Mistakes that arrays of the right shape give away: told, where they would otherwise be silent.

Probabilities given as logits, labels among the scores, labels of other rows. All are looked for on
a few rows, so that looking costs next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import add

import numpy as np

from calibrant.common.arrays import TILE_ELEMENTS, as_working_float, to_numpy
from calibrant.common.errors import warn
from calibrant.common.types import Array, Labels
from calibrant.data.checks import SUM_TOLERANCE
from calibrant.data.rows import Rows
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._row_functions import softmax

FEW = 16  # rows that tell what an array holds
LIKE_PROBABILITIES = (
    "the array given as logits has non-negative rows that sum to 1: it looks like probabilities"
)


# --- probabilities given as logits ------------------------------------------------------------


def warn_if_probabilities(scores: Array, fitted: bool = False) -> None:
    """Warn when an array given as logits, maybe to a calibrator fitted on such, looks otherwise."""
    if looks_like_probabilities(scores):
        remedy = 'If it is, say input="probs"'
        if fitted:
            remedy = 'The calibrator was fitted on logits: give such, or fit it with input="probs"'
        warn(f"{LIKE_PROBABILITIES}. {remedy}")


def looks_like_probabilities(scores: Array) -> bool:
    """Whether some rows are distributions, or many scores of a binary model all lie in (0, 1)."""
    # a few numbers rule it out for most logits, quickly
    if not isinstance(scores, np.ndarray):
        corner = to_numpy(scores[:1, :8])
        if not ((corner >= 0.0) & (corner <= 1.0)).all():
            return False
    elif not (scores.size and 0.0 <= scores.item(0) <= 1.0 and 0.0 <= scores.item(-1) <= 1.0):
        return False
    elif scores.item(0) != 0.0:
        with np.errstate(over="ignore"):
            if not abs(scores[0].sum(dtype=np.float64) - 1.0) < SUM_TOLERANCE:
                return False
    rows, classes = scores.shape
    step = max(1, rows // FEW)  # a few rows, evenly spread
    values = to_numpy(scores[: step * FEW : step]).astype(np.float64)
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
    step = rows // FEW  # a few rows, evenly spread
    few = slice(0, step * FEW, step)
    values = to_numpy(scores[few])
    for column in np.flatnonzero((values == labels[few, None]).all(axis=0)):
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

    Let p be the probabilities of a row, q their mean over the rows, y the row's label and f the
    shares of the classes among the labels. The agreement is the sum of p_y - p . f. Labels in
    random order give it the mean 0 and, as every sum of such a form, the variance of (p - q)_y
    with y drawn from f, summed over the rows. Were p right, its mean would be the sum of
    p . (p - q). Of a poor model, one label in four is drawn from p and the others from f. All
    numbers add up over batches of rows.
    """

    rows: int = 0  # that were looked at
    agreement: float = 0.0
    variance: float = 0.0  # of the agreement for labels in random order
    claimed: float = 0.0  # what the agreement would be on average, were p right
    poor_variance: float = 0.0  # of the agreement for a poor model

    def __add__(self, other: Association) -> Association:
        return Association(*map(add, vars(self).values(), vars(other).values()))

    @property
    def looks_absent(self) -> bool:
        """Whether labels in random order would look like this, and those of a poor model not.

        The agreement is not significant, and four standard deviations below what it would be if
        one label in four were as the scores say. A weak model that says so claims little, and one
        that claims four times too much still agrees with its labels: neither looks like this.
        """
        if self.claimed < 1e-6 * self.rows:  # all rows say the same, but for rounding
            return False
        by_chance, if_poor = self.variance**0.5, self.poor_variance**0.5
        significant = self.agreement >= 3.0 * by_chance
        return not significant and self.agreement + 4.0 * if_poor < POOR * self.claimed


POOR = 0.25  # the share of labels that a poor model knows
FIRST_ROWS, MOST_ROWS, MOST_ELEMENTS = 256, 8192, 2**21


def association(rows: Rows) -> Association:
    """That of valid scores: of a few rows where these are clear, else of more."""
    weight = rows.sample_weight
    used = np.arange(len(rows)) if weight is None else np.flatnonzero(weight > 0.0)
    most = min(len(used), MOST_ROWS, max(1, MOST_ELEMENTS // rows.n_classes))
    count = min(FIRST_ROWS, most)
    while True:
        spread = np.linspace(0, len(used) - 1, count).astype(np.int64)
        found = _association_of_all(rows.take(used[spread]))
        if found.agreement > 6.0 * found.variance**0.5 or count == most:  # clear, or all there is
            return found
        count = min(8 * count, most)


def _association_of_all(rows: Rows) -> Association:
    share = np.bincount(rows.labels, minlength=rows.n_classes) / len(rows)
    total, sums = np.zeros(rows.n_classes), np.zeros(4)
    for _, tile in rows.tiles(TILE_ELEMENTS):
        values = as_working_float(to_numpy(tile.scores))
        if rows.input == "logits":
            with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
                values = softmax(values, 1.0, NUMPY)
        p = np.asarray(values, np.float64)
        square = p * p
        by_chance, if_right = p @ share, square.sum(axis=1)  # the means of p_y
        square_by_chance, square_if_right = square @ share, (square * p).sum(axis=1)
        mean = POOR * if_right + (1.0 - POOR) * by_chance
        mean_square = POOR * square_if_right + (1.0 - POOR) * square_by_chance
        parts = (
            p[np.arange(len(tile)), tile.labels] - by_chance,
            square_by_chance - by_chance**2,
            if_right,
            mean_square - mean**2,
        )
        total += p.sum(axis=0)
        sums += np.stack(parts).sum(axis=1)
    q = total / len(rows)
    agreement, variance, claimed, poor_variance = sums.tolist()
    variance -= len(rows) * float(q * q @ share - (q @ share) ** 2)
    claimed -= len(rows) * float(q @ q)
    # rounding may leave less than nothing of a variance
    return Association(len(rows), agreement, max(variance, 0.0), claimed, max(poor_variance, 0.0))


def warn_if_unrelated(found: Association) -> None:
    """Warn when labels and scores look as if they were of different rows."""
    if found.looks_absent:
        warn(
            "the labels look unrelated to the scores: the classes that these favour are right no "
            "more often than by chance. Check that labels and scores are in the same order, and "
            "that the label c is the class of column c"
        )
