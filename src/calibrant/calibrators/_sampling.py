"""A sample of many rows, on which penalties and methods are chosen.

A few ten thousand rows decide as well as all of them. Which rows are in the sample depends on their
content and not on their places, so that the order of the rows does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.types import Floats
from calibrant.data.copies import Keys, Values, binomials, row_keys, uniforms
from calibrant.data.rows import Rows

SAMPLE_ROWS = 20_000


@dataclass(frozen=True)
class Sample:
    """Rows with different values, each with the weight of its copies in the sample."""

    index: NDArray[np.intp]
    weight: Floats


def sampled(data: Rows, sample: Sample | None) -> Rows:
    """The rows of a sample; all of them where there is none."""
    return data if sample is None else data.take(sample.index).with_weight(sample.weight)


def sampled_values(values: Floats, sample: Sample | None) -> Floats:
    """What the rows of a sample have of something that is given per row."""
    return values if sample is None else values[sample.index]


def sampled_profile(profile: TemperatureProfile, sample: Sample | None) -> TemperatureProfile:
    """The rows of a sample in a profile; all of them where there is none."""
    return profile if sample is None else profile.take(sample.index)._weighted(sample.weight)


def sample_of_logits(data: Rows, times: int = 1) -> Sample | None:
    """The sample of labelled logits; None where there are so few rows that all of them serve.

    One of so many ``times`` the usual size begins with the usual one.
    """
    most = times * SAMPLE_ROWS
    few = len(data.labels) <= most
    return None if few else _sample(row_keys(data.scores, data.labels), data.weight, most)


def sample_of_profile(profile: TemperatureProfile) -> Sample | None:
    """The sample of a profile's rows, told apart by their largest logits and their labels'."""
    if len(profile) <= SAMPLE_ROWS:
        return None
    seen = np.column_stack([profile.top_logits(), profile.label_gap])
    return _sample(row_keys(seen, profile.finite_classes), profile.weight, SAMPLE_ROWS)


def _sample(keys: Keys, weight: Floats, most: int) -> Sample:
    """The copies with the smallest keys, of so many different values; few values stay whole."""
    values = Values.of(keys, weight)
    if len(values) <= most:
        return Sample(values.first, values.weight)
    value, key, copy_weight = values.copies()
    smallest = np.ones(len(values))
    np.minimum.at(smallest, value, key / 2.0**64)
    many, total = values.many, values.weight[values.many]
    uniform = uniforms(values.keys[many], 0)
    smallest[many] = -np.expm1(np.log1p(-uniform) / total)  # as of so many uniform keys
    limit = np.partition(smallest, most - 1)[most - 1]
    kept = key / 2.0**64 <= limit
    weights: Floats = np.bincount(value[kept], copy_weight[kept], len(values)).astype(np.float64)
    some = np.maximum(binomials(values.keys[many], 1, total, limit), 1.0)
    weights[many] = np.where(smallest[many] <= limit, some, 0.0)
    index = np.flatnonzero(weights)
    return Sample(values.first[index], weights[index])
