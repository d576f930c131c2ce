"""How the ECE depends on the number of bins, beside what noise alone would show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.documents import PlainDocument
from calibrant.common.random import generator
from calibrant.common.types import Floats, InputKind, RandomState, RowRule
from calibrant.data.binning import Scheme, calibration_error, check_scheme, make_edges
from calibrant.metrics._intervals import check_level, check_resamples
from calibrant.metrics._labelled import labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._outcomes import judged_outcomes
from calibrant.metrics._resampling import BinnedRows, values_of

USUAL_BINS = (2, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100)


@dataclass(frozen=True, repr=False)
class BinSweep(PlainDocument):
    """ECEs of the same rows in ever more bins.

    Parameters
    ----------
    n_bins : ndarray of shape (n_points,)
        The numbers of bins.
    ece : ndarray of shape (n_points,)
        The ECE in so many bins.
    null : ndarray of shape (n_points,)
        The mean ECE of a calibrated model with the same predictions; NaN without resamples.
    null_high : ndarray of shape (n_points,)
        What a share ``level`` of its ECEs does not exceed; NaN without resamples.
    scheme : {"equal-width", "equal-mass"}
        What the bins have in common.
    level : float
        The level of ``null_high``.
    """

    n_bins: NDArray[np.int64]
    ece: Floats
    null: Floats
    null_high: Floats
    scheme: Scheme
    level: float

    def __repr__(self) -> str:
        least, most = self.ece.min(), self.ece.max()
        bins = f"{self.n_bins[0]} to {self.n_bins[-1]} bins"
        return f"BinSweep ({self.scheme}), {bins}: ECE {least:.4f} to {most:.4f}"


def ece_by_bins(
    probs: Any,
    labels: Any,
    *,
    n_bins: Iterable[int] = USUAL_BINS,
    scheme: Scheme = "equal-width",
    level: float = 0.95,
    n_resamples: int = 200,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> BinSweep:
    """Compute the ECE for several numbers of bins.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : iterable of int, default (2, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100)
        The numbers of bins.
    scheme : {"equal-width", "equal-mass"}, default "equal-width"
        Bins of equal width, or with equally many rows.
    level : float, default 0.95
        The level of ``null_high``.
    n_resamples : int, default 200
        How often labels are drawn for what a calibrated model would show; 0 leaves it out.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws; None is 0.
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
    BinSweep
        The ECEs, and those of a calibrated model.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    Few bins hide errors of opposite sign within a bin; many count the noise of the labels as
    error, and a calibrated model's ECE grows about as the root of their number.

    Examples
    --------
    >>> sweep = ece_by_bins([[0.9, 0.1], [0.6, 0.4]], [0, 1], n_bins=[1, 10], n_resamples=0)
    >>> sweep.ece.round(2).tolist()
    [0.25, 0.35]
    """
    check_scheme(scheme)
    check_level(level)
    check_resamples(n_resamples, 0)
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    part = judged_outcomes(data)
    numbers = list(n_bins)
    if not numbers:
        raise ValueError("n_bins must name at least one number of bins, got none")
    rng = generator(random_state)
    found = []
    for number in numbers:
        edges = make_edges(part.score, number, scheme, data.weight_if_any)
        rows = BinnedRows.of(part.score, part.hit, data.weight_if_any, edges)
        mean = high = np.nan
        if n_resamples:
            draws = values_of(calibration_error, rows.null(n_resamples, rng))
            mean, high = float(draws.mean()), float(np.quantile(draws, level))
        found.append((rows.stats().error(), mean, high))
    ece, null, null_high = np.array(found).T
    return BinSweep(np.array(numbers, np.int64), ece, null, null_high, scheme, level)
