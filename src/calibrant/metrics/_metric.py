"""What there is to say about a metric, in one record: all else is driven by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import BinStats
from calibrant.data.weights import weighted_mean
from calibrant.metrics._bins import DEFAULT_BINS, Reads, RowsInBins, Statistic, bins_of, row_scores
from calibrant.metrics._labelled import Labelled, labelled
from calibrant.metrics._notions import Notion, RowNotion, row_notion

Unit = Literal["percent", "nats", "plain"]
_SIGNS = {"percent": "(%)", "nats": "(nats)", "plain": ""}


@dataclass(frozen=True)
class Merging:
    """How a meter's sums give a metric; the defaults are what most metrics need.

    Parameters
    ----------
    reads : str, optional
        What the meter reads in place of what the metric does.
    null : callable, optional
        The mean value of a calibrated model, from the sums of w^2 c (1 - c) per equal-width bin
        and the total weight.
    max_error : callable, optional
        How far the value can be from that of the rows, from the cells and the number of bins.

    Examples
    --------
    >>> from calibrant.metrics import METRICS
    >>> METRICS["debiased_ece"].reads, METRICS["debiased_ece"].merging.reads
    ('equal-mass', 'equal-width')
    """

    reads: Reads | None = None
    null: Callable[[Floats, float], float] | None = None
    max_error: Callable[[BinStats, int], float] | None = None


@dataclass(frozen=True)
class Metric:
    """A metric: what it is called, what it reads, and what can be done with it.

    A metric that reads "rows" is the weighted mean of one score per row. All others are
    calibration errors: functions of bins that are 0 for a calibrated model but for noise, which
    therefore have a value under calibration and a p-value.

    Parameters
    ----------
    name : str
        The name in ``METRICS``, in ``evaluate(metrics=...)`` and of its function.
    heading : str
        What tables call it.
    title : str
        What it is, in words.
    reads : str
        What it reads: "rows", one score per row; "equal-width", "equal-mass" or "cells", the
        judged probability (class 1's of two classes, else the confidence) and its hits in such
        bins or in narrow cells; "kde-cells", the same divided by its row's sum; "class-1" or
        "confidence", this probability whichever is judged, in equal-width bins; "classes", the
        bins of every class, over which it is averaged; or "labels", the rows.
    statistic : callable
        From rows to one score per row, from ``BinStats`` to one error each, or from (rows, number
        of bins) to one error. Truth values are
        a share, and have the interval of one.
    higher_is_better : bool, default False
        The direction.
    unit : {"percent", "nats", "plain"}, default "percent"
        How tables print it: times 100 with 2 digits, or as it is with 4; the unit is in the label.
    merging : Merging, optional
        How a ``CalibrationMeter`` gives it; None where it cannot.
    resampled : bool, default True
        Whether drawing anew gives it intervals and values under calibration.
    weighted : bool, default True
        Whether it takes weights.
    interval : bool, default True
        Whether an error has a confidence interval: whether one is known that covers.
    interval_statistic : callable, optional
        Another function of the same bins with the same true value, from which the interval is
        made; its own statistic by default.
    notion : {"confidence", "top-label", "class-1", "classwise"}, optional
        Whose calibration an error always is. None, where ``notion=`` chooses: by default class 1's
        with two classes, and the confidence's with more.
    by_default : bool, default True
        Whether ``evaluate`` has it unasked.

    Examples
    --------
    >>> from calibrant.metrics import METRICS
    >>> METRICS["ece"].label, METRICS["ece"].format(0.0123)
    ('ECE (%)', '1.23')
    """

    name: str
    heading: str
    title: str
    reads: Reads
    statistic: Statistic
    higher_is_better: bool = False
    unit: Unit = "percent"
    merging: Merging | None = Merging()
    resampled: bool = True
    weighted: bool = True
    interval: bool = True
    interval_statistic: Statistic | None = None
    notion: Notion | None = None
    by_default: bool = True

    @property
    def label(self) -> str:
        """What a row of a table is called, with the unit in which it is printed."""
        return f"{self.heading} {_SIGNS[self.unit]}".rstrip()

    @property
    def column_head(self) -> str:
        """The same as the head of a column: the unit stands below."""
        return f"{self.heading}\n{_SIGNS[self.unit]}"

    @property
    def has_interval(self) -> bool:
        """Whether an interval is known that covers; of errors averaged over classes none is."""
        return not self.is_error or (self.interval and self.reads not in ("classes", "labels"))

    @property
    def inverted(self) -> Statistic:
        """The statistic whose tests are inverted for the interval."""
        return self.interval_statistic or self.statistic

    @property
    def is_error(self) -> bool:
        """Whether it is a calibration error, and not a score per row."""
        return self.reads != "rows"

    def notion_of(self, n_classes: int, asked: RowNotion | None = None) -> Notion | None:
        """Tell whose calibration it is with so many classes.

        Parameters
        ----------
        n_classes : int
            The number of classes.
        asked : {"class-1", "confidence"}, optional
            The notion that was asked for.

        Returns
        -------
        str or None
            The notion; None for a score, which is no calibration error.
        """
        if not self.is_error:
            return None
        return self.notion or row_notion(asked, n_classes)

    def suits(self, n_classes: int) -> bool:
        """Tell whether it is defined for so many classes.

        Parameters
        ----------
        n_classes : int
            The number of classes.

        Returns
        -------
        bool
            False for class 1 of two where there are more.
        """
        return n_classes == 2 or self.reads != "class-1"

    @property
    def mergeable(self) -> bool:
        """Whether a ``CalibrationMeter`` gives it."""
        return self.merging is not None

    @documented
    def __call__(
        self,
        probs: Any,
        labels: Any,
        n_bins: int = DEFAULT_BINS,
        *,
        notion: RowNotion | None = None,
        sample_weight: Any = None,
        row_sums: RowRule = "strict",
        input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
        ignore_index: int | None = None,
    ) -> float:
        """Compute it from arrays: what serves a metric that has no function of its own.

        Parameters
        ----------
        probs : array of shape (n_rows, n_classes), or (n_rows,) for two classes
            Scores of the kind that ``input`` names.
        labels : array of shape (n_rows,)
            Class indices.
        n_bins : int, default 15
            The number of bins, for what has bins.
        {notion}
        sample_weight : array of shape (n_rows,), optional
            The weight of each row.
        {row_sums}
        {input_probs}
        {ignore_index}

        Returns
        -------
        float
            The value, as a fraction.
        """
        data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
        return self.value(data, n_bins)

    def value(self, data: Labelled, n_bins: int = DEFAULT_BINS) -> float:
        """Compute it.

        Parameters
        ----------
        data : Labelled
            Checked probabilities and labels.
        n_bins : int, default 15
            The number of bins, for what has bins.

        Returns
        -------
        float
            The value, as a fraction.
        """
        if not self.is_error:
            return weighted_mean(row_scores(self.statistic, data), data.weight)
        if self.reads == "labels":
            return self.from_bins(RowsInBins(data, n_bins))
        return self.from_bins(bins_of(self.reads, data, n_bins))

    def from_bins(self, stats: BinStats | RowsInBins) -> float:
        """Compute an error from the bins that it reads.

        Parameters
        ----------
        stats : BinStats or RowsInBins
            The bins; of every class where it reads "classes", the rows where it reads "labels".

        Returns
        -------
        float
            The value, as a fraction.
        """
        return float(np.mean(self.statistic(stats)))

    def format(self, value: float) -> str:
        """Write a value as every table does.

        Parameters
        ----------
        value : float
            A value of this metric, as a fraction.

        Returns
        -------
        str
            Times 100 with 2 digits, or as it is with 4.
        """
        return f"{100.0 * value:.2f}" if self.unit == "percent" else f"{value:.4f}"
