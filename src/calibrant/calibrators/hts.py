"""Entropy-based temperature scaling (HTS, Balanya, Maronas and Ramos 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray

from calibrant._arrays import Array, InputKind
from calibrant._numerics import scaled_gaps
from calibrant.calibrators._adaptive import DEFAULT_LOSS, AdaptiveTemperature
from calibrant.profile import TemperatureProfile

SMALLEST_ENTROPY = 1e-6  # of log(classes): below it a row is certain, and its logarithm runs off


class EntropyTemperatureScaling(AdaptiveTemperature):
    """log T linear in the log of a prediction's entropy. Preserves accuracy.

    Two parameters, so it is robust with little data. The entropy is that of softmax(z) over the
    logarithm of the number of finite classes. Parameters as for PTS, without a network.
    """

    def __init__(
        self,
        loss: str = DEFAULT_LOSS,
        penalty: float | str = "auto",
        random_state: int | np.random.Generator | None = None,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        super().__init__((), loss, penalty, 1, random_state, verbose, input)

    def _layers(self) -> Sequence[int]:
        return ()

    def _profile_inputs(self, profile: TemperatureProfile) -> NDArray[np.float64]:
        highest = np.log(np.maximum(profile.finite_classes, 2))
        share = np.asarray(profile.entropy(1.0), np.float64) / highest
        return np.log(np.maximum(share, SMALLEST_ENTROPY))[:, None]

    def _inputs(self, logits: Array) -> Array:
        # log1p over the classes beside the top one: of a sure row little is left after 1 - p
        xp = array_namespace(logits)
        gaps = scaled_gaps(logits, 1.0)
        finite = xp.isfinite(gaps)
        safe = xp.where(finite, gaps, xp.zeros_like(gaps))
        weight = xp.where(finite, xp.exp(safe), xp.zeros_like(gaps))
        columns = xp.arange(logits.shape[1], **_place(logits))
        top = columns[None, :] == xp.argmax(gaps, axis=1, keepdims=True)
        rest = xp.sum(xp.where(top, xp.zeros_like(weight), weight), axis=1)
        entropy = xp.log1p(rest) - xp.sum(weight * safe, axis=1) / (1.0 + rest)
        classes = xp.sum(xp.astype(finite, logits.dtype), axis=1)
        highest = xp.log(xp.clip(classes, min=2.0))
        return xp.log(xp.clip(entropy / highest, min=SMALLEST_ENTROPY))[:, None]


def _place(array: Array) -> dict[str, Any]:
    return {} if is_numpy_array(array) else {"device": array.device}
