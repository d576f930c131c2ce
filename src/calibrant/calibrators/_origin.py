"""Where logits lie: formulas that read logits themselves count from there."""

from __future__ import annotations

import numpy as np

from calibrant.common.types import Floats
from calibrant.data.weights import shares

FAR = 32.0  # spreads from 0 from which on float32 logits would lose digits that matter
LARGEST = 1e15  # larger logits count as this


def origin_of(tops: Floats, weight: Floats, temperature: float) -> float:
    """About the mean of the rows' largest logits as a float32 number; 0 where that is near.

    Logits with a large offset have digits enough for their differences, but products with them do
    not: an offset of a million leaves a float32 product no digit behind the point.
    """
    share, tops = shares(weight), np.clip(tops, -LARGEST, LARGEST)
    mean = float(np.sum(share * tops))
    spread = float(np.sqrt(np.sum(share * (tops - mean) ** 2)))
    near = abs(mean) <= FAR * max(spread, temperature)
    return 0.0 if near else float(np.float32(mean))
