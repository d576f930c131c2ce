"""Ensemble temperature scaling (Zhang, Kailkhura and Han 2020)."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant._arrays import Array, InputKind
from calibrant._numerics import log_softmax, softmax
from calibrant._optimize import as_info, simplex_quadratic
from calibrant.calibrators._base import (
    TEMPERATURE_BOUNDS,
    TemperatureCalibrator,
    best_temperature,
    warn_at_bound,
)
from calibrant.profile import TemperatureProfile


class EnsembleTemperatureScaling(TemperatureCalibrator):
    """w1 softmax(z / T) + w2 softmax(z) + w3 uniform. Preserves accuracy.

    As the authors' code fits it: T minimises the Brier score alone, then the weights minimise it
    with T held (a quadratic programme on the simplex, solved exactly here from the profile). The
    uniform part covers the finite classes of a row.
    """

    _state = ("temperature_", "weights_")

    def __init__(
        self,
        bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.bounds = bounds
        self.input = input

    def _fit_profile(self, profile: TemperatureProfile) -> None:
        result = best_temperature(profile, "brier", self.bounds)
        warn_at_bound(result, "ensemble temperature scaling")
        matrix, vector = _brier_quadratic(profile, result.x)
        self.temperature_ = result.x
        self.weights_ = simplex_quadratic(matrix, vector)
        loss = float(self.weights_ @ matrix @ self.weights_ - 2.0 * vector @ self.weights_ + 1.0)
        self.fit_info_ = as_info(result) | {
            "loss": "brier",
            "loss_before": profile.brier(1.0),
            "loss_after": loss,
        }

    def _probabilities(self, logits: Array) -> Array:
        w_scaled, w_plain, w_uniform = (float(w) for w in self.weights_)
        return (
            w_scaled * softmax(logits, self.temperature_)
            + w_plain * softmax(logits)
            + w_uniform * _uniform(logits)
        )

    def _log_probabilities(self, logits: Array) -> Array:
        """log of the mixture by its largest part, so that nothing underflows."""
        xp = array_namespace(logits)
        with np.errstate(divide="ignore"):
            logs = [
                log_softmax(logits, self.temperature_),
                log_softmax(logits),
                xp.log(_uniform(logits)),
            ]
        parts = [
            part + float(np.log(weight))
            for part, weight in zip(logs, self.weights_, strict=True)
            if weight > 0.0
        ]
        largest = parts[0]
        for part in parts[1:]:
            largest = xp.maximum(largest, part)
        safe = xp.where(xp.isfinite(largest), largest, xp.zeros_like(largest))
        with np.errstate(divide="ignore"):
            return safe + xp.log(sum(xp.exp(part - safe) for part in parts))


def _uniform(logits: Array) -> Array:
    xp = array_namespace(logits)
    finite = xp.astype(xp.isfinite(logits), logits.dtype)
    return finite / xp.sum(finite, axis=1, keepdims=True)


def _brier_quadratic(
    profile: TemperatureProfile, temperature: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A and b of the Brier score w'Aw - 2b'w + 1 of a mixture with weights w.

    sum_c p_c(b1) p_c(b2) = exp(psi(b1 + b2) - psi(b1) - psi(b2)) for every pair of parts.
    """
    b = (1.0 / temperature, 1.0)
    share = profile.weight / profile.weight.sum()
    psi = [profile.psi(one).value for one in b]
    uniform = float(share @ (1.0 / profile.finite_classes))
    matrix = np.full((3, 3), uniform)
    vector = np.full(3, uniform)
    for i in range(2):
        vector[i] = share @ np.exp(b[i] * profile.label_gap - psi[i])
        for j in range(2):
            matrix[i, j] = share @ np.exp(profile.psi(b[i] + b[j]).value - psi[i] - psi[j])
    return matrix, vector
