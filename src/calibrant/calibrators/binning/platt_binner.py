"""PBMC: Platt scaling, then binning of the scaled outputs, per class (Kumar et al. 2019)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._logistic import fit_logistic
from calibrant.calibrators._one_vs_all import TIE_BREAK, ClassColumns
from calibrant.calibrators._parameters import Count, constraints
from calibrant.calibrators.binning._bins import SortedScores
from calibrant.common.docstrings import documented
from calibrant.common.errors import warn
from calibrant.common.progress import reporter
from calibrant.common.threads import available_cores, mapping
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import ClassSigmoids, ColumnMap, Steps
from calibrant.formulas._array_operations import NUMPY

CLIP = 1e-12  # of the authors' code, before the log-odds are taken
BLOCK_ELEMENTS = 131_072  # classes are fitted together in blocks of this size

# Slope and intercept, edges, means, whether it keeps its scores, whether it converged.
ClassFit = tuple[Floats, Floats, Floats, bool, bool]


@documented
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
    {fit_progress}
    {input_logits}

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
    _constraints = constraints(n_bins=Count())

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

    def _fit_logits(self, data: Rows) -> Fitted:
        columns = ClassColumns.of_probabilities(data)
        width = max(1, BLOCK_ELEMENTS // len(data))
        starts = range(0, len(columns), width)
        blocks = [np.arange(start, min(start + width, len(columns))) for start in starts]
        fits: list[ClassFit] = []
        with (
            reporter(f"fitting {type(self).__name__}", self.progress) as report,
            mapping(min(available_cores(), len(blocks))) as on_threads,
        ):
            for done in on_threads(lambda block: _fit_block(columns, block, self.n_bins), blocks):
                fits.extend(done)
                report(len(fits), len(columns))
        lines, edges, means, kept_as_is, converged = zip(*fits, strict=True)
        slope, intercept = np.column_stack(lines)
        kept = np.array(kept_as_is)
        if kept.any():
            warn(
                f"PBMC: {kept.sum()} of {len(fits)} classes have no label, or no other label, to "
                "fit a sigmoid to: their probabilities stay as they are"
            )
        formula = ColumnMap(
            Steps.join(list(zip(edges, means, strict=True))),
            data.n_classes,
            sigmoids=ClassSigmoids(slope, intercept, CLIP),
            kept=kept if kept.any() else None,
            tie_break=TIE_BREAK if self.normalize else 0.0,
            normalize=self.normalize,
        )
        slow = len(fits) - sum(converged)
        message = f"the sigmoids of {slow} classes stopped early: they have too few labels"
        return formula, FitInfo(
            slow == 0,
            message if slow else "converged",
            loss="nll",
            details={"absent_classes": columns.absent_classes, "kept_classes": int(kept.sum())},
        )


def _fit_block(columns: ClassColumns, block: NDArray[np.intp], bins: int) -> list[ClassFit]:
    """Sigmoids of a few classes at once, then bins of equal mass of the outputs of each."""
    hit = (columns.rows.labels == block[:, None]).astype(np.float64)
    weight = columns.rows.weight[None, :]
    if columns.masked is not None:
        weight = np.where(columns.masked[block], 0.0, weight)
    hits, total = (weight * hit).sum(axis=1), weight.sum(axis=1)
    kept = (hits == 0.0) | (hits == total)
    fitted = np.flatnonzero(~kept)
    coefficients, converged = np.zeros((len(block), 2)), np.ones(len(block), bool)
    if fitted.size:
        clipped = np.clip(columns.scores[block[fitted]], CLIP, 1.0 - CLIP)
        log_odds = np.log(clipped) - np.log1p(-clipped)
        rows = weight if len(weight) == 1 else weight[fitted]
        fits = fit_logistic([log_odds], hit[fitted], rows)
        coefficients[fitted], converged[fitted] = fits.coefficients, fits.converged
    result: list[ClassFit] = []
    for index, kept_as_is, pair, ended in zip(block, kept, coefficients, converged, strict=True):
        column = columns.column(int(index))
        # as the formula computes them: an output must fall into its own bin again
        sigmoid = ClassSigmoids(pair[:1], pair[1:], CLIP)
        outputs = sigmoid.values(column.score[:, None], NUMPY)[:, 0]
        scores = SortedScores.of(outputs, column.weight)
        edges = scores.equal_mass_edges(bins)
        result.append((pair, edges, scores.means(edges, outputs), bool(kept_as_is), bool(ended)))
    return result
