"""PBMC: Platt scaling, then binning of the scaled outputs, a class (Kumar, Liang and Ma 2019)."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant._arrays import InputKind
from calibrant._errors import CalibrationWarning
from calibrant._progress import reporter
from calibrant.calibrators._bins import (
    SortedScores,
    bin_means,
    equal_mass_cuts,
    look_up,
    padded,
)
from calibrant.calibrators._columns import ClassColumns, Column, ColumnCalibrator, Floats
from calibrant.calibrators._logistic import fit_logistic
from calibrant.profile import available_cores

CLIP = 1e-12  # of the authors' code, before the log-odds are taken
BLOCK_ELEMENTS = 131_072  # classes are fitted together in blocks of this size


class PlattBinner(ColumnCalibrator):
    """Each class' probability through its own sigmoid, then its bin's mean.

    Does not preserve accuracy. For every class c: sigma(a x + b) with x the log-odds of p_c is
    fitted to "the label is c" by maximum likelihood, its outputs on the fitting rows are cut into
    ``n_bins`` bins of equal mass, and a new output becomes the mean output of its bin. (The name is
    that of the class ``PlattBinnerMarginalCalibrator`` of the authors.)

    A class that no label names, or that every label names, has no such sigmoid: its probability
    stays as it is, and a ``CalibrationWarning`` says so. ``normalize=True`` adds 1e-9 p, which
    breaks ties, and divides by the row sum; ``normalize=False`` gives the authors' bin means.
    ``verbose`` shows progress on standard error.
    """

    _state = ("coefficients_", "edges_", "means_", "kept_")

    def __init__(
        self,
        n_bins: int = 10,
        normalize: bool = True,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.n_bins = n_bins
        self.normalize = normalize
        self.verbose = verbose
        self.input = input

    def _fit_logits(self, logits: Floats, labels: NDArray[np.int64], weight: Floats) -> None:
        if self.n_bins < 1:
            raise ValueError(f"n_bins must be at least 1, got {self.n_bins}")
        columns = ClassColumns.from_logits(logits, labels, weight)
        fits = self._fit_classes(columns)
        self.coefficients_ = np.column_stack([fit.coefficients for fit in fits])
        self.edges_ = np.column_stack([fit.edges for fit in fits])
        self.means_ = np.column_stack([fit.means for fit in fits])
        self.kept_ = np.array([fit.kept for fit in fits])
        self._tell(int(columns.absent.sum()), [fit.converged for fit in fits])

    def _fit_classes(self, columns: ClassColumns) -> list[_ClassFit]:
        width = max(1, BLOCK_ELEMENTS // len(columns.labels))
        starts = range(0, len(columns), width)
        blocks = [np.arange(start, min(start + width, len(columns))) for start in starts]
        fits: list[_ClassFit] = []
        with (
            reporter("fitting PlattBinner", self.verbose) as report,
            ThreadPoolExecutor(available_cores()) as pool,
        ):
            for done in pool.map(lambda block: _fit_block(columns, block, self.n_bins), blocks):
                fits.extend(done)
                report(len(fits), len(columns))
        return fits

    def _tell(self, absent: int, converged: list[bool]) -> None:
        kept, slow = int(self.kept_.sum()), len(converged) - sum(converged)
        self.fit_info_ = {
            "converged": slow == 0,
            "message": "converged" if slow == 0 else f"{slow} classes stopped early",
            "loss": "nll",
            "absent_classes": absent,
            "kept_classes": kept,
        }
        if kept:
            warnings.warn(
                f"PBMC: {kept} of {len(converged)} classes have no label, or no other label, to "
                "fit a sigmoid to: their probabilities stay as they are",
                CalibrationWarning,
                stacklevel=4,
            )

    def _map_columns(self, probs: Floats) -> Floats:
        means = look_up(_scaled(probs, self.coefficients_), self.edges_, self.means_)
        return np.where(self.kept_, probs, means)


@dataclass(frozen=True)
class _ClassFit:
    coefficients: Floats  # slope, intercept
    edges: Floats
    means: Floats
    kept: bool
    converged: bool


def _fit_block(columns: ClassColumns, block: NDArray[np.intp], bins: int) -> list[_ClassFit]:
    """Sigmoids of a few classes at once, then their bins."""
    hit = (columns.labels == block[:, None]).astype(np.float64)
    weight = columns.weight[None, :]
    if columns.masked is not None:
        weight = np.where(columns.masked[block], 0.0, weight)
    hits, total = (weight * hit).sum(axis=1), weight.sum(axis=1)
    kept = (hits == 0.0) | (hits == total)
    fitted = np.flatnonzero(~kept)
    coefficients, converged = np.zeros((len(block), 2)), np.ones(len(block), bool)
    if fitted.size:
        log_odds = _log_odds(columns.probs[block[fitted]])
        rows = weight if len(weight) == 1 else weight[fitted]
        fits = fit_logistic([log_odds], hit[fitted], rows)
        coefficients[fitted], converged[fitted] = fits.coefficients, fits.converged
    result = []
    for index, kept_as_is, pair, ended in zip(block, kept, coefficients, converged, strict=True):
        edges, means = _fit_bins(columns.column(int(index)), pair, bins)
        result.append(_ClassFit(pair, edges, means, bool(kept_as_is), bool(ended)))
    return result


def _fit_bins(column: Column, coefficients: Floats, bins: int) -> tuple[Floats, Floats]:
    """Bins of equal mass of the scaled outputs, and the mean output of each."""
    outputs = _scaled(column.score, coefficients)
    scores = SortedScores.of(outputs, column.weight)
    edges = np.empty(0)
    if len(outputs):
        edges = scores.edges(equal_mass_cuts(column.weight, bins))
    edges = padded(edges, bins)
    return edges, bin_means(scores, edges, outputs, column.weight)


def _scaled(probs: Floats, coefficients: Floats) -> Floats:
    """sigma(a x + b) of probabilities, class by class where they have columns."""
    slope, intercept = coefficients
    return expit(slope * _log_odds(probs) + intercept)


def _log_odds(probs: Floats) -> Floats:
    clipped = np.clip(probs, CLIP, 1.0 - CLIP)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
