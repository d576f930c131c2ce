"""Temperature scaling as the start of the richer calibrators, which never end worse than it."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from calibrant._errors import CalibrationWarning
from calibrant._optimize import ScalarResult
from calibrant.calibrators._base import warn_at_bound
from calibrant.calibrators.temperature import TemperatureScaling


def fitted_temperature(
    logits: NDArray[np.float64],
    labels: NDArray[np.int64],
    weight: NDArray[np.float64],
    method: str,
) -> TemperatureScaling:
    """Temperature scaling at its NLL solution; an end of its range is told, for ``method``."""
    with warnings.catch_warnings():  # told below, once, in the right name
        warnings.simplefilter("ignore", CalibrationWarning)
        ts = TemperatureScaling().fit(logits, labels, sample_weight=weight)
    info = ts.fit_info_
    warn_at_bound(ScalarResult(ts.temperature_, info["converged"], info["message"]), method)
    return ts


def effective_rows(weight: NDArray[np.float64]) -> float:
    """How many equally weighted rows tell as much (Kish): rows of weight 0 do not count."""
    share = weight / weight.max()
    return float(share.sum() ** 2 / (share @ share))
