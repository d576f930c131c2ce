"""Sorting networks: comparisons that do not depend on the values, so that whole columns take part.

CUDA kernels compare registers by them, and NumPy the columns of short rows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Network = tuple[tuple[int, int], ...]


@cache
def sorting_network(length: int) -> Network:
    """Pairs (i, j), i < j, whose larger value goes to i: Batcher's merge sort, largest first."""
    pairs: list[tuple[int, int]] = []
    block = 1
    while block < length:
        stride = block
        while stride >= 1:
            for first in range(stride % block, length - stride, 2 * stride):
                pairs += [
                    (i, i + stride)
                    for i in range(first, min(first + stride, length - stride))
                    if i // (2 * block) == (i + stride) // (2 * block)
                ]
            stride //= 2
        block *= 2
    return tuple(pairs)


@cache
def merging_network(length: int) -> Network:
    """The same for a list that falls and then rises; the length is a power of two."""
    pairs: list[tuple[int, int]] = []
    stride = length // 2
    while stride >= 1:
        pairs += [(i, i + stride) for i in range(length) if not i & stride]
        stride //= 2
    return tuple(pairs)


@cache
def selecting_network(length: int, k: int) -> Network:
    """What of a sorting network is needed for the k largest."""
    pairs: list[tuple[int, int]] = []
    needed = set(range(k))
    for pair in reversed(sorting_network(length)):
        if not needed.isdisjoint(pair):
            needed.update(pair)
            pairs.append(pair)
    return tuple(reversed(pairs))


def largest_columns(x: NDArray[Any], k: int) -> NDArray[Any]:
    """The k largest values of each row of (rows, columns), falling; the result lies by columns."""
    columns, spare = list(x.T.copy()), np.empty(len(x), x.dtype)
    for i, j in selecting_network(len(columns), k):
        larger, smaller = columns[i], columns[j]
        np.maximum(larger, smaller, out=spare)
        np.minimum(larger, smaller, out=smaller)
        columns[i], spare = spare, larger
    return np.stack(columns[:k]).T
