"""Random numbers from what a user gives as ``random_state``."""

from __future__ import annotations

import numpy as np

from calibrant.common.types import RandomState


def generator(random_state: RandomState) -> np.random.Generator:
    """A generator of random numbers; None is the seed 0, so that work can be repeated."""
    try:
        return np.random.default_rng(0 if random_state is None else random_state)
    except (TypeError, ValueError):
        rule = "random_state must be None, a whole number of at least 0 or a numpy Generator"
        raise ValueError(f"{rule}, got {random_state!r}") from None
