"""The linear variant of PTS (Table 5 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.calibrators.parameterized import ParameterizedTemperatureScaling


class LinearPTS(ParameterizedTemperatureScaling):
    """PTS without the non-linear activations: log T linear in the logits. Preserves accuracy.

    The parameters are those of PTS, but ``inputs="auto"`` is always ``"logits"``. The default
    recipe fits the one linear layer to which any number of them collapses, so ``hidden`` and
    ``members`` mean nothing there; the paper's recipe keeps its layers (91 stored parameters, 11
    effective ones) and its |.|.
    """

    _linear = True
    _default_inputs = "logits"

    def _layers(self) -> Sequence[int]:
        return ()
