"""Histogram binning (Zadrozny and Elkan 2001), one-vs-all or of the top label alone."""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import EXACT, FitInfo
from calibrant.calibrators._one_vs_all import CERTAIN, TIE_BREAK, ClassColumns, Column
from calibrant.calibrators._parameters import Choice, Count, constraints
from calibrant.calibrators.binning._bins import SortedScores
from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import ColumnMap, Steps, TopLabelMap


@documented
class HistogramBinning(LogitCalibrator):
    """A probability becomes the share of hits in its bin. Preserves accuracy for the top label.

    Parameters
    ----------
    mode : {"one-vs-all", "top-label"}, default "one-vs-all"
        "one-vs-all" bins each class' probability and takes the share of labels of that class; it
        does not preserve accuracy. "top-label" bins only the largest probability and takes the
        share of right predictions. That is the new confidence of the top class; the others share
        the rest in their old proportions, evened out where the second would pass the first. The
        arg max stays; for that a confidence below 1 / (number of classes) is raised to it.
    n_bins : int, default 10
        The number of bins. A bin that is empty keeps its midpoint.
    binning : {"equal-mass", "equal-width"}, default "equal-mass"
        Whether bins hold equal weight or have equal width.
    normalize : bool, default True
        One-vs-all: add 1e-9 p, which breaks ties, and divide by the row sum; False gives the
        shares themselves.
    {fit_progress}
    {input_logits}

    Notes
    -----
    With p = softmax(z), f_c(p_c) is the weight of the fitting rows labelled c in the bin of p_c,
    divided by the weight of all fitting rows there. The probabilities are f_c(p_c) + 1e-9 p_c,
    divided by their sum over the classes. For the top label there is one f, of max p, and a row is
    a hit where the arg max is its label.

    References
    ----------
    Zadrozny and Elkan, "Obtaining calibrated probability estimates from decision trees and naive
    Bayesian classifiers", ICML 2001.

    Examples
    --------
    >>> logits = [[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
    >>> HistogramBinning(n_bins=2).fit(logits, [0, 1, 0, 1]).predict_proba([[1.5, 0.0]]).round(3)
    array([[0.5, 0.5]])
    """

    _constraints = constraints(
        mode=Choice("one-vs-all", "top-label"),
        binning=Choice("equal-mass", "equal-width"),
        n_bins=Count(),
    )

    def __init__(
        self,
        mode: Literal["one-vs-all", "top-label"] = "one-vs-all",
        n_bins: int = 10,
        binning: Literal["equal-mass", "equal-width"] = "equal-mass",
        normalize: bool = True,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.mode = mode
        self.n_bins = n_bins
        self.binning = binning
        self.normalize = normalize
        self.progress = progress
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return self.mode == "top-label"

    def _fit_logits(self, data: Rows) -> Fitted:
        info = FitInfo(True, EXACT)
        if self.mode == "top-label":
            steps = Steps.join([self._fit_column(Column.of_top_label(data))])
            return TopLabelMap(steps, data.n_classes, CERTAIN), info
        columns = ClassColumns.of_probabilities(data)
        formula = ColumnMap(
            Steps.join(columns.fit_each(self._fit_column, type(self).__name__, self.progress)),
            data.n_classes,
            tie_break=TIE_BREAK if self.normalize else 0.0,
            normalize=self.normalize,
        )
        return formula, info

    def _fit_column(self, column: Column) -> tuple[Floats, Floats]:
        """The inner edges and the share of hits in each bin."""
        scores = SortedScores.of(column.score, column.weight)
        if self.binning == "equal-width" or len(column) == 0:
            edges = np.arange(1, self.n_bins) / self.n_bins
        else:
            edges = scores.equal_mass_edges(self.n_bins)
        return edges, scores.means(edges, column.target)
