"""Names for type annotations, each defined once."""

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
