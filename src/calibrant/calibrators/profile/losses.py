"""Losses of a row as functions of its temperature, read from a profile.

Each gives the loss and its first two derivatives with respect to ``log b``, ``b = 1/T``: the
calibrators of the temperature family need nothing else, and never see the logits.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.types import Floats
from calibrant.data.weights import copies, effective_rows, shares

# How much of the Brier score and of the NLL each loss holds: the NLL all where there is no Brier.
LOSSES: dict[str, tuple[float, float]] = {
    "brier": (1.0, 0.0),
    "nll": (0.0, 1.0),
    "mixed": (1.0, 0.2),
}

CHUNK = 8192  # rows at once: what is computed of them stays in the cache


class RowLoss(NamedTuple):
    """A loss and its derivatives with respect to log b, one value per row."""

    value: NDArray[np.float64]
    slope: NDArray[np.float64]
    curvature: NDArray[np.float64]


class ProfileLoss:
    """A named loss of the rows of a profile, with their weights or others."""

    def __init__(
        self, profile: TemperatureProfile, name: str, weight: Floats | None = None
    ) -> None:
        if name not in LOSSES:
            raise ValueError(f"loss must be one of {sorted(LOSSES)}, got {name!r}")
        self.profile = profile
        self.summary, self.scale = profile._block.rows, profile.scale
        self.brier_share, self.nll_share = LOSSES[name]
        self.label_gap = profile.label_gap
        self.all_rows = np.arange(len(profile))
        self.weight = profile.weight if weight is None else weight
        self.shares = shares(self.weight)

    @cached_property
    def copy_share(self) -> NDArray[np.float64]:
        """The share of one copy of each row, where whole weights count copies."""
        return np.asarray(self.shares / copies(self.weight))

    @cached_property
    def effective_rows(self) -> float:
        """How many rows of equal weight tell as much."""
        return effective_rows(self.weight)

    def rows(self, log_b: NDArray[np.float64], index: NDArray[np.intp] | None = None) -> RowLoss:
        """The loss at one inverse temperature per row, for all rows or those in ``index``."""
        index = self.all_rows if index is None else index
        if len(index) > CHUNK:
            parts = [self.rows(log_b[chunk], index[chunk]) for chunk in chunks(len(index))]
            return RowLoss(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        b = np.exp(log_b)
        reach = b * self.label_gap[index]  # log p_y = reach - psi; d reach / d log b = reach
        if not self.brier_share:
            psi, slope, curvature = self.summary.psi(b * self.scale, index)
            return RowLoss(psi - reach, slope - reach, curvature - reach)
        one, two = self.summary.psi_both(b * self.scale, index)
        squares = _exp(*(at_double - 2.0 * at for at_double, at in zip(two, one, strict=True)))
        log_true = [reach - at for at in one]
        value, slope, curvature = (
            self.brier_share * (square - 2.0 * true) - self.nll_share * log
            for square, true, log in zip(squares, _exp(*log_true), log_true, strict=True)
        )
        return RowLoss(value + self.brier_share, slope, curvature)

    def slopes(self, log_b: NDArray[np.float64], index: NDArray[np.intp]) -> NDArray[np.float64]:
        """The slopes of ``rows`` alone, for less."""
        b = np.exp(log_b)
        reach = b * self.label_gap[index]
        if not self.brier_share:
            return self.summary.psi(b * self.scale, index).slope - reach
        psi, slope, psi2, slope2 = self.summary.psi_pair(b * self.scale, index)
        true_slope = reach - slope
        squares = np.exp(psi2 - 2.0 * psi) * (slope2 - 2.0 * slope)
        brier = squares - 2.0 * np.exp(reach - psi) * true_slope
        return self.brier_share * brier - self.nll_share * true_slope

    def mean(self, log_b: float | NDArray[np.float64]) -> float:
        """The weighted mean at one inverse temperature, or one per row."""
        return self.means(log_b)[0]

    def means(self, log_b: float | NDArray[np.float64]) -> tuple[float, float, float]:
        """The weighted means of the loss and of its derivatives."""
        log_b = np.broadcast_to(log_b, self.all_rows.shape)
        total = np.zeros(3)
        for chunk in chunks(len(log_b)):
            share, rows = self.shares[chunk], self.rows(log_b[chunk], self.all_rows[chunk])
            total += [share @ rows.value, share @ rows.slope, share @ rows.curvature]
        value, slope, curvature = total.tolist()
        return value, slope, curvature


def chunks(rows: int) -> list[slice]:
    """All rows, some at a time."""
    return [slice(first, min(first + CHUNK, rows)) for first in range(0, rows, CHUNK)]


def _exp(
    value: NDArray[np.float64], slope: NDArray[np.float64], curvature: NDArray[np.float64]
) -> RowLoss:
    """exp of a function from the function and its derivatives."""
    result = np.exp(value)
    return RowLoss(result, result * slope, result * (curvature + slope**2))
