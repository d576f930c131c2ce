"""KDE-ECE of Mix-n-Match: scores and how often they hit, from mirrored triweight kernels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft, ifft, rfft

from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import BinStats
from calibrant.metrics._labelled import labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._readings import bins_of

_GRID = np.linspace(-0.6, 1.6, 2**14)
_STEP = float(_GRID[1] - _GRID[0])
_INSIDE = slice(*np.searchsorted(_GRID, [0.0, 1.0]))  # neither 0 nor 1 is a grid point
_NARROWEST = 2.0 * _STEP  # a bandwidth that the grid still resolves


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
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    order : {1, 2}, default 1
        The power of the gap. No root is taken.
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
    singles = zip(*stats.columns, strict=True)
    values = [kde_error(BinStats(stats.edges, *one)) for one in singles]
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
