"""The default fit of PTS: damped Newton steps on all rows at once, from the profile.

log T = log T0 + R tanh(r / R), r being the network's output and T0 the best single temperature.
The start has r = 0, which is temperature scaling itself; a penalty on the kernels pulls towards
it; and a step is taken only where it lowers the penalised loss. The result is never worse than
temperature scaling in the fitted loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._losses import ProfileLoss
from calibrant._optimize import NewtonResult, damped_newton
from calibrant._progress import Report
from calibrant.calibrators import _network as network
from calibrant.profile import TemperatureProfile

RANGE = 3.0  # no row's temperature is more than e^3 times T0 or less than e^-3 times it
ITERATIONS = 60
TOLERANCE = 1e-7
CHUNK = 16_384  # rows whose Jacobian is held at once


def exponential_temperature(raw: Any, base: float, xp: Any) -> Any:
    """The smooth positive link from the network's output to a temperature."""
    return base * xp.exp(RANGE * xp.tanh(raw / RANGE))


@dataclass(frozen=True)
class _Problem:
    """The penalised loss of a network on a profile, with its Gauss-Newton model."""

    loss: ProfileLoss
    inputs: NDArray[np.float64]
    sizes: list[tuple[int, int]]
    log_base: float
    penalty: NDArray[np.float64]  # a parameter
    linear: bool

    def log_temperature(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.log_base + RANGE * np.tanh(raw / RANGE))

    def value(self, flat: NDArray[np.float64]) -> float:
        raw = network.forward(network.unflatten(flat, self.sizes), self.inputs, self.linear)
        return self.loss.mean(-self.log_temperature(raw)) + 0.5 * float(self.penalty @ flat**2)

    def model(self, flat: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Gradient and Hessian, the latter without the network's own second derivatives and
        without negative curvature, so that it is positive semi-definite."""
        weights = network.unflatten(flat, self.sizes)
        gradient = self.penalty * flat
        hessian = np.diag(self.penalty)
        for first in range(0, len(self.inputs), CHUNK):
            chunk = np.arange(first, min(first + CHUNK, len(self.inputs)))
            raw, layers = network.forward_all(weights, self.inputs[chunk], self.linear)
            row = self.loss.rows(-self.log_temperature(raw), chunk)
            link = 1.0 - np.tanh(raw / RANGE) ** 2
            share = self.loss.shares[chunk]
            jacobian = network.jacobian(weights, layers, self.linear)
            gradient = gradient - jacobian.T @ (share * row.slope * link)
            curvature = share * np.maximum(row.curvature, 0.0) * link**2
            hessian += jacobian.T @ (jacobian * curvature[:, None])
        return gradient, hessian


def fit(
    profile: TemperatureProfile,
    inputs: NDArray[np.float64],
    base_temperature: float,
    *,
    hidden: Sequence[int],
    loss: str,
    penalty: float,
    rng: np.random.Generator,
    linear: bool,
    report: Report,
) -> tuple[network.Weights, NewtonResult]:
    """Weights for the raw inputs, and how the fit ended.

    ``penalty`` is per row and on the kernels for standardised inputs: the pull of a prior that
    weighs as much as that many rows.
    """
    mean, spread = _standardiser(inputs)
    sizes = network.layer_sizes(inputs.shape[1], () if linear else hidden)
    start = network.glorot(sizes, rng)
    start[-2][:] = 0.0
    problem = _Problem(
        ProfileLoss(profile, loss),
        (inputs - mean) / spread,
        sizes,
        float(np.log(base_temperature)),
        np.where(network.kernel_mask(sizes), penalty / len(profile), 0.0),
        linear,
    )
    result = damped_newton(
        problem.value,
        problem.model,
        network.flatten(start),
        iterations=ITERATIONS,
        tolerance=TOLERANCE,
        progress=report,
    )
    weights = network.unflatten(result.x.copy(), sizes)
    weights[1] -= (mean / spread) @ weights[0]
    weights[0] /= spread[:, None]
    return weights, result


def _standardiser(
    inputs: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    spread = inputs.std(axis=0)
    constant = spread <= 1e-9 * np.maximum(np.abs(inputs).max(axis=0), 1.0)
    return inputs.mean(axis=0), np.where(constant, 1.0, spread)
