"""How often events came at each promised chance: in bins, by isotonic regression, smoothed.

Every curve comes with two ranges. The interval is that of the frequency: Clopper and Pearson's in
bins and pieces, and by events drawn from the curve itself where it is smooth. The band is where the
curve of a calibrated model would lie: events are drawn with the promised chances, and the curve is
found anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import betaincinv

from calibrant.common.threads import one_blas_thread
from calibrant.common.types import Floats
from calibrant.data.binning import BinStats, Scheme, make_edges
from calibrant.metrics._labelled import Outcomes
from calibrant.metrics._resampling import BinnedRows
from calibrant.metrics.decomposition import IsotonicColumn

Kind = Literal["equal-width", "equal-mass", "isotonic", "smooth"]

_GROUPS = 128  # of equally many rows, at whose means a smooth curve is given
KERNEL_WIDTHS = 2.0 ** np.arange(-6.5, 1.5, 0.5)  # of its kernel, as shares of the rows
_NARROWER = 2


class Ranges(NamedTuple):
    """How ranges are found: their level, how often events are drawn, and by what."""

    level: float
    n_resamples: int
    rng: np.random.Generator

    def around(self, draws: Floats) -> tuple[Floats, Floats]:
        """Where the middle of the draws lies, column by column; of columns of NaN, NaN."""
        tail = (1.0 - self.level) / 2.0
        low, high = np.full((2, draws.shape[1]), np.nan)
        known = ~np.isnan(draws).any(axis=0)
        low[known], high[known] = np.quantile(draws[:, known], [tail, 1.0 - tail], axis=0)
        return low, high


class Curve(NamedTuple):
    """Frequencies at promised chances, with the interval and the band of each point."""

    confidence: Floats
    accuracy: Floats
    weight: Floats
    low: Floats
    high: Floats
    band_low: Floats
    band_high: Floats
    edges: Floats | None
    error: float


def curve_of(part: Outcomes, kind: Kind, n_bins: int, ranges: Ranges) -> Curve:
    """The curve of scores and events."""
    if kind == "isotonic":
        return _isotonic(part, ranges)
    if kind == "smooth":
        with one_blas_thread():  # its products are small: threads would wait for one another
            return _smooth(part, ranges)
    return _binned(part, kind, n_bins, ranges)


# --- bins -------------------------------------------------------------------------------------


def _binned(part: Outcomes, scheme: Scheme, n_bins: int, ranges: Ranges) -> Curve:
    edges = make_edges(part.score, n_bins, scheme, part.weight)
    rows = BinnedRows.of(part, edges)
    stats = rows.stats()
    low, high = clopper_pearson(stats.accuracy, stats.effective_rows, ranges.level)
    draws = [batch.accuracy for batch in rows.null(ranges.n_resamples, ranges.rng)]
    band = ranges.around(np.concatenate(draws)) if draws else _unknown(stats.weight)
    return Curve(
        stats.confidence, stats.accuracy, stats.weight, low, high, *band, edges, stats.error()
    )


def clopper_pearson(share: Floats, rows: Floats, level: float) -> tuple[Floats, Floats]:
    """The interval of a share of so many rows, which covers at least as often as it says."""
    tail = (1.0 - level) / 2.0
    hits = np.clip(share * rows, 0.0, rows)
    misses = rows - hits
    with np.errstate(invalid="ignore"):  # of empty bins: NaN
        low = np.where(hits > 0.0, betaincinv(np.maximum(hits, 1e-12), misses + 1.0, tail), 0.0)
        high = np.where(
            misses > 0.0, betaincinv(hits + 1.0, np.maximum(misses, 1e-12), 1.0 - tail), 1.0
        )
    empty = ~(rows > 0.0)
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def _unknown(like: Floats) -> tuple[Floats, Floats]:
    return np.full_like(like, np.nan), np.full_like(like, np.nan)


# --- isotonic regression ----------------------------------------------------------------------


def _isotonic(part: Outcomes, ranges: Ranges) -> Curve:
    """CORP: constant pieces, each given by its two ends."""
    column = IsotonicColumn.of(part)
    fitted = column.fitted(column.events)
    first = np.r_[True, np.diff(fitted) > 0.0]
    piece = np.cumsum(first) - 1
    ends = np.unique(np.r_[np.flatnonzero(first), np.flatnonzero(np.r_[first[1:], True])])
    sums = [np.bincount(piece, one).astype(np.float64) for one in (column.weight, column.squares)]
    # no interval begins below one before it, or ends above one behind
    low, high = clopper_pearson(fitted[first], sums[0] ** 2 / sums[1], ranges.level)
    low, high = np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
    times, chance = ranges.n_resamples, column.chance
    draws = [column.fitted(column.drawn(ranges.rng, chance))[ends] for _ in range(times)]
    return Curve(
        chance[ends],
        fitted[ends],
        sums[0][piece[ends]],
        low[piece[ends]],
        high[piece[ends]],
        *(ranges.around(np.array(draws)) if draws else _unknown(chance[ends])),
        None,
        float(column.weight @ np.abs(fitted - chance) / column.weight.sum()),
    )


# --- smoothing --------------------------------------------------------------------------------


def _smooth(part: Outcomes, ranges: Ranges) -> Curve:
    """A local line through the residuals of neighbouring rows, plus the chance itself."""
    edges = make_edges(part.score, _GROUPS, "equal-mass", part.weight)
    filled = BinStats.from_confidence(part.score, part.hit, sample_weight=part.weight, edges=edges)
    edges = np.r_[0.0, edges[1:][filled.weight > 0.0]]  # no group is empty
    rows = BinnedRows.of(part, edges)
    stats = rows.stats()
    # Distances are shares of the rows between two groups, so that the kernel is narrow where rows
    # crowd.
    place = np.cumsum(stats.share) - stats.share / 2.0
    lines = np.stack([local_lines(place, stats.weight, width) for width in KERNEL_WIDTHS])

    def heights(batch: BinStats) -> Floats:
        return np.asarray(stats.confidence + _smoothed(batch.gap, lines, stats.share))

    def drawn(chance_at: Callable[[Floats], Floats] | None) -> Floats:
        batches = rows.null(ranges.n_resamples, ranges.rng, chance_at)
        return np.concatenate([heights(batch) for batch in batches])

    curve = np.clip(heights(stats), 0.0, 1.0)
    band = interval = _unknown(curve)
    if ranges.n_resamples:
        band = ranges.around(drawn(None))
        own = drawn(lambda score: np.interp(score, stats.confidence, curve))
        # A smoothed smooth curve is flatter: only how far the draws scatter is of interest.
        below, above = ranges.around(own - own.mean(axis=0))
        interval = curve + below, curve + above
    error = float(stats.share @ np.abs(curve - stats.confidence))
    low, high, band_low, band_high = np.clip([*interval, *band], 0.0, 1.0)
    return Curve(stats.confidence, curve, stats.weight, low, high, band_low, band_high, None, error)


def _smoothed(gaps: Floats, lines: Floats, share: Floats) -> Floats:
    """The curves of gaps (.., groups), each by the kernel that predicts held-out groups best.

    By a narrower one, to be exact: it has less bias than noise, which intervals can show. ``lines``
    are the matrices of ``local_lines``, the narrowest kernel first.
    """
    flat = np.atleast_2d(gaps)
    curves = flat @ lines.transpose(0, 2, 1)  # (widths, curves, groups)
    own = np.minimum(np.diagonal(lines, axis1=1, axis2=2), 0.999)[:, None]
    losses = ((flat - curves) / (1.0 - own)) ** 2 @ share
    chosen = np.maximum(np.argmin(losses, axis=0) - _NARROWER, 0)
    return np.asarray(curves[chosen, np.arange(len(flat))].reshape(gaps.shape))


def local_lines(place: Floats, weight: Floats, width: float) -> Floats:
    """A matrix from gaps to the heights, at their places, of lines through their neighbours."""
    distance = place - place[:, None]
    kernel = weight * np.exp(-((distance / width) ** 2) / 2.0)
    total, first, second = (
        (kernel * distance**power).sum(axis=1, keepdims=True) for power in (0, 1, 2)
    )
    least = 1e-9 * total * width**2  # where all weight lies in one place, the line is level
    return np.asarray(
        kernel * (second + least - first * distance) / (total * (second + least) - first**2)
    )
