"""Metrics by name, each with its value and with what drawing anew makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from calibrant._binning import (
    BinStats,
    Floats,
    calibration_error,
    equal_mass_edges,
    equal_width_edges,
)
from calibrant.metrics._cells import CELL_EDGES
from calibrant.metrics._class_resampling import classwise_bootstrap, classwise_null
from calibrant.metrics._door import Labelled, weighted_mean
from calibrant.metrics._resampling import BinnedRows, bootstrap_means, values_of
from calibrant.metrics.binned import debiased_error
from calibrant.metrics.classwise import class_stats
from calibrant.metrics.kde import kde_columns, kde_errors
from calibrant.metrics.scores import brier_rows, nll_rows
from calibrant.metrics.smooth import smooth_error

Statistic = Callable[[BinStats], Floats]
ErrorName = Literal[
    "ece",
    "rms_ece",
    "mce",
    "adaptive_ece",
    "debiased_ece",
    "classwise_ece",
    "smooth_ece",
    "kde_ece",
]
ScoreName = Literal["accuracy", "nll", "brier"]


class Drawable(Protocol):
    """A metric of given rows that can be drawn anew."""

    def observed(self) -> float:
        """The value on the rows."""

    def bootstrap(self, resamples: int, rng: np.random.Generator, *, group: bool) -> Floats:
        """Values on rows drawn with replacement; ``group`` may merge nearly equal rows."""


class DrawableError(Drawable, Protocol):
    """A calibration error: it also has values of a calibrated model."""

    def null(self, resamples: int, rng: np.random.Generator) -> Floats:
        """Values of a calibrated model with the same predictions."""


@dataclass(frozen=True)
class BinnedMetric:
    """A function of the bins (or cells) of one confidence a row."""

    rows: BinnedRows
    statistic: Statistic

    def observed(self) -> float:
        return float(self.statistic(self.rows.stats()))

    def null(self, resamples: int, rng: np.random.Generator) -> Floats:
        return values_of(self.statistic, self.rows.null(resamples, rng))

    def bootstrap(self, resamples: int, rng: np.random.Generator, *, group: bool) -> Floats:
        return values_of(self.statistic, self.rows.bootstrap(resamples, rng, group=group))


@dataclass(frozen=True)
class ClasswiseMetric:
    """The mean error of the classes' probabilities."""

    data: Labelled
    edges: Floats

    def observed(self) -> float:
        return float(calibration_error(class_stats(self.data, self.edges)).mean())

    def null(self, resamples: int, rng: np.random.Generator) -> Floats:
        return classwise_null(self.data, self.edges, resamples, rng)

    def bootstrap(self, resamples: int, rng: np.random.Generator, *, group: bool) -> Floats:
        return classwise_bootstrap(self.data, self.edges, resamples, rng)


@dataclass(frozen=True)
class MeanMetric:
    """The weighted mean of one score a row."""

    scores: Floats
    weight: Floats

    def observed(self) -> float:
        return weighted_mean(self.scores, self.weight)

    def bootstrap(self, resamples: int, rng: np.random.Generator, *, group: bool) -> Floats:
        return bootstrap_means(self.scores, self.weight, resamples, rng)


def error_metric(name: str, data: Labelled, bins: int) -> DrawableError:
    """A calibration error by name."""
    if name not in get_args(ErrorName):
        raise ValueError(f"metric must be one of {', '.join(get_args(ErrorName))}, got {name!r}")
    if name == "classwise_ece":
        return ClasswiseMetric(data, equal_width_edges(bins))
    return BinnedMetric(rows_of(name, data, bins), STATISTICS[name])


def rows_of(name: str, data: Labelled, bins: int) -> BinnedRows:
    """The confidences, hits and bins that an error speaks of."""
    confidence, correct = kde_columns(data) if name == "kde_ece" else data.top()
    weight = data.given_weight
    if name in ("smooth_ece", "kde_ece"):
        edges = CELL_EDGES
    elif name in ("adaptive_ece", "debiased_ece"):
        edges = equal_mass_edges(confidence, bins, weight)
    else:
        edges = equal_width_edges(bins)
    return BinnedRows.of(confidence, correct, weight, edges)


def score_metric(name: str, data: Labelled) -> MeanMetric:
    """Accuracy or a proper score by name."""
    if name == "accuracy":
        return MeanMetric(data.top()[1].astype(np.float64), data.weight)
    return MeanMetric((nll_rows if name == "nll" else brier_rows)(data), data.weight)


def metric_of(name: str, data: Labelled, bins: int) -> Drawable:
    """Any metric by name."""
    if name in get_args(ScoreName):
        return score_metric(name, data)
    return error_metric(name, data, bins)


STATISTICS: dict[str, Statistic] = {
    "ece": calibration_error,
    "rms_ece": lambda stats: calibration_error(stats, 2),
    "mce": lambda stats: calibration_error(stats, "max"),
    "adaptive_ece": calibration_error,
    "debiased_ece": debiased_error,
    "smooth_ece": smooth_error,
    "kde_ece": kde_errors,
}
