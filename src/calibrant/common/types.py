"""Names for type annotations, each defined once; random numbers from a ``RandomState``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = Any  # an array of any namespace of the array API standard
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]  # class indices

InputKind = Literal["logits", "probs"]
WeightMeaning = Literal["auto", "importance", "counts"]  # "auto": whole weights are counts
RowRule = Literal["strict", "normalize", "raw"]  # rows must sum to 1; are divided by it; as given
RandomState = int | np.random.Generator | None  # None is the seed 0, so that work can be repeated
Report = Callable[[int, int], None]  # (done, total)
Progress = bool | Report  # False: silent; True: a bar on standard error; or a function to call


def generator(random_state: RandomState) -> np.random.Generator:
    """A generator of random numbers; None is the seed 0, so that work can be repeated."""
    try:
        return np.random.default_rng(0 if random_state is None else random_state)
    except (TypeError, ValueError):
        rule = "random_state must be None, a whole number of at least 0 or a numpy Generator"
        raise ValueError(f"{rule}, got {random_state!r}") from None
