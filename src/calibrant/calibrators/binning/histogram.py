"""Histogram binning (Zadrozny and Elkan 2001), one-vs-all or of the top label alone."""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import EXACT, FitInfo
from calibrant.calibrators._one_vs_all import (
    CERTAIN,
    TIE_BREAK,
    ClassColumns,
    Column,
    top_column,
)
from calibrant.calibrators._parameters import check_choice, check_counts
from calibrant.calibrators.binning._bins import (
    SortedScores,
    bin_means,
    equal_mass_cuts,
    padded,
)
from calibrant.common.progress import reporter
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import ColumnMap, Steps, TopLabelMap

MODES = ("one-vs-all", "top-label")
BINNINGS = ("equal-mass", "equal-width")


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
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are.

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

    def _check_parameters(self) -> None:
        check_choice("mode", self.mode, MODES)
        check_choice("binning", self.binning, BINNINGS)
        check_counts(self, "n_bins")

    def _fit_logits(self, data: Rows) -> Fitted:
        info = FitInfo(True, EXACT)
        if self.mode == "top-label":
            return TopLabelMap(
                Steps.join([self._fit_column(top_column(data))]), data.n_classes, CERTAIN
            ), info
        columns = ClassColumns.from_logits(data)
        with reporter(f"fitting {type(self).__name__}", self.progress) as report:
            steps = Steps.join(columns.fit_each(self._fit_column, report))
        formula = ColumnMap(
            steps,
            data.n_classes,
            tie_break=TIE_BREAK if self.normalize else 0.0,
            normalize=self.normalize,
        )
        return formula, info

    def _fit_column(self, column: Column) -> tuple[Floats, Floats]:
        """The inner edges and the share of hits in each bin."""
        scores = SortedScores.of(column.score, column.weight)
        if self.binning == "equal-width" or len(column.score) == 0:
            edges = np.arange(1, self.n_bins) / self.n_bins
        else:
            edges = scores.edges(equal_mass_cuts(column.weight, self.n_bins))
        edges = padded(edges, self.n_bins)
        return edges, bin_means(scores, edges, column.hit.astype(np.float64), column.weight)
