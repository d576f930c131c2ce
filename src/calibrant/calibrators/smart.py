"""Temperature from the margin (SMART)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import Array, InputKind
from calibrant._numerics import top_k
from calibrant.calibrators._adaptive import DEFAULT_LOSS, DEFAULT_MEMBERS, AdaptiveTemperature
from calibrant.profile import TemperatureProfile


class MarginTemperatureScaling(AdaptiveTemperature):
    """A temperature from the gap between a row's two largest logits. Preserves accuracy.

    The input of SMART, fitted by the same losses and penalties as PTS here (its authors minimise a
    soft-binned calibration error). Parameters as for PTS.
    """

    def __init__(
        self,
        hidden: Sequence[int] = (5, 5),
        loss: str = DEFAULT_LOSS,
        penalty: float | str = "auto",
        members: int = DEFAULT_MEMBERS,
        random_state: int | np.random.Generator | None = None,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        super().__init__(hidden, loss, penalty, members, random_state, verbose, input)

    def _profile_inputs(self, profile: TemperatureProfile) -> NDArray[np.float64]:
        top = profile.top_logits(2)
        return top[:, :1] - top[:, 1:]

    def _inputs(self, logits: Array) -> Array:
        top = top_k(logits, 2)
        return top[:, :1] - top[:, 1:]
