"""SmoothECE: residuals smoothed by a reflected Gaussian kernel.

smECE_s = integral |(1/W) sum_i w_i K_s(t, c_i) (c_i - k_i)| dt, where K_s is a Gaussian of width s
that is reflected at 0 and 1, and s is chosen so that smECE_s = s. Smoothing with reflection is heat
flow on [0, 1] between insulated ends: its eigenfunctions are cosines, so that every bandwidth is a
product with exp(-(pi k s)^2 / 2) in the cosine transform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import dct, idct

from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import BinStats
from calibrant.metrics._labelled import labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._readings import bins_of

# Bandwidths are sought on the multiples of 2^-10 from the second on, as by the method's authors.
_STEP = 2.0**-10
_POINTS = 4096  # where the smoothed residual is evaluated: 8 points to the smallest bandwidth
_WAVES = 2048  # exp(-(pi k s)^2 / 2) is below 1e-30 from here on at the smallest bandwidth


def smooth_ece(
    probs: Any,
    labels: Any,
    *,
    bandwidth: float | None = None,
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the SmoothECE; by default at its self-consistent bandwidth.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    bandwidth : float, optional
        The width of the kernel, from 2^-10 to 1. By default the smallest multiple of 2^-10, from
        2^-9 on, at which the smoothed error is no larger than the bandwidth.
    notion : {"class-1", "confidence"}, optional
        Whose calibration: class 1's of two classes, or the confidence's. By default class 1's
        with two classes, and the confidence's with more.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    ignore_index : int, optional
        Rows with this label are left out.

    Returns
    -------
    float
        The error, as a fraction.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    It is the integral over t in [0, 1] of ``|sum_i w_i K_s(t, c_i) (c_i - k_i)| / W``, with the
    confidences c_i, the hits k_i and a Gaussian K_s of width s that is reflected at 0 and 1.

    References
    ----------
    Blasiok and Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing",
    2023.

    Examples
    --------
    >>> round(smooth_ece([[0.8, 0.2], [0.8, 0.2]], [0, 1]), 3)
    0.3
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    return float(smooth_error(bins_of("cells", data), bandwidth))


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
    # The transform of a density in cells: the inverse of fewer points keeps its height per cell.
    return np.asarray(np.abs(smoothed).sum(axis=-1))
