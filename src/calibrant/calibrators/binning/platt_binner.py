"""PBMC: Platt scaling, then binning of the scaled outputs, per class (Kumar et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._logistic import fit_logistic
from calibrant.calibrators._one_vs_all import TIE_BREAK, ClassColumns, Column
from calibrant.calibrators._parameters import check_counts
from calibrant.calibrators.binning._bins import (
    SortedScores,
    bin_means,
    equal_mass_cuts,
    padded,
)
from calibrant.common.errors import warn
from calibrant.common.progress import reporter
from calibrant.common.threads import available_cores, mapping
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import ClassSigmoids, ColumnMap, Steps
from calibrant.formulas._array_operations import NUMPY

CLIP = 1e-12  # of the authors' code, before the log-odds are taken
BLOCK_ELEMENTS = 131_072  # classes are fitted together in blocks of this size


class PlattBinner(LogitCalibrator):
    """Platt scaling, then binning, class by class. Does not preserve accuracy.

    ``PlattBinnerMarginalCalibrator`` in the authors' code.

    Parameters
    ----------
    n_bins : int, default 10
        The number of bins.
    normalize : bool, default True
        Add 1e-9 p, which breaks ties, and divide by the row sum; False gives the authors' bin
        means.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are.

    Notes
    -----
    For every class c: sigma(a x + b) with x the log-odds of p_c is fitted to "the label is c" by
    maximum likelihood, its outputs on the fitting rows are cut into ``n_bins`` bins of equal mass,
    and a new output becomes the mean output of its bin. A class that no label names, or that every
    label names, has no such sigmoid: its probability stays as it is, and a ``CalibrationWarning``
    says so.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> PlattBinner().fit(data.val_logits, data.val_labels).fit_info_.details["kept_classes"]
    0
    """

    _gives = ColumnMap

    def __init__(
        self,
        n_bins: int = 10,
        normalize: bool = True,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.n_bins = n_bins
        self.normalize = normalize
        self.progress = progress
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        check_counts(self, "n_bins")

    def _fit_logits(self, data: Rows) -> Fitted:
        columns = ClassColumns.from_logits(data)
        fits = self._fit_classes(columns)
        slope, intercept = np.column_stack([fit.coefficients for fit in fits])
        kept = np.array([fit.kept for fit in fits])
        formula = ColumnMap(
            Steps.join([(fit.edges, fit.means) for fit in fits]),
            data.n_classes,
            sigmoids=ClassSigmoids(slope, intercept, CLIP),
            kept=kept if kept.any() else None,
            tie_break=TIE_BREAK if self.normalize else 0.0,
            normalize=self.normalize,
        )
        return formula, _info(fits, columns.absent_classes)

    def _fit_classes(self, columns: ClassColumns) -> list[_ClassFit]:
        width = max(1, BLOCK_ELEMENTS // len(columns.labels))
        starts = range(0, len(columns), width)
        blocks = [np.arange(start, min(start + width, len(columns))) for start in starts]
        fits: list[_ClassFit] = []
        with (
            reporter(f"fitting {type(self).__name__}", self.progress) as report,
            mapping(min(available_cores(), len(blocks))) as on_threads,
        ):
            for done in on_threads(lambda block: _fit_block(columns, block, self.n_bins), blocks):
                fits.extend(done)
                report(len(fits), len(columns))
        return fits


def _info(fits: Sequence[_ClassFit], absent: int) -> FitInfo:
    kept, slow = sum(fit.kept for fit in fits), sum(not fit.converged for fit in fits)
    if kept:
        warn(
            f"PBMC: {kept} of {len(fits)} classes have no label, or no other label, to fit a "
            "sigmoid to: their probabilities stay as they are"
        )
    message = f"the sigmoids of {slow} classes stopped early: they have too few labels"
    return FitInfo(
        slow == 0,
        message if slow else "converged",
        loss="nll",
        details={"absent_classes": absent, "kept_classes": kept},
    )


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
        log_odds = _log_odds(columns.scores[block[fitted]])
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
    # as the formula computes them: an output must fall into its own bin again
    sigmoid = ClassSigmoids(coefficients[:1], coefficients[1:], CLIP)
    outputs = sigmoid.values(column.score[:, None], NUMPY)[:, 0]
    scores = SortedScores.of(outputs, column.weight)
    edges = np.empty(0)
    if len(outputs):
        edges = scores.edges(equal_mass_cuts(column.weight, bins))
    edges = padded(edges, bins)
    return edges, bin_means(scores, edges, outputs, column.weight)


def _log_odds(probs: Floats) -> Floats:
    clipped = np.clip(probs, CLIP, 1.0 - CLIP)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
