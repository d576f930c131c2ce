"""Sorting networks as text for the compiler: comparisons that do not depend on the values."""

from __future__ import annotations

Network = list[tuple[int, int]]


def sorting_network(length: int) -> Network:
    """Pairs (i, j), i < j, whose larger value goes to i: Batcher's merge sort, largest first."""
    pairs: Network = []
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
    return pairs


def merging_network(length: int) -> Network:
    """The same for a list that falls and then rises; the length is a power of two."""
    pairs, stride = [], length // 2
    while stride >= 1:
        pairs += [(i, i + stride) for i in range(length) if not i & stride]
        stride //= 2
    return pairs


def as_source(network: Network) -> str:
    """The comparisons in the words of rows.cuh."""
    return "".join(f"order(list[{i}], list[{j}]);" for i, j in network)
