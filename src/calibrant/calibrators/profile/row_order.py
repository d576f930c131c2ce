"""An order of the rows of a profile that follows from their content (see ``data.row_order``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.data.row_order import sorted_with_ties
from calibrant.data.weights import are_counts


def canonical_profile(
    profile: TemperatureProfile,
) -> tuple[TemperatureProfile, NDArray[np.intp]]:
    """The rows of a profile in the same order, copies merged alike, and where each row went.

    The NLL decides ties. Rows with the same largest logits, label and NLL are copies.
    """
    own = profile.top_logits(1)[:, 0] + profile.scale * profile.label_gap
    order, tied = sorted_with_ties(own)
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
