"""IROvA-TS: temperature scaling, then isotonic regression one-vs-all (Zhang et al. 2020)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import InputKind
from calibrant.calibrators._base import TEMPERATURE_BOUNDS
from calibrant.calibrators._columns import Floats
from calibrant.calibrators.irova import IsotonicOneVsAll
from calibrant.calibrators.temperature import TemperatureScaling


class IsotonicOneVsAllTS(IsotonicOneVsAll):
    """IROvA on temperature-scaled probabilities softmax(z / T). Does not preserve accuracy.

    ``loss`` chooses the temperature: ``"brier"``, as the authors' code does, or ``"nll"``. The
    other parameters are those of ``TemperatureScaling`` and ``IsotonicOneVsAll``.
    """

    _state = ("temperature_", *IsotonicOneVsAll._state)

    def __init__(
        self,
        loss: str = "brier",
        bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
        normalize: bool = True,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        super().__init__(normalize=normalize, verbose=verbose, input=input)
        self.loss = loss
        self.bounds = bounds

    def _fit_logits(self, logits: Floats, labels: NDArray[np.int64], weight: Floats) -> None:
        scaling = TemperatureScaling(loss=self.loss, bounds=self.bounds)
        self.temperature_ = scaling.fit(logits, labels, weight).temperature_
        super()._fit_logits(logits, labels, weight)

    @property
    def _temperature(self) -> float:
        return self.temperature_
