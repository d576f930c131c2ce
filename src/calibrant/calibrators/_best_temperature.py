"""The best single temperature: of temperature scaling, and the start of all richer methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._losses import ProfileLoss
from calibrant._optimize import ScalarResult, best_of_scan, falling_then_rising
from calibrant._types import Floats, InputKind, Labels
from calibrant.profile import DEFAULT_TOP_K, TemperatureProfile

TEMPERATURE_BOUNDS = (1e-2, 1e4)
USUAL = (0.1, 25.0)  # temperatures that a profile of scale 1 reads accurately, with room around


def best_temperature(
    profile: TemperatureProfile, loss: str, bounds: tuple[float, float] = TEMPERATURE_BOUNDS
) -> ScalarResult:
    """The one temperature that minimises a loss; exact for the NLL, which is convex in 1/T."""
    low, high = bounds
    problem = ProfileLoss(profile, loss)
    search = (-np.log(high), -np.log(low), "inverse temperature")
    if loss == "nll":
        result = falling_then_rising(problem.mean_slope, *search, start=0.0)
    else:
        result = best_of_scan(problem.mean, problem.mean_slope, *search)
    best = float(np.exp(-result.x))
    if result.converged:
        return ScalarResult(best, True, result.message)
    return ScalarResult(
        best,
        False,
        f"the best temperature {best:.4g} is an end of the allowed range: the labels look either "
        "separable or unrelated to the logits. Check that rows of labels and scores belong "
        "together, or fit on more rows",
    )


def scaled_profile(
    scores: Any,
    labels: Any,
    sample_weight: Any,
    kind: InputKind,
    top_k: int = DEFAULT_TOP_K,
) -> TemperatureProfile:
    """The profile of the scores; of another scale where theirs is far from that of logits."""

    def build(scale: float) -> TemperatureProfile:
        profile = TemperatureProfile(scale=scale, top_k=top_k)
        return profile._add(scores, labels, sample_weight, kind)

    profile = build(1.0)
    slope = ProfileLoss(profile, "nll").mean_slope
    low, high = USUAL
    if slope(-np.log(high)) <= 0.0 <= slope(-np.log(low)):  # the best temperature is between
        return profile
    return build(2.0 ** round(np.log2(best_temperature(profile, "nll").x)))


@dataclass(frozen=True)
class Start:
    """Temperature scaling at its NLL solution, from which a richer fit sets out."""

    temperature: float
    converged: bool
    message: str
    loss_before: float
    loss: float


def scaling_start(logits: Floats, labels: Labels, weight: Floats) -> Start:
    """Temperature scaling of labelled logits."""
    profile = scaled_profile(logits, labels, weight, "logits")
    best = best_temperature(profile, "nll")
    problem = ProfileLoss(profile, "nll")
    after = problem.mean(-float(np.log(best.x)))
    return Start(best.x, best.converged, best.message, problem.mean(0.0), after)
