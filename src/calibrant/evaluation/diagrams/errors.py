"""Where a model errs: calibration errors by bins and by class, wrong predictions by coverage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from reprlib import repr as shown
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant.common.docstrings import documented
from calibrant.common.json import PlainDocument
from calibrant.common.tables import counted
from calibrant.common.types import Floats, InputKind, RandomState, RowRule, generator
from calibrant.data import binning
from calibrant.data.binning import BinStats, Scheme
from calibrant.metrics._bins import class_stats
from calibrant.metrics._intervals import check_level, check_resamples
from calibrant.metrics._labelled import judged_outcomes, labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._resampling import BinnedRows, values_of

USUAL_BINS = (2, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100)
GapNotion = Literal["top-label", "classwise"]
_MOST_POINTS = 500  # of a risk-coverage curve


# --- the ECE by the number of bins ------------------------------------------------------------


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


@documented
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
    {probs}
    {labels}
    n_bins : iterable of int, default (2, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100)
        The numbers of bins.
    scheme : {"equal-width", "equal-mass"}, default "equal-width"
        Bins of equal width, or with equally many rows.
    level : float, default 0.95
        The level of ``null_high``.
    n_resamples : int, default 200
        How often labels are drawn for what a calibrated model would show; 0 leaves it out.
    {random_state}
    {notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    BinSweep
        The ECEs, and those of a calibrated model.

    Raises
    ------
    {refused}

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
    binning.check_scheme(scheme)
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
        edges = binning.make_edges(part.score, number, scheme, part.sample_weight)
        rows = BinnedRows.of(part, edges)
        mean = high = np.nan
        if n_resamples:
            draws = values_of(binning.calibration_error, rows.null(n_resamples, rng))
            mean, high = float(draws.mean()), float(np.quantile(draws, level))
        found.append((rows.stats().error(), mean, high))
    ece, null, null_high = np.array(found).T
    return BinSweep(np.array(numbers, np.int64), ece, null, null_high, scheme, level)


# --- gaps by class ----------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ClassGaps(PlainDocument):
    """Accuracy minus confidence by class and bin; rows are classes, columns bins.

    Parameters
    ----------
    notion : {"top-label", "classwise"}
        Whether a row holds the rows that predict its class, or the probability that all rows give
        it.
    bins : BinStats
        Weights, confidences and events of shape (n_classes, n_bins).
    """

    notion: GapNotion
    bins: BinStats

    def __repr__(self) -> str:
        classes, bins = self.gap.shape
        return f"ClassGaps ({self.notion}): {counted(classes, 'class')}, {counted(bins, 'bin')}"

    @property
    def gap(self) -> Floats:
        """Accuracy minus confidence: negative where over-confident; NaN where no row falls."""
        return self.bins.gap

    @property
    def by_class(self) -> Floats:
        """The gap of all rows of a class together; NaN for a class without any."""
        weight = self.bins.weight.sum(axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(self.bins.residual.sum(axis=1) / weight)

    @property
    def z(self) -> Floats:
        """The gaps in standard errors of a calibrated model; NaN where no row falls.

        A miss of what was certain is infinitely many of them, and no gap is always 0.
        """
        chance, rows = np.clip(self.bins.confidence, 0.0, 1.0), self.bins.effective_rows
        with np.errstate(invalid="ignore", divide="ignore"):
            z = self.gap / np.sqrt(chance * (1.0 - chance) / rows)
        return np.where(self.gap == 0.0, 0.0, z)


@documented
def class_gaps(
    probs: Any,
    labels: Any,
    *,
    notion: GapNotion = "top-label",
    n_bins: int = 10,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> ClassGaps:
    """Compute over- and under-confidence by class and bin of confidence.

    Parameters
    ----------
    {probs}
    {labels}
    notion : {"top-label", "classwise"}, default "top-label"
        Of the confidence among the rows with the same prediction, or of the probability of each
        class among all rows.
    n_bins : int, default 10
        The number of bins of equal width.
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    ClassGaps
        The gaps, weights and standard errors.

    Raises
    ------
    {refused}

    Examples
    --------
    >>> gaps = class_gaps([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1], n_bins=2)
    >>> gaps.by_class.round(2).tolist()
    [-0.3, 0.3]
    """
    if notion not in ("top-label", "classwise"):
        raise ValueError(f'notion must be "top-label" or "classwise", got {shown(notion)}')
    binning.check_count(n_bins, "n_bins")
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    edges = binning.equal_width_edges(n_bins)
    if notion == "classwise":
        return ClassGaps(notion, class_stats(data, edges))
    confidence, correct = data.top_label
    predicted = data.by_tile(lambda tile, _: array_namespace(tile).argmax(tile, axis=1))
    flat = predicted.astype(np.intp) * n_bins + binning.bin_index(confidence, edges)
    shape = (data.n_classes, n_bins)
    sums = []
    for column in (data.weight, data.weight * confidence, data.weight * correct, data.squares):
        total = np.bincount(flat, column, data.n_classes * n_bins)
        sums.append(np.asarray(total, np.float64).reshape(shape))
    return ClassGaps(notion, BinStats(edges, *sums))


# --- wrong predictions by coverage ------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class RiskCoverage(PlainDocument):
    """How the error rate falls where the least confident rows are left to somebody else.

    Parameters
    ----------
    coverage : ndarray of shape (n_points,)
        The share of the rows that are answered, the surest first.
    risk : ndarray of shape (n_points,)
        The share of these whose prediction is wrong.
    confidence : ndarray of shape (n_points,)
        The least confidence of the rows that are answered.
    optimal : ndarray of shape (n_points,)
        The risk where every right prediction came before every wrong one.
    aurc : float
        The area under the curve: the mean risk over all coverages.
    excess_aurc : float
        That area less the optimal one.
    n_rows : int
        The number of rows.
    """

    coverage: Floats
    risk: Floats
    confidence: Floats
    optimal: Floats
    aurc: float
    excess_aurc: float
    n_rows: int

    def __repr__(self) -> str:
        areas = f"AURC {self.aurc:.4f}, {self.excess_aurc:.4f} above the optimum"
        return f"RiskCoverage of {counted(self.n_rows, 'row')}: {areas}"


@documented
def risk_coverage(
    probs: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> RiskCoverage:
    """Compute the error rate among the surest rows, for every share of them.

    Parameters
    ----------
    {probs}
    {labels}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    RiskCoverage
        The curve, at 500 coverages at most, and the area under the whole of it.

    Raises
    ------
    {refused}

    Notes
    -----
    Rows of equal confidence are answered together: no order among them is better than another.
    A map that keeps the order of the confidences, such as temperature scaling with two classes,
    leaves the curve as it is; a temperature per row may change it.

    References
    ----------
    Geifman and El-Yaniv, "Selective Classification for Deep Neural Networks", NeurIPS 2017.
    Geifman, Uziel and El-Yaniv, "Bias-Reduced Uncertainty Estimation for Deep Neural
    Classifiers", ICLR 2019.

    Examples
    --------
    >>> curve = risk_coverage([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [0, 0, 1])
    >>> curve.risk.round(2).tolist()
    [0.0, 0.0, 0.33]
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    confidence, correct = data.top_label
    counts = data.weight > 0.0
    sure, group = np.unique(-confidence[counts], return_inverse=True)
    weight = np.bincount(group, data.weight[counts])
    wrong = np.bincount(group, data.weight[counts] * ~correct[counts])
    answered, errors = np.cumsum(weight), np.cumsum(wrong)
    coverage, risk = answered / answered[-1], errors / answered
    # at best there is no error until all right predictions are answered
    best = np.maximum(coverage - (1.0 - risk[-1]), 0.0) / coverage
    area = float(weight @ risk / answered[-1])
    at = np.unique(np.linspace(0, len(sure) - 1, _MOST_POINTS).round().astype(np.intp))
    return RiskCoverage(
        coverage=coverage[at],
        risk=risk[at],
        confidence=-sure[at],
        optimal=best[at],
        aurc=area,
        excess_aurc=area - float(weight @ best / answered[-1]),
        n_rows=data.n_rows,
    )
