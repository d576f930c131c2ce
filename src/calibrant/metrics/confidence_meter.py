"""A meter of confidences alone: for outputs in which the other probabilities were not kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import as_numpy, as_weights
from calibrant._binning import equal_width_edges
from calibrant._tables import counted
from calibrant._types import Floats
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

    Examples
    --------
    >>> meter = ConfidenceMeter().update([0.9, 0.8, 0.6], [2, 0, 1], [2, 0, 0])
    >>> round(meter.compute().accuracy, 4)
    0.6667
    """

    def __init__(self, n_bins: int = DEFAULT_BINS) -> None:
        equal_width_edges(n_bins)  # refuses what is no number of bins
        self.n_bins = int(n_bins)
        self._state = MeterState.empty(Layout(self.n_bins, 2, False, ("accuracy",), "confidence"))
        self._n_classes = 0

    def __repr__(self) -> str:
        rows = counted(int(self._state.count("rows")), "row")
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
        if ignore_index is not None:
            kept = true != ignore_index
            said, chosen, true, weight = said[kept], chosen[kept], true[kept], weight[kept]
        _check(said, chosen, true)
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
            added = MeterState.empty(self._state.layout)
            added.add(rows)
            self._state = self._state + added
            self._n_classes = max(self._n_classes, 1 + int(max(chosen.max(), true.max())))
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
        merged._state = self._state + other._state
        merged._n_classes = max(self._n_classes, other._n_classes)
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
        if not self._state.count("rows"):
            raise ValueError("a meter must see at least one row before compute, got none")
        full = report(self._state)
        known = {name: value for name, value in full.metrics.items() if _is_readable(name)}
        return replace(full, metrics=known, n_classes=self._n_classes)

    @property
    def counts(self) -> NDArray[np.int64]:
        """All counts as one flat vector (a copy)."""
        return self._state.counts.copy()

    @property
    def sums(self) -> Floats:
        """All sums as one flat vector (a copy)."""
        return self._state.sums.copy()


def _is_readable(name: str) -> bool:
    metric = METRICS[name]
    reads = metric.reads if metric.merging is None else metric.merging.reads or metric.reads
    return name == "accuracy" or reads in _READABLE


def _check(said: Floats, chosen: NDArray[Any], true: NDArray[Any]) -> None:
    bad = ~((said >= 0.0) & (said <= 1.0 + 1e-6))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"confidences must lie in [0, 1], got {said[row]} in row {row}")
    for name, array in (("predictions", chosen), ("labels", true)):
        if array.dtype.kind not in "iu" or (len(array) and array.min() < 0):
            raise ValueError(f"{name} must be classes: whole numbers of at least 0")
