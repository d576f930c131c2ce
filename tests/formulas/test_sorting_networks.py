"""Sorting networks sort, merge and select, and find the largest columns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from calibrant.formulas import _sorting_networks as _sorting


@pytest.mark.parametrize("length", [1, 2, 3, 7, 10, 13, 16])
def test_sorting_networks_sort(length: int) -> None:
    """Zeros and ones are enough: Knuth, The Art of Computer Programming 3, 5.3.4."""
    values = np.array(list(itertools.product([0, 1], repeat=length)))
    apply(_sorting.sorting_network(length), values)
    assert (np.diff(values, axis=1) <= 0).all()


@pytest.mark.parametrize("length", [1, 2, 4, 8, 16])
def test_merging_networks_merge(length: int) -> None:
    falls, rises = np.meshgrid(np.arange(length + 1), np.arange(length + 1), indexing="ij")
    places = np.arange(length)
    values = ((places < falls[..., None]) | (places >= rises[..., None])).reshape(-1, length) * 1
    apply(_sorting.merging_network(length), values)
    assert (np.diff(values, axis=1) <= 0).all()


def apply(network: list[tuple[int, int]], values: np.ndarray) -> None:
    for i, j in network:
        larger, smaller = values[:, [i, j]].max(axis=1), values[:, [i, j]].min(axis=1)
        values[:, i], values[:, j] = larger, smaller


@pytest.mark.parametrize(("length", "k"), [(2, 1), (7, 2), (10, 10), (13, 5), (16, 3)])
def test_selecting_networks_select(length: int, k: int) -> None:
    network = _sorting.selecting_network(length, k)
    values = np.array(list(itertools.product([0, 1], repeat=length)))
    wanted = np.sort(values, axis=1)[:, : -k - 1 : -1]
    apply(network, values)
    np.testing.assert_array_equal(values[:, :k], wanted)
    assert (len(network) < len(_sorting.sorting_network(length))) == (k < length - 1)


@pytest.mark.parametrize(("columns", "k"), [(2, 2), (10, 10), (32, 10), (31, 1)])
def test_the_largest_columns(columns: int, k: int) -> None:
    rows = np.random.default_rng(0).integers(-9, 9, (50, columns)).astype(np.float32)
    rows[::7, 0] = -np.inf
    before = rows.copy()
    found = _sorting.largest_columns(np.asfortranarray(rows), k)
    np.testing.assert_array_equal(found, np.sort(rows, axis=1)[:, ::-1][:, :k])
    np.testing.assert_array_equal(rows, before)
