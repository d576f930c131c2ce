"""All metrics, one entry each: whatever lists, computes, merges or prints metrics reads this."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from calibrant.common.errors import did_you_mean
from calibrant.data.binning import calibration_error
from calibrant.metrics import binned, classwise
from calibrant.metrics._bins import Reads, Statistic
from calibrant.metrics._metric import Merging, Metric
from calibrant.metrics._notions import RowNotion, row_notion
from calibrant.metrics.scores import brier_rows, correct_rows, nll_rows
from calibrant.metrics.smooth import kde_errors, smooth_error

_WORDS = {  # what tables call a metric, and what it is
    "accuracy": ("Accuracy", "share of right predictions"),
    "nll": ("NLL", "negative log-likelihood"),
    "brier": ("Brier score", "squared error over all classes"),
    "ece": ("ECE", "expected calibration error"),
    "rms_ece": ("RMS-ECE", "root mean square of the bins' gaps"),
    "mce": ("MCE", "maximum calibration error"),
    "adaptive_ece": ("Adaptive ECE", "ECE in bins of equally many rows"),
    "debiased_ece": ("Debiased RMS-ECE", "RMS-ECE less the noise of the labels"),
    "classwise_ece": ("Classwise ECE", "mean ECE of the classes' probabilities"),
    "smooth_ece": ("SmoothECE", "error smoothed by a Gaussian"),
    "kde_ece": ("KDE-ECE", "error from kernel densities"),
    "class1_ece": ("Class-1 ECE", "ECE of the probability of class 1 of two"),
    "confidence_ece": ("Confidence ECE", "ECE of the largest probability"),
    "classwise_adaptive_ece": (
        "Classwise adaptive ECE",
        "classwise ECE in bins of equally many rows",
    ),
    "classwise_debiased_ece": (
        "Classwise debiased RMS-ECE",
        "classwise RMS-ECE less the noise of the labels",
    ),
    "ace": ("ACE", "mean gap of equal bins of all classes"),
    "top_label_ece": ("Top-label ECE", "ECE of the rows of each predicted class"),
    "ece_sweep": ("ECE-sweep", "ECE in as many bins as keep the accuracy increasing"),
}
_NOT_MERGED: dict[str, Any] = {"merging": None, "by_default": False}
# A metric that makes bins of its own, so that every draw costs as much as the metric itself.
_OWN_BINS: dict[str, Any] = {**_NOT_MERGED, "interval": False}


def _metric(name: str, reads: Reads, statistic: Statistic, **rules: Any) -> Metric:
    return Metric(name, *_WORDS[name], reads, statistic, **rules)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _metric("accuracy", "rows", correct_rows, higher_is_better=True),
        _metric("nll", "rows", nll_rows, unit="nats"),
        _metric("brier", "rows", brier_rows),
        _metric("ece", "equal-width", calibration_error, merging=Merging(null=binned.expected_ece)),
        _metric("rms_ece", "equal-width", binned.root_mean_square_gap),
        _metric("mce", "equal-width", binned.largest_gap, interval=False),
        _metric(
            "adaptive_ece",
            "equal-mass",
            calibration_error,
            merging=Merging(max_error=binned.merged_equal_mass_bound),
        ),
        _metric(
            "debiased_ece",
            "equal-mass",
            binned.debiased_error,
            merging=Merging(reads="equal-width"),
            interval_statistic=binned.root_mean_square_gap,
        ),
        _metric("classwise_ece", "classes", calibration_error, interval=False, notion="classwise"),
        _metric("smooth_ece", "cells", smooth_error, interval=False),
        _metric("kde_ece", "kde-cells", kde_errors, interval=False),
        _metric("class1_ece", "class-1", calibration_error, notion="class-1", **_NOT_MERGED),
        _metric(
            "confidence_ece", "confidence", calibration_error, notion="confidence", **_NOT_MERGED
        ),
        _metric(
            "classwise_adaptive_ece",
            "labels",
            classwise.classwise_adaptive_error,
            notion="classwise",
            **_OWN_BINS,
        ),
        _metric(
            "classwise_debiased_ece",
            "labels",
            classwise.classwise_debiased_error,
            notion="classwise",
            **_OWN_BINS,
        ),
        _metric("ace", "labels", classwise.adaptive_error_of_bins, notion="classwise", **_OWN_BINS),
        _metric(
            "top_label_ece", "labels", classwise.top_label_error, notion="top-label", **_OWN_BINS
        ),
        _metric("ece_sweep", "labels", binned.sweep_error, **_OWN_BINS),
    )
}


# With two classes the default metrics judge one notion, and this one shows the ECE of the other.
_BESIDE: dict[RowNotion, str] = {"class-1": "confidence_ece", "confidence": "class1_ece"}


def drawn_metric(name: str, *, weighted: bool = False, errors_only: bool = False) -> Metric:
    """A metric by its name that drawing anew can judge."""
    drawn = {
        metric.name: metric
        for metric in METRICS.values()
        if metric.resampled and (metric.is_error or not errors_only)
    }
    return _one_of(drawn, name, weighted)


def default_metrics(
    n_classes: int, notion: RowNotion | None = None, *, weighted: bool = False
) -> list[Metric]:
    """The metrics that ``evaluate`` has unasked: those that take the classes and weights."""
    beside = _BESIDE[row_notion(notion, n_classes)] if n_classes == 2 else None
    return [
        metric
        for metric in METRICS.values()
        if (metric.by_default or metric.name == beside) and (metric.weighted or not weighted)
    ]


def metrics_named(names: Iterable[str] | str, *, weighted: bool = False) -> list[Metric]:
    """Metrics by their names."""
    names = [names] if isinstance(names, str) else list(names)
    if not names:
        raise ValueError(f"metrics must name at least one of {', '.join(METRICS)}, got none")
    return [_one_of(METRICS, name, weighted) for name in dict.fromkeys(names)]


def _one_of(known: dict[str, Metric], name: str, weighted: bool) -> Metric:
    if name not in known:
        hint = did_you_mean(name, known) if isinstance(name, str) else ""
        raise ValueError(f"metric must be one of {', '.join(known)}, got {name!r}{hint}")
    if weighted and not known[name].weighted:
        raise ValueError(f"{name} takes no sample_weight")
    return known[name]
