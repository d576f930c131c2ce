"""The meter's state: one flat vector of counts, one of sums, and the names of their parts."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._binning import BinStats, Floats, equal_width_edges
from calibrant.metrics._cells import CELL_EDGES, CELLS

SCORES = ("accuracy", "nll", "brier")
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class MeterState:
    """Everything that adds up, for a number of bins and classes."""

    bins: int
    classes: int
    classwise: bool
    counts: NDArray[np.int64]
    sums: Floats

    @classmethod
    def empty(cls, bins: int, classes: int, classwise: bool) -> MeterState:
        """All zeros."""
        shapes = count_shapes(bins), sum_shapes(bins, classes, classwise)
        sizes = [sum(prod(shape) for shape in parts.values()) for parts in shapes]
        counts = np.zeros(sizes[0], np.int64)
        return cls(bins, classes, classwise, counts, np.zeros(sizes[1]))

    def __add__(self, other: MeterState) -> MeterState:
        counts, sums = self.counts + other.counts, self.sums + other.sums
        return MeterState(self.bins, self.classes, self.classwise, counts, sums)

    def count(self, name: str) -> NDArray[np.int64]:
        """A part of the counts: a view, so that it can be added to."""
        return _part(self.counts, count_shapes(self.bins), name)

    def sum(self, name: str) -> Floats:
        """A part of the sums: a view, so that it can be added to."""
        return _part(self.sums, sum_shapes(self.bins, self.classes, self.classwise), name)

    def stats(self, name: str) -> BinStats:
        """A part of the sums as bin statistics: "bins", "cells", "kde_cells" or "class_bins"."""
        edges = CELL_EDGES if name.endswith("cells") else equal_width_edges(self.bins)
        return BinStats(edges, *self.sum(name))


def count_shapes(bins: int) -> Shapes:
    """Rows; rows whose label had probability 0; rows a bin of confidence."""
    return {"rows": (), "impossible": (), "bin_rows": (bins,)}


def sum_shapes(bins: int, classes: int, classwise: bool) -> Shapes:
    """Weights and their squares, moments of the scores, and four sums a bin as in ``BinStats``."""
    shapes: Shapes = {
        "weight": (),
        "weight_squares": (),
        "moments": (len(SCORES), 3),  # sums of w s, w^2 s and w^2 s^2: mean and standard error
        "null_variance": (bins,),  # sums of w^2 c (1 - c)
        "bins": (4, bins),
        "cells": (4, CELLS),
        "kde_cells": (4, CELLS),
        "label_weight": (classes,),
    }
    return shapes | {"class_bins": (4, classes, bins)} if classwise else shapes


def _part(flat: NDArray[Any], shapes: Shapes, name: str) -> NDArray[Any]:
    start = 0
    for part, shape in shapes.items():
        if part == name:
            return flat[start : start + prod(shape)].reshape(shape)
        start += prod(shape)
    raise KeyError(name)
