"""The bins that metrics read, each computed once for a data set.

| a metric reads | that is |
|---|---|
| "rows" | one score per row, of which it is the weighted mean |
| "equal-width", "equal-mass" | the judged score and its hits in bins: class 1, or the confidence |
| "cells" | the same in cells so narrow that they stand for the rows |
| "kde-cells" | the same of the score divided by its row's sum |
| "confidence", "class-1" | this score whichever is judged, in equal-width bins |
| "classes" | every class' probability in equal-width bins; the metric is a mean over classes |
| "labels" | the probabilities and labels themselves, whatever it makes of them |

A cell is 2^-14 wide. Replacing its rows by their number, their mean confidence and their hits moves
KDE-ECE, and SmoothECE at its own bandwidth, by 1e-5 at most; the sums add up, so that kernel
estimates merge like binned ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array
from numpy.typing import NDArray

from calibrant.common.arrays import like, to_numpy
from calibrant.common.types import Array, Floats
from calibrant.data.binning import BinStats, bin_index, equal_mass_edges, equal_width_edges
from calibrant.metrics._labelled import Labelled, take_class, tiles_of
from calibrant.metrics._notions import check_two_classes

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
Statistic = Callable[[Any], NDArray[Any]]  # of the rows (``Labelled``) or of their ``BinStats``

DEFAULT_BINS = 15
CELLS = 2**14
CELL_EDGES = equal_width_edges(CELLS)


class RowsInBins(NamedTuple):
    """What a metric reads that makes bins of its own: the rows, and how many bins to make."""

    data: Labelled
    n_bins: int


def row_scores(statistic: Statistic, data: Labelled) -> NDArray[Any]:
    """One score per row."""
    if statistic not in data.cache:
        data.cache[statistic] = statistic(data)
    scores: NDArray[Any] = data.cache[statistic]
    return scores


def bins_of(reads: Reads, data: Labelled, n_bins: int = DEFAULT_BINS) -> BinStats:
    """The bins that a metric reads."""
    key = (reads, n_bins)
    if key not in data.cache:
        if reads == "classes":
            data.cache[key] = class_stats(data, equal_width_edges(n_bins))
        else:
            score, hit, edges = binned_columns(reads, data, n_bins)
            weight = data.rows.sample_weight
            squares = None if weight is None else data.squares
            data.cache[key] = BinStats._of_columns(score, hit, weight, squares, edges)
    stats: BinStats = data.cache[key]
    return stats


def binned_columns(
    reads: Reads, data: Labelled, n_bins: int
) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """The scores and hits that a metric puts into bins, and the edges of these."""
    if reads == "kde-cells":
        score, hit = data.normalized
    elif reads == "class-1":
        check_two_classes(data.n_classes)
        score, hit = data.one_class(1)
    else:
        score, hit = data.top_label if reads == "confidence" else data.judged
    if reads.endswith("cells"):
        return score, hit, CELL_EDGES
    if reads == "equal-mass":
        return score, hit, equal_mass_edges(score, n_bins, data.rows.sample_weight)
    return score, hit, equal_width_edges(n_bins)


# --- every class, counted on the device where it can count ------------------------------------


def class_stats(data: Labelled, edges: Floats) -> BinStats:
    """The bins of every class' probability: statistics of shape (classes, bins)."""
    size = data.n_classes * (len(edges) - 1)
    totals = np.zeros((4, size))

    def sums(flat: Array, values: Array | None) -> Floats:
        """Sums of values by flat bin, on the device where it can count, else in main memory."""
        if is_torch_array(flat):
            weights = None if values is None else values.double().reshape(-1)
            return to_numpy(flat.reshape(-1).bincount(weights, minlength=size)).astype(np.float64)
        weights = None if values is None else to_numpy(values).ravel()
        return np.bincount(to_numpy(flat).ravel(), weights, size).astype(np.float64)

    for tile in tiles_of(data.probs):
        probs, labels = data.probs[tile], data.labels[tile]
        flat = flat_bins(probs, edges)
        of_label = to_numpy(take_class(flat, labels))
        if not data.weighted:
            count = sums(flat, None)
            hits = np.bincount(of_label, None, size)
            totals += np.stack([count, sums(flat, probs), hits, count])
            continue
        xp = array_namespace(probs)
        weight, squares = (
            xp.broadcast_to(like(column[tile, None], probs), probs.shape)
            for column in (data.weight, data.squares)
        )
        hits = np.bincount(of_label, data.weight[tile], size)
        totals += np.stack(
            [sums(flat, weight), sums(flat, weight * probs), hits, sums(flat, squares)]
        )
    return BinStats(edges, *totals.reshape(4, data.n_classes, -1))


def flat_bins(tile: Array, edges: Floats) -> Array:
    """class * bins + bin of every entry, (rows, classes), where the array lies."""
    xp = array_namespace(tile)
    if is_numpy_array(tile):
        index: Array = bin_index(tile.astype(np.float64).ravel(), edges).reshape(tile.shape)
    else:
        inner = like(edges[1:-1], tile)
        index = xp.searchsorted(inner, xp.astype(tile, xp.float64), side="left")
    offsets = np.arange(tile.shape[1]) * (len(edges) - 1)
    return index + like(offsets, tile)
