"""Temperature scaling (Guo et al. 2017)."""

from __future__ import annotations

import math

from calibrant._arrays import Array, InputKind
from calibrant._losses import ProfileLoss
from calibrant._optimize import as_info
from calibrant.calibrators._base import (
    TEMPERATURE_BOUNDS,
    TemperatureMap,
    best_temperature,
    warn_at_bound,
)
from calibrant.profile import TemperatureProfile


class TemperatureScaling(TemperatureMap):
    """softmax(z / T) with one temperature for all rows. Preserves accuracy.

    ``loss`` is ``"nll"`` (convex in 1/T: the exact minimiser, by a bracketed root) or ``"brier"``.
    ``bounds`` are the smallest and largest temperature allowed; ending at one is told.

    >>> ts = TemperatureScaling().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
    >>> round(ts.temperature_, 2)
    12.37
    """

    _state = ("temperature_",)

    def __init__(
        self,
        loss: str = "nll",
        bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.loss = loss
        self.bounds = bounds
        self.input = input

    def _fit_profile(self, profile: TemperatureProfile) -> None:
        result = best_temperature(profile, self.loss, self.bounds)
        warn_at_bound(result, "temperature scaling")
        self.temperature_ = result.x
        problem = ProfileLoss(profile, self.loss)
        self.fit_info_ = as_info(result) | {
            "loss": self.loss,
            "loss_before": problem.mean(0.0),
            "loss_after": problem.mean(-math.log(result.x)),
        }

    def _temperature(self, logits: Array) -> float:
        return self.temperature_
