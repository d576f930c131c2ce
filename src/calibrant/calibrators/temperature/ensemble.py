"""Ensemble temperature scaling (Zhang, Kailkhura and Han 2020)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant.calibrators._base import Fitted, ProfileCalibrator
from calibrant.calibrators._best_temperature import TEMPERATURE_BOUNDS, best_temperature
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._optimizers import simplex_quadratic
from calibrant.calibrators._parameters import Bounds, Choice, constraints
from calibrant.calibrators.profile.losses import chunks
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.types import Floats, InputKind
from calibrant.data.weights import shares
from calibrant.formulas import Mixture

LOSSES = ("brier", "nll")
EM_STEPS, EM_TOLERANCE = 5_000, 1e-7


class EnsembleTemperatureScaling(ProfileCalibrator):
    """A mixture of softmax(z / T), softmax(z) and the uniform distribution. Preserves accuracy.

    Parameters
    ----------
    bounds : tuple of two floats, default (0.01, 10000)
        The smallest and the largest temperature allowed; ending at one is a warning.
    loss : {"brier", "nll"}, default "brier"
        What is minimised.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Attributes
    ----------
    temperature_ : float
        The fitted T.
    weights_ : array of shape (3,)
        The fitted w1, w2 and w3.

    Notes
    -----
    The probabilities are w1 softmax(z / T) + w2 softmax(z) + w3 / C, C being the number of finite
    logits of the row. As in the authors' code T minimises the loss alone, and then the weights
    minimise it with T held. For the Brier score that is a quadratic programme on the simplex,
    solved exactly here; for the NLL it is convex, and solved by expectation maximisation.

    References
    ----------
    Zhang, Kailkhura and Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
    Calibration in Deep Learning", ICML 2020.

    Examples
    --------
    >>> ets = EnsembleTemperatureScaling().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
    >>> ets.weights_.round(2)
    array([0.  , 0.32, 0.68])
    """

    _keeps_arg_max = True
    _gives = Mixture
    _constraints = constraints(bounds=Bounds(), loss=Choice(*LOSSES))

    def __init__(
        self,
        bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
        loss: Literal["brier", "nll"] = "brier",
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.bounds = bounds
        self.loss = loss
        self.input = input

    @property
    def temperature_(self) -> float:
        """The fitted temperature."""
        return self._own_formula(Mixture).temperature

    @property
    def weights_(self) -> Floats:
        """The fitted weights."""
        return self._own_formula(Mixture).weights

    def _fit_profile(self, profile: TemperatureProfile) -> Fitted:
        best = best_temperature(profile, self.loss, self.bounds)
        weigh = _least_brier if self.loss == "brier" else _least_nll
        weights, after = weigh(profile, best.temperature)
        return Mixture(best.temperature, weights), FitInfo(
            best.converged, best.message, loss=self.loss, before=best.loss_before, after=after
        )


def _least_brier(profile: TemperatureProfile, temperature: float) -> tuple[Floats, float]:
    """The weights with the least Brier score, and that score."""
    matrix, vector = _brier_quadratic(profile, temperature)
    weights = simplex_quadratic(matrix, vector)
    return weights, float(weights @ matrix @ weights - 2.0 * vector @ weights + 1.0)


def _least_nll(profile: TemperatureProfile, temperature: float) -> tuple[Floats, float]:
    """The weights with the least NLL, by expectation maximisation, and that NLL."""
    share, every = shares(profile.weight), np.arange(len(profile))
    logs = [b * profile.label_gap - profile.psi(b, every).value for b in (1.0 / temperature, 1.0)]
    # of the true label, under each of the three parts; a part that rules it out has 0
    parts = np.column_stack([*np.exp(logs), 1.0 / profile.finite_classes])
    weights = np.full(3, 1.0 / 3.0)
    for _ in range(EM_STEPS):
        joint = parts * weights
        moved = share @ (joint / joint.sum(axis=1, keepdims=True))
        still = np.abs(moved - weights).max() < EM_TOLERANCE
        weights = moved
        if still:
            break
    return weights, float(-share @ np.log(parts @ weights))


def _brier_quadratic(profile: TemperatureProfile, temperature: float) -> tuple[Floats, Floats]:
    """A and b of the Brier score w'Aw - 2b'w + 1 of a mixture with weights w.

    sum_c p_c(b1) p_c(b2) = exp(psi(b1 + b2) - psi(b1) - psi(b2)) for every pair of parts.
    """
    b = (1.0 / temperature, 1.0)
    share, label_gap, every = shares(profile.weight), profile.label_gap, np.arange(len(profile))
    uniform = float(share @ (1.0 / profile.finite_classes))
    matrix, vector = np.zeros((3, 3)), np.zeros(3)
    matrix[2], matrix[:, 2], vector[2] = uniform, uniform, uniform
    for chunk in chunks(len(profile)):
        psi = [profile.psi(one, every[chunk]).value for one in b]
        for i, j in ((0, 0), (0, 1), (1, 1)):
            both = profile.psi(b[i] + b[j], every[chunk]).value - psi[i] - psi[j]
            matrix[i, j] += share[chunk] @ np.exp(both)
        for i in range(2):
            vector[i] += share[chunk] @ np.exp(b[i] * label_gap[chunk] - psi[i])
    matrix[1, 0] = matrix[0, 1]
    return matrix, vector
