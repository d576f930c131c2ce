"""Some of many rows, to choose on: what a few ten thousand rows decide, more would not change.

Which rows depends on what is in them, not on their places: the order of the rows does not matter,
copies of a row are drawn together and count as one row with their weight, and so a whole weight is
as good as so many copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import row_tiles
from calibrant._types import Floats
from calibrant.calibrators._base import LabelledLogits
from calibrant.profile import TemperatureProfile

SAMPLE_ROWS = 20_000

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class Sample:
    """Rows that differ, each with the weight of all its copies."""

    index: NDArray[np.intp]
    weight: Floats


def sampled(data: LabelledLogits, sample: Sample | None) -> LabelledLogits:
    """The rows of a sample; all of them where there is none."""
    if sample is None:
        return data
    return LabelledLogits(data.logits[sample.index], data.labels[sample.index], sample.weight)


def sample_of_logits(data: LabelledLogits, times: int = 1) -> Sample | None:
    """The sample of labelled logits; None where there are so few rows that all of them serve.

    One of so many ``times`` the usual size begins with the usual one.
    """
    most = times * SAMPLE_ROWS
    few = len(data.labels) <= most
    return None if few else _sample(row_keys(data.logits, data.labels), data.weight, most)


def sample_of_profile(profile: TemperatureProfile) -> Sample | None:
    """The sample of a profile's rows, told apart by their largest logits and their labels'."""
    if len(profile) <= SAMPLE_ROWS:
        return None
    seen = np.column_stack([profile.top_logits(), profile.label_gap])
    return _sample(row_keys(seen, profile.finite_classes), profile.weight, SAMPLE_ROWS)


def _sample(keys: Keys, weight: Floats, most: int) -> Sample:
    """The first values in the order of their keys, which is as good as any."""
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(keys[order]) > 0))
    weights = np.add.reduceat(weight[order], first)
    return Sample(order[first[:most]], weights[:most])


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
