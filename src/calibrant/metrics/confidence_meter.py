"""A meter of confidences alone: for outputs in which the other probabilities were not kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.common.tables import counted
from calibrant.common.threads import OwnLock
from calibrant.common.types import Floats
from calibrant.data.binning import equal_width_edges
from calibrant.data.checks import as_numpy, as_weights
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._meter_report import MeterReport, report
from calibrant.metrics._meter_state import Layout, MeterState
from calibrant.metrics._readings import DEFAULT_BINS
from calibrant.metrics._registry import METRICS

_READABLE = ("equal-width", "equal-mass", "cells")  # what the top label determines


@dataclass(frozen=True)
class _TopLabels(Labelled):
    """Rows of which only the confidence is known, and whether the prediction is right."""

    @property
    def top_label(self) -> tuple[Floats, NDArray[np.bool_]]:
        return self.probs[:, 0], self.labels == 1


class ConfidenceMeter:
    """Metrics of the predicted class' probability, in constant memory; meters merge.

    Parameters
    ----------
    n_bins : int, default 15
        The number of bins.

    See Also
    --------
    CalibrationMeter : The same for whole rows of probabilities, with all metrics.

    Notes
    -----
    Threads may share a meter: every row of every ``update`` is counted once.

    Examples
    --------
    >>> meter = ConfidenceMeter().update([0.9, 0.8, 0.6], [2, 0, 1], [2, 0, 0])
    >>> round(meter.compute().accuracy, 4)
    0.6667
    """

    def __init__(self, n_bins: int = DEFAULT_BINS) -> None:
        equal_width_edges(n_bins)  # refuses what is no number of bins
        self.n_bins = int(n_bins)
        layout = Layout(self.n_bins, 2, False, ("accuracy",), "confidence")
        self._seen = (MeterState.empty(layout), 0)  # and the number of classes; replaced together
        self._lock = OwnLock()  # held while they are replaced

    def __repr__(self) -> str:
        rows = counted(self._seen[0].n_rows, "row")
        return f"ConfidenceMeter({rows}, {counted(self.n_bins, 'bin')})"

    def update(
        self,
        confidences: Any,
        predictions: Any,
        labels: Any,
        sample_weight: Any = None,
        *,
        ignore_index: int | None = None,
    ) -> Self:
        """Add rows. A refused array leaves the meter as it was.

        Parameters
        ----------
        confidences : array of shape (n_rows,)
            The probability of each predicted class.
        predictions : array of shape (n_rows,)
            The predicted classes.
        labels : array of shape (n_rows,)
            The true classes.
        sample_weight : array of shape (n_rows,), optional
            The weight of each row; all 1 by default.
        ignore_index : int, optional
            Rows with this label are left out.

        Returns
        -------
        ConfidenceMeter
            The meter itself.

        Raises
        ------
        ValueError
            Where an array is refused.
        """
        said = as_numpy(confidences, "confidences").astype(np.float64)
        chosen, true = as_numpy(predictions, "predictions"), as_numpy(labels)
        for name, array in (("predictions", chosen), ("labels", true)):
            if array.shape != said.shape or said.ndim != 1:
                raise ValueError(
                    f"confidences and {name} must have one shape (rows,), got {said.shape} and "
                    f"{array.shape}"
                )
        weight = as_weights(sample_weight, len(said))
        kept = (
            np.arange(len(said)) if ignore_index is None else np.flatnonzero(true != ignore_index)
        )
        _check(said, chosen, true, kept)
        said, chosen, true, weight = said[kept], chosen[kept], true[kept], weight[kept]
        if len(said):
            right = (chosen == true).astype(np.int64)
            rows = _TopLabels(
                said[:, None],
                right,
                weight,
                sample_weight is not None,
                streamed=True,
                asked_notion="confidence",
            )
            rows.once("kde-columns", lambda: rows.top_label)
            added = MeterState.empty(self._seen[0].layout)
            added.add(rows)
            classes = 1 + int(max(chosen.max(), true.max()))
            with self._lock:
                state, n_classes = self._seen
                self._seen = (state + added, max(n_classes, classes))
        return self

    def merge(self, other: ConfidenceMeter) -> ConfidenceMeter:
        """Make a new meter of the rows of both; their bins must be the same.

        Parameters
        ----------
        other : ConfidenceMeter
            The meter of other rows.

        Returns
        -------
        ConfidenceMeter
            The meter of all rows.

        Raises
        ------
        ValueError
            Where the numbers of bins differ.
        """
        if self.n_bins != other.n_bins:
            raise ValueError(
                f"meters merge only where their bins are the same, got {self.n_bins} and "
                f"{other.n_bins}"
            )
        merged = ConfidenceMeter(self.n_bins)
        (mine, my_classes), (theirs, their_classes) = self._seen, other._seen
        merged._seen = (mine + theirs, max(my_classes, their_classes))
        return merged

    def compute(self) -> MeterReport:
        """Compute all metrics that the confidences determine.

        Returns
        -------
        MeterReport
            The metrics by name, and the bins. ``n_classes`` is one more than the largest class
            that was predicted or true.

        Raises
        ------
        ValueError
            Where the meter has not seen a row.
        """
        state, n_classes = self._seen
        if not state.n_rows:
            raise ValueError("a meter must see at least one row before compute, got none")
        full = report(state)
        known = {name: value for name, value in full.metrics.items() if _is_readable(name)}
        return replace(full, metrics=known, n_classes=n_classes)

    @property
    def counts(self) -> NDArray[np.int64]:
        """All counts as one flat vector (a copy)."""
        return self._seen[0].counts.copy()

    @property
    def sums(self) -> Floats:
        """All sums as one flat vector (a copy)."""
        return self._seen[0].sums.copy()


def _is_readable(name: str) -> bool:
    metric = METRICS[name]
    reads = metric.reads if metric.merging is None else metric.merging.reads or metric.reads
    return name == "accuracy" or reads in _READABLE


def _check(said: Floats, chosen: NDArray[Any], true: NDArray[Any], rows: NDArray[np.intp]) -> None:
    """Refuse what is wrong in any of these rows; they have the numbers of the arrays given."""
    bad = rows[~((said[rows] >= 0.0) & (said[rows] <= 1.0 + 1e-6))]
    if len(bad):
        raise ValueError(f"confidences must lie in [0, 1], got {said[bad[0]]} in row {bad[0]}")
    for name, array in (("predictions", chosen[rows]), ("labels", true[rows])):
        if array.dtype.kind not in "iu" or (len(array) and array.min() < 0):
            raise ValueError(f"{name} must be classes: whole numbers of at least 0")
