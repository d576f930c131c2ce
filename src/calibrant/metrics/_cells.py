"""Rows of confidence in cells so narrow that a kernel cannot tell them from the rows.

A cell is 2^-14 wide. Replacing its rows by their number, their mean confidence and their hits moves
KDE-ECE, and SmoothECE at its own bandwidth, by 1e-5 at most; the sums add up, so that kernel
estimates merge like binned ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.common.arrays import row_sums
from calibrant.common.types import Floats
from calibrant.data.binning import equal_width_edges
from calibrant.metrics._labelled import Labelled

CELLS = 2**14
CELL_EDGES = equal_width_edges(CELLS)


def kde_columns(data: Labelled) -> tuple[Floats, NDArray[np.bool_]]:
    """The scores and hits of KDE-ECE: divided by the row's sum."""
    sums = data.by_tile(lambda tile, _: row_sums(tile))
    if not np.all(sums > 0.0):
        row = int(np.flatnonzero(~(sums > 0.0))[0])
        raise ValueError(f"probs must have a positive value in every row, row {row} has none")
    score, hit = data.judged
    return score / sums, hit
