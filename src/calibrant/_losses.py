"""Losses of a row as functions of its temperature, read from a profile.

Each gives the loss and its first two derivatives with respect to ``log b``, ``b = 1/T``: the
calibrators of the temperature family need nothing else, and never see the logits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant._weights import copies, effective_rows, shares
from calibrant.profile import TemperatureProfile

# How much of the Brier score and of the NLL each loss holds.
LOSSES: dict[str, tuple[float, float]] = {
    "brier": (1.0, 0.0),
    "nll": (0.0, 1.0),
    "mixed": (1.0, 0.2),
}


class RowLoss(NamedTuple):
    """A loss and its derivatives with respect to log b, one value per row."""

    value: NDArray[np.float64]
    slope: NDArray[np.float64]
    curvature: NDArray[np.float64]


class ProfileLoss:
    """A named loss of the rows of a profile."""

    def __init__(self, profile: TemperatureProfile, name: str) -> None:
        if name not in LOSSES:
            raise ValueError(f"loss must be one of {sorted(LOSSES)}, got {name!r}")
        self.profile = profile
        self.brier_share, self.nll_share = LOSSES[name]
        self.label_gap = np.asarray(profile.label_gap, np.float64)
        self.all_rows = np.arange(len(profile))
        self.shares = shares(profile.weight)
        #: The share of one copy of each row, where whole weights count copies.
        self.copy_share: NDArray[np.float64] = self.shares / copies(profile.weight)
        self.effective_rows = effective_rows(profile.weight)

    def rows(self, log_b: NDArray[np.float64], index: NDArray[np.intp] | None = None) -> RowLoss:
        """The loss at one inverse temperature per row, for all rows or those in ``index``."""
        index = self.all_rows if index is None else index
        b = np.exp(log_b)
        reach = b * self.label_gap[index]  # log p_y = reach - psi; d reach / d log b = reach
        if not self.brier_share:
            return RowLoss(*(self.nll_share * (p - reach) for p in self.profile.psi(b, index)))
        both = self.profile.psi(np.concatenate([b, 2.0 * b]), np.concatenate([index, index]))
        psi = [part[: len(b)] for part in both]
        log_squares = [part[len(b) :] - 2.0 * one for part, one in zip(both, psi, strict=True)]
        log_true = [reach - one for one in psi]
        squares, true = _exp(*log_squares), _exp(*log_true)
        parts = (
            self.brier_share * (s - 2.0 * t) - self.nll_share * g
            for s, t, g in zip(squares, true, log_true, strict=True)
        )
        value, slope, curvature = parts
        return RowLoss(value + self.brier_share, slope, curvature)

    def slopes(self, log_b: NDArray[np.float64], index: NDArray[np.intp]) -> NDArray[np.float64]:
        """The slopes of ``rows`` alone, for less."""
        b = np.exp(log_b)
        reach = b * self.label_gap[index]
        if not self.brier_share:
            return self.nll_share * (self.profile.psi(b, index).slope - reach)
        psi, slope, psi2, slope2 = self.profile.psi_pair(b, index)
        true_slope = reach - slope
        squares = np.exp(psi2 - 2.0 * psi) * (slope2 - 2.0 * slope)
        brier = squares - 2.0 * np.exp(reach - psi) * true_slope
        return self.brier_share * brier - self.nll_share * true_slope

    def mean(self, log_b: float | NDArray[np.float64]) -> float:
        """The weighted mean at one inverse temperature, or one per row."""
        return float(self.shares @ self.rows(np.broadcast_to(log_b, self.all_rows.shape)).value)

    def mean_slope(self, log_b: float) -> float:
        """The derivative of ``mean`` for one inverse temperature."""
        return float(self.shares @ self.rows(np.full(len(self.all_rows), log_b)).slope)


def _exp(
    value: NDArray[np.float64], slope: NDArray[np.float64], curvature: NDArray[np.float64]
) -> RowLoss:
    """exp of a function from the function and its derivatives."""
    result = np.exp(value)
    return RowLoss(result, result * slope, result * (curvature + slope**2))
