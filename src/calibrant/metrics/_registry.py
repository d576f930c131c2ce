"""All metrics, one entry each: whatever lists, computes, merges or prints metrics reads this."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.common.errors import did_you_mean
from calibrant.data.binning import calibration_error
from calibrant.metrics._bins import Statistic
from calibrant.metrics._metric import Merging, Metric
from calibrant.metrics._notions import Notion, RowNotion, row_notion
from calibrant.metrics.binned import (
    debiased_error,
    expected_ece,
    largest_gap,
    merged_equal_mass_bound,
    root_mean_square_gap,
    sweep_error,
)
from calibrant.metrics.classwise import (
    adaptive_error_of_bins,
    classwise_adaptive_error,
    classwise_debiased_error,
    top_label_error,
)
from calibrant.metrics.scores import brier_rows, correct_rows, nll_rows
from calibrant.metrics.smooth import kde_errors, smooth_error


def _with_bins_of_its_own(
    name: str, heading: str, title: str, statistic: Statistic, notion: Notion | None
) -> Metric:
    """An error of which every draw costs as much as itself: only where it is asked for."""
    return Metric(
        name,
        heading=heading,
        title=title,
        reads="labels",
        statistic=statistic,
        merging=None,
        interval=False,
        notion=notion,
        by_default=False,
    )


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "accuracy",
            heading="Accuracy",
            title="share of right predictions",
            reads="rows",
            statistic=correct_rows,
            higher_is_better=True,
        ),
        Metric(
            "nll",
            heading="NLL",
            title="negative log-likelihood",
            reads="rows",
            statistic=nll_rows,
            unit="nats",
        ),
        Metric(
            "brier",
            heading="Brier score",
            title="squared error over all classes",
            reads="rows",
            statistic=brier_rows,
        ),
        Metric(
            "ece",
            heading="ECE",
            title="expected calibration error",
            reads="equal-width",
            statistic=calibration_error,
            merging=Merging(null=expected_ece),
        ),
        Metric(
            "rms_ece",
            heading="RMS-ECE",
            title="root mean square of the bins' gaps",
            reads="equal-width",
            statistic=root_mean_square_gap,
        ),
        Metric(
            "mce",
            heading="MCE",
            title="maximum calibration error",
            reads="equal-width",
            statistic=largest_gap,
            interval=False,
        ),
        Metric(
            "adaptive_ece",
            heading="Adaptive ECE",
            title="ECE in bins of equally many rows",
            reads="equal-mass",
            statistic=calibration_error,
            merging=Merging(max_error=merged_equal_mass_bound),
        ),
        Metric(
            "debiased_ece",
            heading="Debiased RMS-ECE",
            title="RMS-ECE less the noise of the labels",
            reads="equal-mass",
            statistic=debiased_error,
            merging=Merging(reads="equal-width"),
            interval_statistic=root_mean_square_gap,
        ),
        Metric(
            "classwise_ece",
            heading="Classwise ECE",
            title="mean ECE of the classes' probabilities",
            reads="classes",
            statistic=calibration_error,
            interval=False,
            notion="classwise",
        ),
        Metric(
            "smooth_ece",
            heading="SmoothECE",
            title="error smoothed by a Gaussian",
            reads="cells",
            statistic=smooth_error,
            interval=False,
        ),
        Metric(
            "kde_ece",
            heading="KDE-ECE",
            title="error from kernel densities",
            reads="kde-cells",
            statistic=kde_errors,
            interval=False,
        ),
        Metric(
            "class1_ece",
            heading="Class-1 ECE",
            title="ECE of the probability of class 1 of two",
            reads="class-1",
            statistic=calibration_error,
            merging=None,
            notion="class-1",
            by_default=False,
        ),
        Metric(
            "confidence_ece",
            heading="Confidence ECE",
            title="ECE of the largest probability",
            reads="confidence",
            statistic=calibration_error,
            merging=None,
            notion="confidence",
            by_default=False,
        ),
        _with_bins_of_its_own(
            "classwise_adaptive_ece",
            "Classwise adaptive ECE",
            "classwise ECE in bins of equally many rows",
            classwise_adaptive_error,
            "classwise",
        ),
        _with_bins_of_its_own(
            "classwise_debiased_ece",
            "Classwise debiased RMS-ECE",
            "classwise RMS-ECE less the noise of the labels",
            classwise_debiased_error,
            "classwise",
        ),
        _with_bins_of_its_own(
            "ace",
            "ACE",
            "mean gap of equal bins of all classes",
            adaptive_error_of_bins,
            "classwise",
        ),
        _with_bins_of_its_own(
            "top_label_ece",
            "Top-label ECE",
            "ECE of the rows of each predicted class",
            top_label_error,
            "top-label",
        ),
        _with_bins_of_its_own(
            "ece_sweep",
            "ECE-sweep",
            "ECE in as many bins as keep the accuracy increasing",
            sweep_error,
            None,
        ),
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
