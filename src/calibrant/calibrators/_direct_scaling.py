"""Temperature scaling of the logits themselves, where no profile is wanted for anything else.

Three or four temperatures are tried on all rows: a profile of many classes, which is for any number
of them, takes longer to make. The temperature of a few rows is where Newton's steps begin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._optimizers import newton_root
from calibrant.common.arrays import row_tiles
from calibrant.common.threads import available_cores, mapping
from calibrant.common.types import Floats, Labels
from calibrant.data.weights import shares

TILE = 1 << 17  # elements at once: what is computed of them stays in the cache
DEEPEST = -80.0  # exponents; what is left out is below 1e-34 of a row's sum


class DirectLoss:
    """The mean NLL of labelled logits as a function of log b, computed in float32."""

    def __init__(self, logits: Floats, labels: Labels, weight: Floats) -> None:
        self.share = shares(weight)
        self.gaps = np.empty(logits.shape, np.float32)
        self.label_gap = np.empty(len(labels))
        self.tiles = row_tiles(self.gaps, TILE)
        self._on_threads(lambda tile: self._enter(tile, logits[tile], labels[tile]))

    def _enter(self, tile: slice, logits: Floats, labels: Labels) -> None:
        gaps = logits - logits.max(axis=1, keepdims=True)
        self.label_gap[tile] = gaps[np.arange(len(labels)), labels]
        self.gaps[tile] = np.maximum(gaps, np.finfo(np.float32).min)

    def _on_threads(self, work: Any) -> list[Any]:
        with mapping(min(available_cores(), len(self.tiles))) as on_threads:
            return list(on_threads(work, self.tiles))

    def means(self, log_b: float) -> tuple[float, float, float]:
        """The mean NLL and its first two derivatives in log b."""
        b = float(np.exp(log_b))
        parts = self._on_threads(lambda tile: self._sums(tile, b))
        value, slope, curvature = np.sum(parts, axis=0).tolist()
        return value, slope, curvature

    def _sums(self, tile: slice, b: float) -> NDArray[np.float64]:
        """The share of some rows in the means."""
        with np.errstate(over="ignore"):
            exponent = self.gaps[tile] * np.float32(b)
        np.maximum(exponent, np.float32(DEEPEST), out=exponent)
        power, ones = np.exp(exponent), np.ones(exponent.shape[1], np.float32)
        total = (power @ ones).astype(np.float64)
        mean = np.vecdot(power, exponent) / total
        power *= exponent
        second = np.vecdot(power, exponent) / total
        reach = b * self.label_gap[tile]
        rows = np.stack([np.log(total) - reach, mean - reach, mean + second - mean**2 - reach])
        return np.asarray(rows @ self.share[tile])

    def minimiser(self, start: float) -> float | None:
        """The best log b near ``start``; None where Newton's steps do not find it."""
        return newton_root(lambda log_b: self.means(log_b)[1:], start)
