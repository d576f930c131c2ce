"""Calibration errors without bins: SmoothECE and KDE-ECE, from sums in narrow cells.

SmoothECE smooths residuals by a reflected Gaussian kernel:
smECE_s = integral |(1/W) sum_i w_i K_s(t, c_i) (c_i - k_i)| dt, where K_s is a Gaussian of width s
that is reflected at 0 and 1, and s is chosen so that smECE_s = s. Smoothing with reflection is heat
flow on [0, 1] between insulated ends: its eigenfunctions are cosines, so that every bandwidth is a
product with exp(-(pi k s)^2 / 2) in the cosine transform.

KDE-ECE of Mix-n-Match has the scores, and how often they hit, from mirrored triweight kernels.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, fft, idct, ifft, rfft

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import BinStats
from calibrant.metrics._bins import bins_of
from calibrant.metrics._labelled import labelled
from calibrant.metrics._notions import RowNotion

# Bandwidths are sought on the multiples of 2^-10 from the second on, as by the method's authors.
_BANDWIDTH_STEP = 2.0**-10
_POINTS = 4096  # where the smoothed residual is evaluated: 8 points to the smallest bandwidth
_WAVES = 2048  # exp(-(pi k s)^2 / 2) is below 1e-30 from here on at the smallest bandwidth

# The grid of KDE-ECE
_GRID = np.linspace(-0.6, 1.6, 2**14)
_STEP = float(_GRID[1] - _GRID[0])
_INSIDE = slice(*np.searchsorted(_GRID, [0.0, 1.0]))  # neither 0 nor 1 is a grid point
_NARROWEST = 2.0 * _STEP  # a bandwidth that the grid still resolves


# --- SmoothECE --------------------------------------------------------------------------------


@documented
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
    {probs}
    {labels}
    bandwidth : float, optional
        The width of the kernel, from 2^-10 to 1. By default the smallest multiple of 2^-10, from
        2^-9 on, at which the smoothed error is no larger than the bandwidth.
    {notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The error, as a fraction.

    Raises
    ------
    {refused}

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
    if bandwidth is not None:
        if not _BANDWIDTH_STEP <= bandwidth <= 1.0:
            raise ValueError(f"bandwidth must lie in [2^-10, 1], got {bandwidth}")
        return _error_at(waves, np.full(waves.shape[:-1], float(bandwidth)))
    # Bisection on smECE_s - s, which falls with s, for many transforms at once.
    too_narrow = np.ones(waves.shape[:-1], np.int64)
    wide = np.full(waves.shape[:-1], 1024, np.int64)
    for _ in range(10):
        middle = (too_narrow + wide) // 2
        tried: Floats = np.asarray(middle * _BANDWIDTH_STEP, np.float64)
        narrow = tried < _error_at(waves, tried)
        too_narrow = np.where(narrow, middle, too_narrow)
        wide = np.where(narrow, wide, middle)
    return _error_at(waves, np.asarray(np.maximum(wide, 2) * _BANDWIDTH_STEP, np.float64))


def _error_at(waves: Floats, bandwidth: Floats) -> Floats:
    """The mean over [0, 1] of the smoothed residual's size."""
    frequency = np.pi * np.arange(waves.shape[-1]) * bandwidth[..., None]
    smoothed = idct(waves * np.exp(-(frequency**2) / 2.0), n=_POINTS, axis=-1)
    # The transform of a density in cells: the inverse of fewer points keeps its height per cell.
    return np.asarray(np.abs(smoothed).sum(axis=-1))


# --- KDE-ECE ----------------------------------------------------------------------------------


@documented
def kde_ece(
    probs: Any,
    labels: Any,
    order: Literal[1, 2] = 1,
    *,
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the calibration error from kernel densities, without bins.

    Parameters
    ----------
    {probs}
    {labels}
    order : {1, 2}, default 1
        The power of the gap. No root is taken.
    {notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    float
        The error, as a fraction.

    Raises
    ------
    {refused}

    Notes
    -----
    It is ``integral |x - acc(x)|^order f(x) dx / integral f(x) dx``, f being the kernel density of
    the scores and acc(x) the kernel estimate of how often their events come. The score is the
    judged probability (``notion``) divided by its row's sum.
    The bandwidth is (2 N)^(-1/5) times the standard deviation of the scores of the rows with the
    event (of all rows where none has it), N being the number of rows (the sum of whole weights,
    Kish's effective number of others); at least two grid steps, so that equal scores have a defined
    value.

    References
    ----------
    Zhang, Kailkhura and Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
    Calibration in Deep Learning", ICML 2020.

    Examples
    --------
    >>> round(kde_ece([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2]], [0, 0, 1]), 2)
    0.13
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    return kde_error(bins_of("kde-cells", data), order)


def kde_error(stats: BinStats, order: Literal[1, 2] = 1) -> float:
    """The KDE-ECE of one statistic in cells."""
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, got {order!r}")
    filled = stats.weight > 0.0
    place = stats.confidence_sum[filled] / stats.weight[filled]
    weight, hits = stats.weight[filled], stats.correct_sum[filled]
    effective = weight.sum() ** 2 / stats.weight_squares.sum()
    shares = hits if hits.any() else weight
    mean = (shares @ place) / shares.sum()
    deviation = float(np.sqrt((shares @ (place - mean) ** 2) / shares.sum()))
    bandwidth = max(deviation * (2.0 * effective) ** -0.2, _NARROWEST)
    # One complex transform smooths both: the density and its correct part.
    both = _smooth(_linear_binning(place, weight) + 1j * _linear_binning(place, hits), bandwidth)
    density = np.maximum(both.real, 0.0)
    counted = density > 1e-13 * density.max()  # below it lies the rounding of the transform
    accuracy = np.divide(both.imag, density, out=np.zeros_like(density), where=counted)
    gap = np.abs(_GRID[_INSIDE] - np.clip(accuracy, 0.0, 1.0)) ** order
    return float(np.trapezoid(gap * density) / np.trapezoid(density))


def kde_errors(stats: BinStats) -> Floats:
    """The KDE-ECE of each statistic in cells."""
    if stats.weight.ndim == 1:
        return np.asarray(kde_error(stats), np.float64)
    singles = zip(*stats.columns, strict=True)
    values = [kde_error(BinStats(stats.edges, *one)) for one in singles]
    return np.array(values, np.float64)


def _linear_binning(place: Floats, weight: Floats) -> Floats:
    """Weights at these places and at their mirror images, shared between the two grid points."""
    mirrored = np.where(place < 0.5, -place, 2.0 - place)
    position = (np.concatenate([place, mirrored]) - _GRID[0]) / _STEP
    left = position.astype(np.intp)
    both = np.concatenate([weight, weight])
    right_share = both * (position - left)
    parts = ((left, both - right_share), (left + 1, right_share))
    return np.sum([np.bincount(index, share, len(_GRID)) for index, share in parts], axis=0)


def _smooth(sums: NDArray[np.complex128], bandwidth: float) -> NDArray[np.complex128]:
    """The sums under a triweight kernel of that deviation, at the grid points in [0, 1]."""
    reach = 3.0 * bandwidth
    # Places lie in [-0.5, 1.5] on a circle of 2.2: wider kernels would come round to [0, 1].
    length = len(_GRID) if reach < 0.7 else 2 * len(_GRID)
    steps = np.arange(length // 2 + 1)
    bell = np.maximum(1.0 - np.square(steps * (_STEP / reach)), 0.0)
    bell = bell * bell * bell
    kernel = rfft(np.concatenate([bell, bell[-2:0:-1]])).real
    whole = np.concatenate([kernel, kernel[-2:0:-1]])
    return ifft(fft(sums, length) * whole)[: len(_GRID)][_INSIDE]
