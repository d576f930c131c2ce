"""A batch of rows on its way into a meter: refused whole, or measured whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant.common.arrays import as_working_float, place_of, row_tiles
from calibrant.common.types import Array, Floats, InputKind, Labels, RowRule
from calibrant.data.checks import as_labels, as_weights, ignored_as_class_0
from calibrant.data.likely_mistakes import FEW, warn_if_probabilities
from calibrant.metrics._labelled import Labelled, accepted, from_logits, valid_probabilities
from calibrant.metrics._notions import RowNotion

_TILE = 2**20  # elements that are looked at together: the meter's working memory


@dataclass(frozen=True)
class Batch:
    """Rows of which structure, labels and weights are checked; ``tiles`` checks the scores.

    Rows to ignore stay in their places, so that every error names a row by its number in the
    arrays that were given.
    """

    scores: Array
    labels: Labels
    weight: Floats
    weighted: bool
    input: InputKind
    row_sums: RowRule
    counts: NDArray[np.bool_] | None  # the rows that are not to be ignored; None where all count
    notion: RowNotion | None = None

    @classmethod
    def of(
        cls,
        scores: Any,
        labels: Any,
        sample_weight: Any,
        input: InputKind,  # noqa: A002 - the word of the whole public interface
        row_sums: RowRule,
        *,
        ignore_index: int | None = None,
        n_classes: int | None = None,
        notion: RowNotion | None = None,
    ) -> Self:
        """Check everything but the values of the scores."""
        array, labels, _ = accepted(scores, labels, None, input, None, n_classes, may_be_empty=True)
        n_rows, n_classes = array.shape
        labels, counts = ignored_as_class_0(labels, n_rows, ignore_index)
        target, weight = as_labels(labels, n_rows, n_classes), as_weights(sample_weight, n_rows)
        weighted = sample_weight is not None
        batch = cls(array, target, weight, weighted, input, row_sums, counts, notion)
        if counts is not None and batch.weighted:
            as_weights(weight[counts], int(np.count_nonzero(counts)))  # which may all be zero
        if input == "logits" and len(batch.rows):
            few = batch.rows[:: max(1, len(batch.rows) // FEW)]
            warn_if_probabilities(array if counts is None else _taken(array, few))
        return batch

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.scores.shape[1])

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """The numbers of the rows that count."""
        if self.counts is None:
            return np.arange(len(self.labels))
        return np.flatnonzero(self.counts)

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Some of the rows, which are numbered anew."""
        return replace(
            self,
            scores=_taken(self.scores, rows),
            labels=self.labels[rows],
            weight=self.weight[rows],
            counts=None if self.counts is None else self.counts[rows],
        )

    def check(self) -> None:
        """Refuse scores that ``tiles`` would refuse."""
        for _ in self.tiles():
            pass

    def tiles(self) -> Iterator[Labelled]:
        """The rows that count as valid probabilities, some at a time."""
        for tile in row_tiles(self.scores, _TILE):
            probs, log_true = self._probabilities(tile)
            rows = Labelled(
                probs,
                self.labels[tile],
                self.weight[tile],
                self.weighted,
                log_true,
                streamed=True,
                asked_notion=self.notion,
            )
            if self.counts is not None:
                rows = _chosen(rows, np.flatnonzero(self.counts[tile]))
            if rows.n_rows:
                yield rows

    def _probabilities(self, tile: slice) -> tuple[Array, Floats | None]:
        """Valid probabilities, and the labels' log-probabilities where logits know them."""
        scores = as_working_float(self.scores[tile])
        if self.counts is not None:
            scores = _made_valid(scores, ~self.counts[tile])
        if self.input == "probs":
            return valid_probabilities(scores, self.row_sums, tile.start), None
        return from_logits(scores, self.labels[tile], tile.start)


def _chosen(rows: Labelled, index: NDArray[np.intp]) -> Labelled:
    return replace(
        rows,
        probs=_taken(rows.probs, index),
        labels=rows.labels[index],
        weight=rows.weight[index],
        log_true=None if rows.log_true is None else rows.log_true[index],
    )


def _taken(array: Array, rows: NDArray[np.intp]) -> Array:
    if isinstance(array, np.ndarray):
        return array[rows]
    xp = array_namespace(array)
    return xp.take(array, xp.asarray(rows, **place_of(array)), axis=0)


def _made_valid(scores: Array, ignored: NDArray[np.bool_]) -> Array:
    """Class 0 alone in the rows to ignore: valid as probabilities and as logits."""
    xp = array_namespace(scores)
    fill = xp.zeros_like(scores[:1])
    fill[0, 0] = 1.0
    return xp.where(xp.asarray(ignored[:, None], **place_of(scores)), fill, scores)
