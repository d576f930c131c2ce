"""Intervals of calibration errors: which true errors may show the observed one?

Noise makes a calibration error larger, the more so the smaller the true one is: drawing rows again
adds noise to noise, and no shift of what it gives covers both ends. So tests are inverted. A family
of true accuracies, confidence + s * gap, runs from a calibrated model (s = 0) through the gaps that
the rows show (s = 1) and beyond. Hits drawn from each member tell what error it shows, and without
noise its true error is known. The interval holds the true errors of all members that are likely
enough to show what was observed.

The gaps are themselves noisy, and gaps that are too rough take too much of the error for noise. Two
families are inverted, with the gaps of 15 bins and with a parabola through them, and the interval
is that of both together. `make statistics` shows what it covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.data.binning import BinStats, bin_index, equal_mass_edges
from calibrant.metrics._resampling import BinnedRows, Statistic

SCALES = np.array([0.0, 0.3, 0.6, 0.85, 1.1, 1.4, 1.9, 3.0, 6.0])  # s
PATTERN_BINS = 15
FEWEST_DRAWS = 400  # of hits, for each member: the ends are far out in the tails


@dataclass(frozen=True)
class Family:
    """True errors along the scales, and the errors shown there."""

    true: Floats  # (scales, statistics)
    shown: Floats  # (scales, draws, statistics)


def families(
    rows: BinnedRows,
    statistics: Sequence[Statistic],
    n_draws: int,
    rng: np.random.Generator,
) -> list[Family]:
    """Both families, for statistics of the same bins."""
    if not statistics:
        return []
    bins = _Bins.of(rows)
    draws = max(n_draws, FEWEST_DRAWS)
    return [_family(bins, gap, statistics, draws, rng) for gap in _gaps(rows)]


def _family(
    bins: _Bins,
    gap: Floats,
    statistics: Sequence[Statistic],
    n_draws: int,
    rng: np.random.Generator,
) -> Family:
    true, shown = [], []
    for scale in SCALES:
        chance = np.clip(bins.rows.confidence + scale * gap, 0.0, 1.0)
        true.append([float(statistic(bins.expected(chance))) for statistic in statistics])
        drawn = bins.drawn(chance, n_draws, rng)
        shown.append(np.stack([statistic(drawn) for statistic in statistics], axis=-1))
    return Family(np.array(true), np.array(shown))


# --- what members look like -------------------------------------------------------------------


@dataclass(frozen=True)
class _Bins:
    """Rows in the bins of an error, to be given other hits."""

    rows: BinnedRows
    index: NDArray[np.intp]
    fixed: BinStats

    @classmethod
    def of(cls, rows: BinnedRows) -> _Bins:
        return cls(rows, bin_index(rows.confidence, rows.edges), rows.stats())

    def expected(self, chance: Floats) -> BinStats:
        """The bins if every row hit as often as its chance says."""
        return self._with_hits(self._sums(self.rows.weight * self.rows.count * chance))

    def drawn(self, chance: Floats, n_draws: int, rng: np.random.Generator) -> BinStats:
        """The bins of many draws: the hits of a bin, not of a row, are drawn.

        Of rows that weigh the same that is a binomial number, which has the right mean and hardly
        more than the right variance; of others a normal one, which has both.
        """
        weight, copies = self.rows.weight, self.rows.count
        mean = self._sums(weight * copies * chance)
        shape = (n_draws, len(mean))
        if np.all(weight == weight[0]):
            count = np.rint(self.fixed.weight / weight[0]).astype(np.int64)
            share = np.clip(mean / np.maximum(self.fixed.weight, 1e-300), 0.0, 1.0)
            return self._with_hits(weight[0] * rng.binomial(count, share, shape))
        spread = np.sqrt(self._sums(weight**2 * copies * chance * (1.0 - chance)))
        hits = mean + spread * rng.standard_normal(shape)
        return self._with_hits(np.clip(hits, 0.0, self.fixed.weight))

    def _sums(self, values: Floats) -> Floats:
        return sums_by_bin(self.index, values, len(self.rows.edges) - 1)

    def _with_hits(self, hits: Floats) -> BinStats:
        fixed = (self.fixed.weight, self.fixed.confidence_sum, self.fixed.weight_squares)
        weight, confidence, squares = (np.broadcast_to(column, hits.shape) for column in fixed)
        return BinStats(self.rows.edges, weight, confidence, hits, squares)


def sums_by_bin(index: NDArray[np.intp], values: Floats, size: int) -> Floats:
    """The sums of the values in each bin."""
    return np.asarray(np.bincount(index, values, size), np.float64)


def _gaps(rows: BinnedRows) -> tuple[Floats, Floats]:
    """Accuracy minus confidence of each row, as bins show it: rough, and as a parabola."""
    row_weight = rows.weight * rows.count
    edges = equal_mass_edges(rows.confidence, PATTERN_BINS, row_weight)
    index, size = bin_index(rows.confidence, edges), len(edges) - 1

    def sums(values: Floats) -> Floats:
        return sums_by_bin(index, row_weight * values, size)

    weight = sums_by_bin(index, row_weight, size)
    filled = weight > 0.0
    total = np.where(filled, weight, 1.0)
    place, gap = sums(rows.confidence) / total, sums(rows.correct - rows.confidence) / total
    sure = sums(rows.confidence * (1.0 - rows.confidence)) / total  # the variance of a row there
    precision = np.sqrt(weight / np.maximum(sure, 1e-4)) * filled
    powers = np.vander(place, 3)
    line = np.linalg.lstsq(powers * precision[:, None], gap * precision, rcond=None)[0]
    return gap[index], np.clip(np.vander(rows.confidence, 3) @ line, -1.0, 1.0)


# --- the interval -----------------------------------------------------------------------------


def inverted_interval(
    observed: float, tried: Sequence[Family], which: int, level: float
) -> tuple[float, float]:
    """The ends for one of the statistics: the lowest and the highest over the families."""
    tail = (1.0 - level) / 2.0
    ends = [_ends(observed, f.true[:, which], f.shown[:, :, which], tail) for f in tried]
    return min(low for low, _ in ends), max(high for _, high in ends)


def without_noise(observed: float, tried: Sequence[Family], which: int) -> float:
    """The true error of the members that show less than the observed one as often as more."""
    found = []
    for family in tried:
        median = np.maximum.accumulate(np.median(family.shown[:, :, which], axis=1))
        found.append(np.interp(_crossing(median, observed), SCALES, family.true[:, which]))
    return float(np.mean(found))


def spread(tried: Sequence[Family], which: int) -> float:
    """The standard deviation of the error that the rows' own gaps show."""
    near = int(np.argmin(np.abs(SCALES - 1.0)))
    return float(tried[0].shown[near, :, which].std())


def _ends(observed: float, true: Floats, shown: Floats, tail: float) -> tuple[float, float]:
    """The true errors of the first and the last member that may show the observed error.

    A calibrated model may show less than was observed with a small chance, too: the last member's
    chance is taken as a share of that, so that no interval is empty (the method "CLs").
    """
    below = float(np.mean(shown[0] <= observed))
    high_quantile = np.quantile(shown, 1.0 - tail, axis=1)
    low_quantile = np.quantile(shown, tail * max(below, 1.0 / shown.shape[1]), axis=1)
    first = _crossing(np.maximum.accumulate(high_quantile), observed)
    last = _crossing(np.maximum.accumulate(low_quantile), observed)
    low, high = np.interp([first, last], SCALES, true)
    return float(low), float(high)


def _crossing(quantile: NDArray[Any], observed: float) -> float:
    """The scale at which a rising quantile reaches the observed error."""
    if observed <= quantile[0]:
        return 0.0
    if observed >= quantile[-1]:
        return float(SCALES[-1])
    after = int(np.searchsorted(quantile, observed))
    before = after - 1
    part = (observed - quantile[before]) / max(quantile[after] - quantile[before], 1e-300)
    return float(SCALES[before] + part * (SCALES[after] - SCALES[before]))
