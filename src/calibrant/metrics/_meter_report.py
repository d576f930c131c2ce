"""What a meter tells: every metric that its sums determine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._binning import BinStats, Floats, calibration_error, equal_cuts
from calibrant.metrics._meter_state import SCORES, MeterState
from calibrant.metrics.binned import debiased_error
from calibrant.metrics.decomposition import BrierDecomposition, binned_calibration, decompose
from calibrant.metrics.kde import kde_error
from calibrant.metrics.smooth import smooth_error


@dataclass(frozen=True)
class MeterReport:
    """Metrics of all rows that a meter has seen, as fractions.

    ``ece_null`` is the mean ECE of a calibrated model with these confidences (normal
    approximation in each bin). ``adaptive_ece`` comes from cells 2^-14 wide: the value from the
    rows themselves lies within ``adaptive_ece_error`` of it. The standard errors are those of the
    means. Classwise parts are None where the meter was told not to keep them.
    """

    rows: int
    accuracy: float
    accuracy_std_error: float
    nll: float
    nll_std_error: float
    brier: float
    brier_std_error: float
    ece: float
    ece_null: float
    rms_ece: float
    mce: float
    debiased_ece: float
    adaptive_ece: float
    adaptive_ece_error: float
    smooth_ece: float
    kde_ece: float
    classwise_ece: float | None
    brier_decomposition: BrierDecomposition | None
    bins: BinStats

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists."""
        document = asdict(self)
        document["bins"] = {name: values.tolist() for name, values in document["bins"].items()}
        return document


def report(state: MeterState) -> MeterReport:
    """Everything that the sums determine."""
    total = float(state.sum("weight"))
    means, errors = _means(state, total)
    if int(state.count("impossible")):
        means["nll"] = errors["nll"] = np.inf
    bins, cells = state.stats("bins"), state.stats("cells")
    adaptive, adaptive_error = equal_mass_error(cells, state.bins)
    classwise = decomposition = None
    if state.classwise:
        class_bins = state.stats("class_bins")
        classwise = float(calibration_error(class_bins).mean())
        shares = state.sum("label_weight") / total
        decomposition = decompose(means["brier"], binned_calibration(class_bins), shares)
    noise = np.sqrt(state.sum("null_variance") * (2.0 / np.pi))  # E|X| of a normal X
    return MeterReport(
        rows=int(state.count("rows")),
        **means,
        **{f"{name}_std_error": value for name, value in errors.items()},
        ece=bins.error(),
        ece_null=float(noise.sum() / total),
        rms_ece=bins.error(2),
        mce=bins.error("max"),
        debiased_ece=float(debiased_error(bins)),
        adaptive_ece=adaptive,
        adaptive_ece_error=adaptive_error,
        smooth_ece=float(smooth_error(cells)),
        kde_ece=kde_error(state.stats("kde_cells")),
        classwise_ece=classwise,
        brier_decomposition=decomposition,
        bins=BinStats(bins.edges, *(sums.copy() for sums in state.sum("bins"))),
    )


def equal_mass_error(cells: BinStats, bins: int) -> tuple[float, float]:
    """The equal-mass ECE with edges at cells, and how far the one from the rows may be from it.

    A cut that falls within a cell moves to the cell's end. The rows that change bins by that lie
    in the cell behind the cut, and change the error by at most twice their residuals.
    """
    filled = np.flatnonzero(cells.weight > 0.0)
    mass = np.cumsum(cells.weight[filled])
    cuts = equal_cuts(mass, bins)
    holding = np.searchsorted(mass, cuts, side="left")
    ends, first = np.unique(holding, return_index=True)
    starts = np.concatenate([[0], filled[ends] + 1])
    starts = starts[starts < len(cells.weight)]
    residual = np.add.reduceat(cells.confidence_sum - cells.correct_sum, starts)
    moved = _residual_bound(cells, filled[ends], mass[ends] - cuts[first])
    return float(np.abs(residual).sum() / mass[-1]), float(2.0 * moved.sum() / mass[-1])


def _residual_bound(cells: BinStats, index: NDArray[np.intp], moved: Floats) -> Floats:
    """The most that rows of a cell, of this total weight, can add up to in |c - hit|."""
    low, high = cells.edges[index], cells.edges[index + 1]
    hits = cells.correct_sum[index]
    every_row = (cells.weight[index] - hits) * high + hits * (1.0 - low)
    return np.minimum(every_row, moved * np.maximum(high, 1.0 - low))


def _means(state: MeterState, total: float) -> tuple[dict[str, float], dict[str, float]]:
    """Means of the scores and their standard errors, sqrt(sum w^2 (s - mean)^2) / sum w."""
    first, weighted, squares = state.sum("moments").T
    means = first / total
    variance = squares - 2.0 * means * weighted + means**2 * float(state.sum("weight_squares"))
    errors = np.sqrt(np.maximum(variance, 0.0)) / total
    return (
        dict(zip(SCORES, map(float, means), strict=True)),
        dict(zip(SCORES, map(float, errors), strict=True)),
    )
