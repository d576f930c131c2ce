"""Histogram binning (Zadrozny and Elkan 2001), one-vs-all or of the top label alone."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import InputKind
from calibrant._progress import reporter
from calibrant.calibrators._arg_max import spread, spread_log, top_label
from calibrant.calibrators._bins import (
    SortedScores,
    bin_means,
    equal_mass_cuts,
    look_up,
    padded,
)
from calibrant.calibrators._columns import (
    ClassColumns,
    Column,
    ColumnCalibrator,
    Floats,
    as_counts,
)

MODES = ("one-vs-all", "top-label")
BINNINGS = ("equal-mass", "equal-width")


class HistogramBinning(ColumnCalibrator):
    """A probability becomes the share of hits in its bin. Does not preserve accuracy one-vs-all.

    ``mode="one-vs-all"`` bins each class' probability and takes the share of labels of that class.
    ``normalize=True`` adds 1e-9 p, which breaks ties, and divides by the row sum;
    ``normalize=False`` gives the shares themselves.

    ``mode="top-label"`` bins only the largest probability and takes the share of right
    predictions. That is the new confidence of the top class; the others share the rest in their
    old proportions, evened out where the second would pass the first. The arg max stays, so this
    mode preserves accuracy; for that a confidence below 1 / (number of classes) is raised to it.

    ``n_bins`` bins hold equal weight (``binning="equal-mass"``) or have equal width. A bin that is
    empty keeps its midpoint. ``verbose`` shows progress on standard error.

    >>> logits = [[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
    >>> HistogramBinning(n_bins=2).fit(logits, [0, 1, 0, 1]).predict_proba([[1.5, 0.0]]).round(3)
    array([[0.5, 0.5]])
    """

    _state = ("edges_", "means_")

    def __init__(
        self,
        mode: Literal["one-vs-all", "top-label"] = "one-vs-all",
        n_bins: int = 10,
        binning: Literal["equal-mass", "equal-width"] = "equal-mass",
        normalize: bool = True,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.mode = mode
        self.n_bins = n_bins
        self.binning = binning
        self.normalize = normalize
        self.verbose = verbose
        self.input = input

    def _fit_logits(self, logits: Floats, labels: NDArray[np.int64], weight: Floats) -> None:
        self._check_parameters()
        if self.mode == "top-label":
            used = weight > 0.0
            top, confidence = top_label(logits[used])
            column = Column(confidence, labels[used] == top, as_counts(weight[used]))
            fits = [self._fit_column(column)]
        else:
            columns = ClassColumns.from_logits(logits, labels, weight)
            with reporter("fitting HistogramBinning", self.verbose) as report:
                fits = columns.fit_each(self._fit_column, report)
        self.edges_ = np.column_stack([edges for edges, _ in fits])
        self.means_ = np.column_stack([means for _, means in fits])
        self.fit_info_ = {"converged": True, "message": "exact", "mode": self.mode}

    def _fit_column(self, column: Column) -> tuple[Floats, Floats]:
        """The inner edges and the share of hits in each bin."""
        scores = SortedScores.of(column.score, column.weight)
        if self.binning == "equal-width" or len(column.score) == 0:
            edges = np.arange(1, self.n_bins) / self.n_bins
        else:
            edges = scores.edges(equal_mass_cuts(column.weight, self.n_bins))
        edges = padded(edges, self.n_bins)
        return edges, bin_means(scores, edges, column.hit.astype(np.float64), column.weight)

    def _check_parameters(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {self.mode!r}")
        if self.binning not in BINNINGS:
            raise ValueError(f"binning must be one of {', '.join(BINNINGS)}, got {self.binning!r}")
        if self.n_bins < 1:
            raise ValueError(f"n_bins must be at least 1, got {self.n_bins}")

    def _map_columns(self, probs: Floats) -> Floats:
        return look_up(probs, self.edges_, self.means_)

    def _probabilities(self, logits: NDArray[Any]) -> NDArray[Any]:
        if self.mode == "one-vs-all":
            return super()._probabilities(logits)
        return spread(logits, self._top_confidence(logits))

    def _log_probabilities(self, logits: NDArray[Any]) -> NDArray[Any]:
        if self.mode == "one-vs-all":
            return super()._log_probabilities(logits)
        return spread_log(logits, self._top_confidence(logits))

    def _top_confidence(self, logits: NDArray[Any]) -> Floats:
        _, confidence = top_label(logits)
        return look_up(confidence[:, None], self.edges_, self.means_)[:, 0]
