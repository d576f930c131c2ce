"""The linear variant of PTS (Table 5 of the paper)."""

from __future__ import annotations

from calibrant.calibrators.parameterized import ParameterizedTemperatureScaling


class LinearPTS(ParameterizedTemperatureScaling):
    """PTS without the non-linear activations: log T is linear in the logits. Preserves accuracy.

    The default recipe fits one linear layer, to which any number of them collapses; the paper's
    recipe keeps its layers (91 stored parameters, 11 effective ones) and its |.|.
    """

    _linear = True
