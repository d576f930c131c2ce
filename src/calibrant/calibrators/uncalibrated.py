"""No calibration: the baseline."""

from __future__ import annotations

from calibrant._arrays import Array, InputKind
from calibrant.calibrators._base import TemperatureMap
from calibrant.profile import TemperatureProfile


class Uncalibrated(TemperatureMap):
    """softmax(z), as the classifier gives it ("Base" in the paper). Preserves accuracy."""

    def __init__(self, input: InputKind = "logits") -> None:  # noqa: A002
        self.input = input

    def _profile(self, scores: object, labels: object, sample_weight: object) -> TemperatureProfile:
        return TemperatureProfile().update(
            scores, labels, sample_weight=sample_weight, input=self.input
        )

    def _fit_profile(self, profile: TemperatureProfile) -> None:
        self.fit_info_ = {"converged": True, "message": "nothing to fit"}

    def _temperature(self, logits: Array) -> float:
        return 1.0
