"""All metrics, one entry each: whatever lists, computes, merges or prints metrics reads this."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant._binning import calibration_error
from calibrant.metrics._metric import Merging, Metric
from calibrant.metrics.binned import (
    debiased_error,
    expected_ece,
    largest_gap,
    merged_equal_mass_bound,
    root_mean_square_gap,
)
from calibrant.metrics.kde import kde_errors
from calibrant.metrics.scores import brier_rows, correct_rows, nll_rows
from calibrant.metrics.smooth import smooth_error

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
            unit="plain",
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
            heading="Debiased ECE",
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
    )
}


def metric_named(name: str, *, weighted: bool = False) -> Metric:
    """A metric by its name."""
    return _one_of(METRICS, name, weighted)


def drawn_metric(name: str, *, weighted: bool = False, errors_only: bool = False) -> Metric:
    """A metric by its name that drawing anew can judge."""
    drawn = {
        metric.name: metric
        for metric in METRICS.values()
        if metric.resampled and (metric.is_error or not errors_only)
    }
    return _one_of(drawn, name, weighted)


def metrics_named(names: Iterable[str] | None, *, weighted: bool = False) -> list[Metric]:
    """Metrics by their names. None is all of them; where there are weights, all that take them."""
    if names is None:
        return [metric for metric in METRICS.values() if metric.weighted or not weighted]
    names = [names] if isinstance(names, str) else list(names)
    if not names:
        raise ValueError(f"metrics must name at least one of {', '.join(METRICS)}, got none")
    return [metric_named(name, weighted=weighted) for name in dict.fromkeys(names)]


def _one_of(known: dict[str, Metric], name: str, weighted: bool) -> Metric:
    if name not in known:
        raise ValueError(f"metric must be one of {', '.join(known)}, got {name!r}")
    if weighted and not known[name].weighted:
        raise ValueError(f"{name} takes no sample_weight")
    return known[name]
