"""Everything about one set of probabilities: values, how sure they are, what noise would show."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from calibrant._arrays import RowRule
from calibrant._binning import BinStats, Floats
from calibrant.metrics._door import Labelled, Seed, labelled
from calibrant.metrics._named import STATISTICS, MeanMetric, error_metric, rows_of, score_metric
from calibrant.metrics._resampling import values_of
from calibrant.metrics.binned import DEFAULT_BINS, bin_stats
from calibrant.metrics.bootstrap import interval, reach_zero
from calibrant.metrics.consistency import null_comparison
from calibrant.metrics.decomposition import BrierDecomposition, brier_decomposition
from calibrant.metrics.spiegelhalter import ZTest, spiegelhalter_test
from calibrant.metrics.squared_kernel import SKCETest, skce_test

DEFAULT_RESAMPLES = 200

# Errors that read the same bins are computed on the same draws.
_FAMILIES = (
    ("ece", "rms_ece", "mce"),
    ("adaptive_ece", "debiased_ece"),
    ("smooth_ece",),
    ("kde_ece",),
)


@dataclass(frozen=True)
class Estimate:
    """A value and its confidence interval; for errors also what a calibrated model would show."""

    value: float
    low: float | None = None
    high: float | None = None
    null: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one set of probabilities, as fractions; ``print`` shows them times 100.

    The interval of a calibration error is that of the true error, to which the noise of the labels
    adds nothing: it may lie below the value, as ``null`` (the mean value of a calibrated model with
    the same predictions) may lie far above 0.
    """

    rows: int
    classes: int
    level: float
    resamples: int
    accuracy: Estimate
    nll: Estimate
    brier: Estimate
    brier_decomposition: BrierDecomposition
    ece: Estimate
    rms_ece: Estimate
    mce: Estimate
    adaptive_ece: Estimate
    debiased_ece: Estimate
    classwise_ece: Estimate
    smooth_ece: Estimate
    kde_ece: Estimate
    skce: SKCETest | None
    spiegelhalter: ZTest
    bins: BinStats

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and dicts."""
        document = asdict(self)
        document["bins"] = {name: values.tolist() for name, values in document["bins"].items()}
        return document

    def to_json(self, indent: int | None = None) -> str:
        """JSON text; an infinite number (the NLL of an impossible label) becomes null."""
        return json.dumps(_finite(self.to_dict()), indent=indent, allow_nan=False)

    def __str__(self) -> str:
        return _as_text(self)


def evaluate(
    probs: Any,
    labels: Any,
    *,
    bins: int = DEFAULT_BINS,
    level: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
    seed: Seed = 0,
    sample_weight: Any = None,
    rows: RowRule = "strict",
) -> Evaluation:
    """All metrics, each error beside its null value and its interval.

    ``resamples=0`` leaves out what needs drawing: null values, p-values and the errors' intervals.
    The classwise error costs time proportional to rows x classes x resamples.
    """
    if resamples < 0:
        raise ValueError(f"resamples must be at least 0, got {resamples}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    data = labelled(probs, labels, sample_weight, rows)
    rng = np.random.default_rng(seed)
    errors: dict[str, Estimate] = {}
    for names in _FAMILIES:
        errors |= _family(names, data, bins, resamples, level, rng)
    inside: dict[str, Any] = {"sample_weight": data.given_weight, "rows": "raw"}
    return Evaluation(
        rows=len(data.labels),
        classes=data.classes,
        level=level,
        resamples=resamples,
        **_scores(data, level),
        brier_decomposition=brier_decomposition(data.probs, data.labels, **inside),
        **errors,
        classwise_ece=_classwise(data, bins, resamples, level, rng),
        skce=skce_test(data.probs, data.labels, seed=rng, **inside)
        if len(data.labels) > 3
        else None,
        spiegelhalter=spiegelhalter_test(data.probs, data.labels, **inside),
        bins=bin_stats(data.probs, data.labels, bins, **inside),
    )


# --- estimates --------------------------------------------------------------------------------


def _scores(data: Labelled, level: float) -> dict[str, Estimate]:
    """Means with normal intervals; of the accuracy Wilson's, which is no point at 0 or 1."""
    reach = float(ndtri((1.0 + level) / 2.0))
    accuracy = score_metric("accuracy", data).observed()
    effective = data.weight.sum() ** 2 / (data.weight @ data.weight)
    low, high = _wilson(accuracy, float(effective), reach)
    scores = {name: _mean(score_metric(name, data), reach) for name in ("nll", "brier")}
    return {"accuracy": Estimate(accuracy, low, high), **scores}


def _mean(metric: MeanMetric, reach: float) -> Estimate:
    mean, weight = metric.observed(), metric.weight
    if not np.isfinite(mean):
        return Estimate(mean)
    counted = weight > 0.0
    squares = weight[counted] ** 2 @ (metric.scores[counted] - mean) ** 2
    error = reach * float(np.sqrt(squares) / weight.sum())
    return Estimate(mean, max(mean - error, 0.0), mean + error)


def _wilson(share: float, number: float, reach: float) -> tuple[float, float]:
    square = reach**2
    centre = (share + square / (2.0 * number)) / (1.0 + square / number)
    spread = np.sqrt(share * (1.0 - share) / number + square / (4.0 * number**2))
    half = reach * float(spread) / (1.0 + square / number)
    return max(centre - half, 0.0), min(centre + half, 1.0)


def _family(
    names: tuple[str, ...],
    data: Labelled,
    bins: int,
    resamples: int,
    level: float,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """Errors of the same bins, from the same draws."""
    rows = rows_of(names[0], data, bins)

    def all_of(stats: BinStats) -> Floats:
        return np.stack([STATISTICS[name](stats) for name in names], axis=-1)

    observed = all_of(rows.stats())
    if resamples == 0:
        return {name: Estimate(float(value)) for name, value in zip(names, observed, strict=True)}
    null = values_of(all_of, rows.null(resamples, rng))
    drawn = values_of(all_of, rows.bootstrap(resamples, rng))
    return {
        name: _error(float(observed[column]), null[:, column], drawn[:, column], level)
        for column, name in enumerate(names)
    }


def _classwise(
    data: Labelled, bins: int, resamples: int, level: float, rng: np.random.Generator
) -> Estimate:
    metric = error_metric("classwise_ece", data, bins)
    if resamples == 0:
        return Estimate(metric.observed())
    drawn = metric.bootstrap(resamples, rng, group=True)
    return _error(metric.observed(), metric.null(resamples, rng), drawn, level)


def _error(observed: float, null: Floats, drawn: Floats, level: float) -> Estimate:
    low, high = (max(end, 0.0) for end in interval(observed, drawn, level))
    low = reach_zero(low, observed, null, level)
    test = null_comparison("", observed, null)
    return Estimate(observed, low, high, test.null_mean, test.p_value)


# --- text -------------------------------------------------------------------------------------

_TITLES = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "brier": "Brier score",
    "ece": "ECE",
    "rms_ece": "RMS-ECE",
    "mce": "MCE",
    "adaptive_ece": "adaptive ECE",
    "debiased_ece": "debiased ECE",
    "classwise_ece": "classwise ECE",
    "smooth_ece": "SmoothECE",
    "kde_ece": "KDE-ECE",
}


def _as_text(evaluation: Evaluation) -> str:
    size = f"{evaluation.rows:,} row{'s' * (evaluation.rows != 1)}, {evaluation.classes} classes"
    bins = f"{len(evaluation.bins.weight)} bin{'s' * (len(evaluation.bins.weight) != 1)}"
    header = f"{'':14} {'value':>8}   {f'{evaluation.level:.0%} interval':>18}"
    lines = [f"{size}, {bins}; all but the NLL times 100", "", header]
    lines += [_row(evaluation, name) for name in ("accuracy", "nll", "brier")]
    parts = evaluation.brier_decomposition
    lines += [
        f"{'  calibration':14} {100.0 * parts.calibration:8.2f}",
        f"{'  refinement':14} {100.0 * parts.refinement:8.2f}",
        "",
        f"{header}   {'if calibrated':>13} {'p-value':>8}",
    ]
    errors = [name for name in _TITLES if name not in ("accuracy", "nll", "brier")]
    lines += [_row(evaluation, name) for name in errors]
    return "\n".join([*lines, "", *_tests(evaluation), *_remark(evaluation)])


def _row(evaluation: Evaluation, name: str) -> str:
    estimate: Estimate = getattr(evaluation, name)
    write: Callable[[float], str] = (
        (lambda value: f"{value:.4f}") if name == "nll" else (lambda value: f"{100.0 * value:.2f}")
    )
    line = f"{_TITLES[name]:14} {write(estimate.value):>8}"
    if estimate.low is not None and estimate.high is not None:
        line += f"   {f'{write(estimate.low)} .. {write(estimate.high)}':>18}"
    if estimate.null is not None and estimate.p_value is not None:
        line += f"   {write(estimate.null):>13} {estimate.p_value:8.3f}"
    return line


def _tests(evaluation: Evaluation) -> list[str]:
    z = evaluation.spiegelhalter
    lines = [f"Spiegelhalter's test: z = {z.z:.2f}, p-value {z.p_value:.3g}"]
    if evaluation.skce is not None:
        kernel = evaluation.skce
        lines.append(
            f"kernel test: z = {kernel.z:.2f}, p-value {kernel.p_value:.3g} "
            f"(SKCE {kernel.skce:.2e})"
        )
    return lines


def _remark(evaluation: Evaluation) -> list[str]:
    if evaluation.resamples == 0:
        return []
    return [
        "",
        '"if calibrated": what a calibrated model with these predictions would show on average.',
        "The intervals of errors leave that noise out, so they may lie below the value.",
    ]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
