"""Names for type annotations."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
InputKind = Literal["logits", "probs"]
