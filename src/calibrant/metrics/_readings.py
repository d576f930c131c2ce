"""The few things that metrics read, each computed once for a data set and drawn anew on demand.

| a metric reads | that is |
|---|---|
| "rows" | one score per row, of which it is the weighted mean |
| "equal-width", "equal-mass" | the judged score and its hits in bins: class 1, or the confidence |
| "cells" | the same in cells so narrow that they stand for the rows |
| "kde-cells" | the same of the score divided by its row's sum |
| "confidence", "class-1" | this score whichever is judged, in equal-width bins |
| "classes" | every class' probability in equal-width bins; the metric is a mean over classes |
| "labels" | the probabilities and labels themselves, whatever it makes of them |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.common.arrays import to_numpy
from calibrant.common.types import Floats
from calibrant.data.binning import BinStats, equal_mass_edges, equal_width_edges
from calibrant.data.weights import row_counts
from calibrant.metrics._cells import CELL_EDGES, kde_columns
from calibrant.metrics._class_bins import class_stats
from calibrant.metrics._class_resampling import class_bootstrap, class_null, draw_rows
from calibrant.metrics._inversion import Family, families
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._notions import check_two_classes
from calibrant.metrics._resampling import (
    BinnedRows,
    Drawing,
    Statistic,
    bootstrap_means,
    draw_repetitions,
    values_of,
)

# Draws are made in this order.
Reads = Literal[
    "rows",
    "equal-width",
    "equal-mass",
    "cells",
    "kde-cells",
    "class-1",
    "confidence",
    "classes",
    "labels",
]

DEFAULT_BINS = 15


def bins_of(reads: Reads, data: Labelled, n_bins: int = DEFAULT_BINS) -> BinStats:
    """The bins that a metric reads."""
    if reads == "classes":
        return data.once((reads, n_bins), lambda: class_stats(data, equal_width_edges(n_bins)))
    return data.once((reads, n_bins), lambda: _row_bins(reads, data, n_bins))


class RowsInBins(NamedTuple):
    """What a metric reads that makes bins of its own: the rows, and how many bins to make."""

    data: Labelled
    n_bins: int


def read_by(reads: Reads, data: Labelled, n_bins: int) -> BinStats | RowsInBins:
    """What a calibration error is computed from."""
    return RowsInBins(data, n_bins) if reads == "labels" else bins_of(reads, data, n_bins)


def row_scores(statistic: Statistic, data: Labelled) -> NDArray[Any]:
    """One score per row."""
    return data.once(statistic, lambda: statistic(data))


def _columns(reads: Reads, data: Labelled) -> tuple[Floats, NDArray[np.bool_]]:
    """The scores and the hits."""
    if reads == "kde-cells":
        return data.once("kde-columns", lambda: kde_columns(data))
    if reads == "class-1":
        check_two_classes(data.n_classes)
        return data.one_class(1)
    return data.top_label if reads == "confidence" else data.judged


def _edges(reads: Reads, confidence: Floats, data: Labelled, n_bins: int) -> Floats:
    """The edges of the bins."""
    if reads in ("equal-width", "class-1", "confidence"):
        return equal_width_edges(n_bins)
    if reads == "equal-mass":
        return equal_mass_edges(confidence, n_bins, data.weight_if_any)
    return CELL_EDGES


def _row_bins(reads: Reads, data: Labelled, n_bins: int) -> BinStats:
    confidence, correct = _columns(reads, data)
    edges = _edges(reads, confidence, data, n_bins)
    squares = data.squares if data.weighted else None
    return BinStats._of_columns(confidence, correct, data.weight_if_any, squares, edges)


# --- the same, drawn anew ---------------------------------------------------------------------


class Sample(Protocol):
    """What a metric reads on rows that are drawn anew."""

    def bootstrap(self, drawing: Drawing) -> Floats:
        """Values (resamples, statistics) on rows drawn with replacement."""


class ErrorSample(Sample, Protocol):
    """The sample of a calibration error: it also knows what a calibrated model would show."""

    def null(self, drawing: Drawing) -> Floats:
        """Values (resamples, statistics) of a calibrated model with the same predictions."""

    def families(self, drawing: Drawing) -> list[Family]:
        """What true errors show, for intervals; of classes there is nothing of the kind."""


def sample_of(reads: Reads, data: Labelled, n_bins: int) -> Sample:
    """What a metric reads, ready to be drawn."""
    return _RowSample(data) if reads == "rows" else error_sample(reads, data, n_bins)


def error_sample(reads: Reads, data: Labelled, n_bins: int) -> ErrorSample:
    """What a calibration error reads, ready to be drawn."""
    if reads == "classes":
        return _ClassSample(data, equal_width_edges(n_bins))
    if reads == "labels":
        return _LabelSample(data, n_bins)
    confidence, correct = _columns(reads, data)
    edges = _edges(reads, confidence, data, n_bins)
    return _BinSample(BinnedRows.of(confidence, correct, data.weight_if_any, edges))


@dataclass(frozen=True)
class _RowSample:
    """Scores per row."""

    data: Labelled

    def bootstrap(self, drawing: Drawing) -> Floats:
        scores = [row_scores(statistic, self.data) for statistic in drawing.statistics]
        columns = np.stack(scores, axis=1).astype(np.float64)
        return bootstrap_means(columns, self.data.weight, drawing.n_resamples, drawing.rng)


@dataclass(frozen=True)
class _BinSample:
    """Confidences and hits in bins."""

    rows: BinnedRows

    def null(self, drawing: Drawing) -> Floats:
        return values_of(drawing.all_of, self.rows.null(drawing.n_resamples, drawing.rng))

    def bootstrap(self, drawing: Drawing) -> Floats:
        batches = self.rows.bootstrap(drawing.n_resamples, drawing.rng, group=drawing.group)
        return values_of(drawing.all_of, batches)

    def families(self, drawing: Drawing) -> list[Family]:
        return families(self.rows, drawing.statistics, drawing.n_resamples, drawing.rng)


@dataclass(frozen=True)
class _ClassSample:
    """The bins of every class."""

    data: Labelled
    edges: Floats

    def null(self, drawing: Drawing) -> Floats:
        return class_null(self.data, self.edges, drawing)

    def bootstrap(self, drawing: Drawing) -> Floats:
        return class_bootstrap(self.data, self.edges, drawing)

    def families(self, drawing: Drawing) -> list[Family]:
        return []


@dataclass(frozen=True)
class _LabelSample:
    """Rows of which nothing is known in advance: every draw is computed anew."""

    data: Labelled
    n_bins: int

    def null(self, drawing: Drawing) -> Floats:
        probs = to_numpy(self.data.probs).astype(np.float64)
        draws = draw_rows(probs, self.data.weight, drawing.n_resamples, drawing.rng)
        return np.stack(
            [self._values(drawing, probs[rows], labels, weight) for rows, labels, weight in draws]
        )

    def bootstrap(self, drawing: Drawing) -> Floats:
        probs, labels = to_numpy(self.data.probs), self.data.labels
        count, one = row_counts(self.data.weight)
        values = []
        for _ in range(drawing.n_resamples):
            times = draw_repetitions(count, 1, drawing.rng)[:, 0]
            values.append(self._values(drawing, probs, labels, one * times))
        return np.stack(values)

    def families(self, drawing: Drawing) -> list[Family]:
        return []

    def _values(self, drawing: Drawing, probs: Any, labels: Any, weight: Floats) -> Floats:
        drawn = Labelled(probs, labels, weight, True, asked_notion=self.data.notion)
        return drawing.all_of(RowsInBins(drawn, self.n_bins))
