"""An order of the rows that follows from their content.

Sums of the same numbers in another order differ in their last digits. Fits of networks, and fits in
single precision, amplify such differences until they show in the probabilities. So these fits
first put the rows into an order that does not depend on how they were given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import row_tiles
from calibrant._types import Floats
from calibrant._weights import are_counts
from calibrant.profile import TemperatureProfile

Keys = NDArray[np.uint64]


def row_keys(values: Floats, labels: NDArray[np.integer]) -> Keys:
    """A number per row, the same for the same values and label, and else hardly ever."""
    rows, columns = values.shape
    factors = np.random.default_rng(0).integers(2**63, size=columns, dtype=np.uint64) * 2 + 1
    keys = np.empty(rows, np.uint64)
    for tile in row_tiles(values):
        bits = (values[tile].astype(np.float64) + 0.0).view(np.uint64)
        bits ^= bits >> np.uint64(32)  # numbers with few digits end in zeros
        keys[tile] = (bits * factors).sum(axis=1, dtype=np.uint64)
    return keys + labels.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def canonical_rows(
    values: Floats, labels: NDArray[np.integer], weight: Floats
) -> tuple[NDArray[np.intp], Floats]:
    """The rows in their own order, and their weights.

    They are sorted by the label's value, so that rows at equal distances are a fair sample, and so
    that scores which differ by rounding alone keep their order. The rest of a row decides ties.

    Whole weights count repeated rows, so copies of a row become one row with the sum of their
    weights. Other weights are not added up: they would stand for another number of rows.
    """
    own = values[np.arange(len(labels)), labels]
    order, tied = _sorted(own)
    keys = row_keys(values[order[tied]], labels[order[tied]])
    inner = np.lexsort((weight[order[tied]], keys, own[order[tied]]))
    order[tied] = order[tied][inner]
    if not are_counts(weight):
        return order, weight[order]
    starts = np.ones(len(order), bool)
    starts[tied] = np.append(True, (np.diff(own[order[tied]]) > 0) | (np.diff(keys[inner]) != 0))
    first = np.flatnonzero(starts)
    return order[first], np.add.reduceat(weight[order], first)


def canonical_profile(
    profile: TemperatureProfile,
) -> tuple[TemperatureProfile, NDArray[np.intp]]:
    """The rows of a profile in the same order, copies merged alike, and where each row went.

    The NLL decides ties. Rows with the same largest logits, label and NLL are copies.
    """
    own = profile.top_logits(1)[:, 0] + profile.scale * profile.label_gap
    order, tied = _sorted(own)
    some = profile.take(order[tied])
    nll = some.row_nll(1.0)
    inner = np.lexsort((some.weight, nll, own[order[tied]]))
    order[tied] = order[tied][inner]
    starts = np.ones(len(order), bool)
    if are_counts(profile.weight):
        top = some.top_logits()[inner]
        same = (np.diff(nll[inner]) == 0.0) & (top[1:] == top[:-1]).all(axis=1)
        starts[tied] = np.append(True, (np.diff(own[order[tied]]) > 0) | ~same)
    first = np.flatnonzero(starts)
    place = np.empty(len(order), np.intp)
    place[order] = np.cumsum(starts) - 1
    weight = np.add.reduceat(profile.weight[order], first)
    return profile.take(order[first])._weighted(weight), place


def _sorted(values: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An order of rising values, and the places in it of values that occur more than once."""
    order = np.argsort(values)
    same = np.diff(values[order]) == 0.0
    return order, np.flatnonzero(np.append(same, False) | np.append(False, same))
