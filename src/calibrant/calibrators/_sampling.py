"""Some of many rows, to choose on: what a few ten thousand rows decide, more would not change.

Which rows depends on what is in them, not on their places: the order of the rows does not matter,
copies of a row are drawn together and count as one row with their weight, and so a whole weight is
as good as so many copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant._types import Floats
from calibrant.calibrators._base import LabelledLogits
from calibrant.calibrators._row_order import Keys, row_keys
from calibrant.profile import TemperatureProfile

SAMPLE_ROWS = 20_000


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
