"""Rows of confidence in cells so narrow that a kernel cannot tell them from the rows.

A cell is 2^-14 wide. Replacing its rows by their number, their mean confidence and their hits moves
KDE-ECE, and SmoothECE at its own bandwidth, by 1e-5 at most; the sums add up, so that kernel
estimates merge like binned ones.
"""

from __future__ import annotations

from typing import Any

from calibrant._binning import BinStats, Floats, equal_width_edges

CELLS = 2**14
CELL_EDGES = equal_width_edges(CELLS)


def cell_stats(confidence: Any, correct: Any, weight: Floats | None) -> BinStats:
    """The narrow bins of confidences (rows,) and hits (rows,)."""
    return BinStats.from_confidence(confidence, correct, sample_weight=weight, edges=CELL_EDGES)
