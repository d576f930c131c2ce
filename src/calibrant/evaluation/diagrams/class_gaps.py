"""Over- and under-confidence by class: which classes promise too much, and where."""

from __future__ import annotations

from dataclasses import dataclass
from reprlib import repr as shown
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace

from calibrant.common.documents import PlainDocument
from calibrant.common.tables import counted
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import BinStats, bin_index, check_count, equal_width_edges
from calibrant.metrics._class_bins import class_stats
from calibrant.metrics._labelled import Labelled, labelled

GapNotion = Literal["top-label", "classwise"]


@dataclass(frozen=True, repr=False)
class ClassGaps(PlainDocument):
    """Accuracy minus confidence by class and bin; rows are classes, columns bins.

    Parameters
    ----------
    notion : {"top-label", "classwise"}
        Whether a row holds the rows that predict its class, or the probability that all rows give
        it.
    bins : BinStats
        Weights, confidences and events of shape (n_classes, n_bins).
    """

    notion: GapNotion
    bins: BinStats

    def __repr__(self) -> str:
        classes, bins = self.gap.shape
        return f"ClassGaps ({self.notion}): {counted(classes, 'class')}, {counted(bins, 'bin')}"

    @property
    def gap(self) -> Floats:
        """Accuracy minus confidence: negative where over-confident; NaN where no row falls."""
        return self.bins.gap

    @property
    def by_class(self) -> Floats:
        """The gap of all rows of a class together; NaN for a class without any."""
        weight = self.bins.weight.sum(axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(self.bins.residual.sum(axis=1) / weight)

    @property
    def z(self) -> Floats:
        """The gaps in standard errors of a calibrated model; NaN where no row falls.

        A miss of what was certain is infinitely many of them, and no gap is always 0.
        """
        chance, rows = np.clip(self.bins.confidence, 0.0, 1.0), self.bins.effective_rows
        with np.errstate(invalid="ignore", divide="ignore"):
            z = self.gap / np.sqrt(chance * (1.0 - chance) / rows)
        return np.where(self.gap == 0.0, 0.0, z)


def class_gaps(
    probs: Any,
    labels: Any,
    *,
    notion: GapNotion = "top-label",
    n_bins: int = 10,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> ClassGaps:
    """Compute over- and under-confidence by class and bin of confidence.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    notion : {"top-label", "classwise"}, default "top-label"
        Of the confidence among the rows with the same prediction, or of the probability of each
        class among all rows.
    n_bins : int, default 10
        The number of bins of equal width.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    ignore_index : int, optional
        Rows with this label are left out.

    Returns
    -------
    ClassGaps
        The gaps, weights and standard errors.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Examples
    --------
    >>> gaps = class_gaps([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1], n_bins=2)
    >>> gaps.by_class.round(2).tolist()
    [-0.3, 0.3]
    """
    if notion not in ("top-label", "classwise"):
        raise ValueError(f'notion must be "top-label" or "classwise", got {shown(notion)}')
    check_count(n_bins, "n_bins")
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    edges = equal_width_edges(n_bins)
    stats = class_stats(data, edges) if notion == "classwise" else _predicted_stats(data, edges)
    return ClassGaps(notion, stats)


def _predicted_stats(data: Labelled, edges: Floats) -> BinStats:
    """The confidences of the rows that predict each class, in bins."""
    confidence, correct = data.top_label
    predicted = data.by_tile(lambda tile, _: array_namespace(tile).argmax(tile, axis=1))
    shape = (data.n_classes, len(edges) - 1)
    flat = predicted.astype(np.intp) * shape[1] + bin_index(confidence, edges)
    columns = (
        data.weight,
        data.weight * confidence,
        data.weight * correct,
        data.squares,
    )
    sums = [np.bincount(flat, one, shape[0] * shape[1]).reshape(shape) for one in columns]
    return BinStats(edges, *(np.asarray(one, np.float64) for one in sums))
