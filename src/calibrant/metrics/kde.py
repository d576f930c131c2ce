"""KDE-ECE of Mix-n-Match (2020): confidence and accuracy from mirrored triweight kernels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft, ifft, rfft

from calibrant._arrays import RowRule, row_sums, to_numpy
from calibrant._binning import BinStats, Floats
from calibrant.metrics._cells import cell_stats
from calibrant.metrics._door import Labelled, labelled

_GRID = np.linspace(-0.6, 1.6, 2**14)
_STEP = float(_GRID[1] - _GRID[0])
_INSIDE = slice(*np.searchsorted(_GRID, [0.0, 1.0]))  # neither 0 nor 1 is a grid point
_NARROWEST = 2.0 * _STEP  # a bandwidth that the grid still resolves


def kde_ece(
    probs: Any,
    labels: Any,
    order: Literal[1, 2] = 1,
    *,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> float:
    """integral |x - acc(x)|^order f(x) dx / integral f(x) dx, without a root.

    f is the kernel density of the confidences, acc(x) the kernel estimate of the accuracy. The
    confidence is the largest probability divided by its row's sum; with two classes that of class
    1, against "is it class 1". The bandwidth is (2 N)^(-1/5) times the standard deviation of the
    confidences of the correct rows (of all rows where none is correct), N being Kish's effective
    number of rows; at least two grid steps, so that equal confidences have a defined value.
    """
    data = labelled(probs, labels, sample_weight, rows)
    return kde_error(cell_stats(*kde_columns(data), data.given_weight), order)


def kde_columns(data: Labelled) -> tuple[Floats, NDArray[np.bool_]]:
    """The confidences and hits that KDE-ECE speaks of."""
    sums = data.by_tile(lambda tile, _: row_sums(tile))
    if not np.all(sums > 0.0):
        row = int(np.flatnonzero(~(sums > 0.0))[0])
        raise ValueError(f"probs must have a positive value in every row, row {row} has none")
    if data.classes == 2:
        return to_numpy(data.probs[:, 1]).astype(np.float64) / sums, data.labels == 1
    confidence, correct = data.top()
    return confidence / sums, correct


def kde_error(stats: BinStats, order: Literal[1, 2] = 1) -> float:
    """The KDE-ECE of one statistic in cells."""
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, got {order!r}")
    filled = stats.weight > 0.0
    place = stats.confidence_sum[filled] / stats.weight[filled]
    weight, hits = stats.weight[filled], stats.correct_sum[filled]
    effective = weight.sum() ** 2 / stats.weight_squares.sum()
    bandwidth = max(
        _spread(place, hits if hits.any() else weight) * (2.0 * effective) ** -0.2, _NARROWEST
    )
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
    columns = (stats.weight, stats.confidence_sum, stats.correct_sum, stats.weight_squares)
    values = [kde_error(BinStats(stats.edges, *one)) for one in zip(*columns, strict=True)]
    return np.array(values, np.float64)


def _spread(place: Floats, weight: Floats) -> float:
    mean = (weight @ place) / weight.sum()
    return float(np.sqrt((weight @ (place - mean) ** 2) / weight.sum()))


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
