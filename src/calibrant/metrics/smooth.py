"""SmoothECE (Blasiok and Nakkiran 2023): residuals smoothed by a reflected Gaussian kernel.

smECE_s = integral |(1/W) sum_i w_i K_s(t, c_i) (c_i - k_i)| dt, where K_s is a Gaussian of width s
that is reflected at 0 and 1, and s is chosen so that smECE_s = s. Smoothing with reflection is heat
flow on [0, 1] between insulated ends: its eigenfunctions are cosines, so that every bandwidth is a
product with exp(-(pi k s)^2 / 2) in the cosine transform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import dct, idct

from calibrant._arrays import RowRule
from calibrant._binning import BinStats, Floats
from calibrant.metrics._cells import cell_stats
from calibrant.metrics._door import labelled

# Bandwidths are sought on the multiples of 2^-10 from the second on, as by the method's authors.
_STEP = 2.0**-10
_POINTS = 4096  # where the smoothed residual is evaluated: 8 points to the smallest bandwidth
_WAVES = 2048  # exp(-(pi k s)^2 / 2) is below 1e-30 from here on at the smallest bandwidth


def smooth_ece(
    probs: Any,
    labels: Any,
    *,
    bandwidth: float | None = None,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> float:
    """SmoothECE of the top label; by default at its self-consistent bandwidth.

    That is the smallest multiple of 2^-10 (from 2^-9 on) at which the smoothed error is no larger
    than the bandwidth.
    """
    data = labelled(probs, labels, sample_weight, rows)
    return float(smooth_error(cell_stats(*data.top(), data.given_weight), bandwidth))


def smooth_error(stats: BinStats, bandwidth: float | None = None) -> Floats:
    """The SmoothECE of each statistic in cells."""
    residual = stats.confidence_sum - stats.correct_sum
    residual = residual / stats.weight.sum(axis=-1, keepdims=True)
    waves = dct(residual, axis=-1)[..., :_WAVES]
    if bandwidth is None:
        return _error_at(waves, self_consistent_bandwidth(waves))
    if not _STEP <= bandwidth <= 1.0:
        raise ValueError(f"bandwidth must lie in [2^-10, 1], got {bandwidth}")
    return _error_at(waves, np.full(waves.shape[:-1], float(bandwidth)))


def self_consistent_bandwidth(waves: Floats) -> Floats:
    """Bisection on smECE_s - s, which falls with s, for many transforms at once."""
    too_narrow = np.ones(waves.shape[:-1], np.int64)
    wide = np.full(waves.shape[:-1], 1024, np.int64)
    for _ in range(10):
        middle = (too_narrow + wide) // 2
        bandwidth: Floats = np.asarray(middle * _STEP, np.float64)
        narrow = bandwidth < _error_at(waves, bandwidth)
        too_narrow = np.where(narrow, middle, too_narrow)
        wide = np.where(narrow, wide, middle)
    return np.asarray(np.maximum(wide, 2) * _STEP, np.float64)


def _error_at(waves: Floats, bandwidth: Floats) -> Floats:
    """The mean over [0, 1] of the smoothed residual's size."""
    frequency = np.pi * np.arange(waves.shape[-1]) * bandwidth[..., None]
    smoothed = idct(waves * np.exp(-(frequency**2) / 2.0), n=_POINTS, axis=-1)
    # The transform of a density in cells: the inverse of fewer points keeps its height a cell.
    return np.asarray(np.abs(smoothed).sum(axis=-1))
