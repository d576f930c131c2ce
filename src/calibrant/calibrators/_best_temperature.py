"""The best single temperature: of temperature scaling, and the start of all richer methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators._direct_scaling import DirectLoss
from calibrant.calibrators._optimizers import (
    ScalarResult,
    best_of_scan,
    falling_then_rising,
    newton_root,
)
from calibrant.calibrators.profile.losses import ProfileLoss
from calibrant.calibrators.profile.temperature_profile import (
    DEFAULT_TOP_K,
    EXACT_CLASSES,
    TemperatureProfile,
)
from calibrant.data.rows import Rows
from calibrant.data.weights import copies

TEMPERATURE_BOUNDS = (1e-2, 1e4)
# Few rows, and hardly an error among them, would take T to the end of its range: a prior that
# weighs as much as so many rows holds it near 1: (log T)^2 / 2 each, and beyond a factor e only
# |log T| - 1/2, so that scores of another scale are not held back. It fades out: from FADED rows on
# there is none, and T is the exact minimiser.
PRIOR_ROWS = 10.0
FADED = 1000.0
USUAL = (0.1, 25.0)  # temperatures that a profile of scale 1 reads accurately, with room around
DIRECT_ROWS = 1000  # from whose temperature on the steps on logits themselves begin
SEARCH_ROWS = 20_000  # the search needs no more; a few Newton steps on all rows then end it


def best_temperature(
    profile: TemperatureProfile,
    loss: str,
    bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
    prior_rows: float | str = 0.0,
) -> ScalarResult:
    """The one temperature that minimises a loss; exact for the NLL, which is convex in 1/T.

    ``prior_rows`` is the weight of the prior, or "auto" for the one that fades with the rows.
    """
    problem = ProfileLoss(profile, loss)
    pull = _pull(prior_rows, problem.effective_rows)
    result = _searched(problem, loss, pull, bounds)
    best = float(np.exp(-result.x))
    if pull > 0.0 and not problem.label_gap.any():
        return ScalarResult(best, False, _no_error(round(copies(profile.weight).sum())))
    if result.converged:
        return ScalarResult(best, True, result.message)
    return ScalarResult(
        best,
        False,
        f"the best temperature {best:.4g} is an end of the allowed range: the labels look either "
        "separable or unrelated to the logits. Check that rows of labels and scores belong "
        "together, or fit on more rows",
    )


def _searched(
    problem: ProfileLoss, loss: str, pull: float, bounds: tuple[float, float]
) -> ScalarResult:
    """The best log b between the bounds, of many rows by way of some of them."""
    low, high = -np.log(bounds[1]), -np.log(bounds[0])

    def slope(log_b: float) -> float:
        return problem.mean_slope(log_b) + pull * min(max(log_b, -1.0), 1.0)

    def derivatives(log_b: float) -> tuple[float, float]:
        _, first, second = problem.means(log_b)
        return first + pull * min(max(log_b, -1.0), 1.0), second + pull * (abs(log_b) < 1.0)

    some = _some_rows(problem.profile)
    if len(some) < len(problem.profile):
        near = _searched(ProfileLoss(some, loss), loss, pull, bounds)
        best = newton_root(derivatives, near.x) if near.converged else None
        if best is not None and low < best < high:
            return ScalarResult(best, True, "converged")
    search = (low, high, "inverse temperature")
    if loss == "nll":
        return falling_then_rising(slope, *search, start=0.0)
    return best_of_scan(lambda log_b: problem.mean(log_b) + pull * _distance(log_b), slope, *search)


def _some_rows(profile: TemperatureProfile) -> TemperatureProfile:
    """Rows at equal distances, enough to search with."""
    rows = len(profile)
    if rows <= SEARCH_ROWS:
        return profile
    return profile.take(np.arange(SEARCH_ROWS) * rows // SEARCH_ROWS)


def _pull(prior_rows: float | str, rows: float) -> float:
    """What multiplies the prior of one row beside the mean loss."""
    if isinstance(prior_rows, str):
        prior_rows = PRIOR_ROWS * max(0.0, 1.0 - rows / FADED)
    return prior_rows / rows


def _distance(log_b: float) -> float:
    """The prior of one row."""
    return 0.5 * log_b**2 if abs(log_b) <= 1.0 else abs(log_b) - 0.5


def _no_error(rows: int) -> str:
    return (
        f"none of the {rows} rows is misclassified: they cannot tell how sure is too sure, and a "
        "prior keeps the temperature near 1. Fit on more rows"
    )


def scaled_profile(rows: Rows, top_k: int = DEFAULT_TOP_K) -> TemperatureProfile:
    """The profile of the rows; of another scale where theirs is far from that of logits."""
    return at_usual_scale(lambda scale: TemperatureProfile(scale=scale, top_k=top_k)._add(rows))


def at_usual_scale(build: Callable[[float], TemperatureProfile]) -> TemperatureProfile:
    """What ``build`` gives at scale 1, or at the scale that its rows then turn out to have."""
    profile = build(1.0)
    slope = ProfileLoss(_some_rows(profile), "nll").mean_slope
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


def scaling_start(rows: Rows, prior_rows: float | str = 0.0) -> Start:
    """Temperature scaling of labelled logits."""
    direct = _direct_start(rows, prior_rows)
    return start_of_profile(scaled_profile(rows), prior_rows) if direct is None else direct


def _direct_start(rows: Rows, prior_rows: float | str) -> Start | None:
    """The same without a profile, where that is quicker; None where it is not or does not work."""
    few = rows.n_classes <= EXACT_CLASSES or len(rows) <= DIRECT_ROWS
    if few or _pull(prior_rows, rows.effective_rows) > 0.0:
        return None
    some = rows.take(np.arange(DIRECT_ROWS) * len(rows) // DIRECT_ROWS)
    near = best_temperature(scaled_profile(some), "nll")
    problem = DirectLoss(rows.logits, rows.labels, rows.weight)
    best = problem.minimiser(-float(np.log(near.x))) if near.converged else None
    low, high = TEMPERATURE_BOUNDS
    if best is None or not low < np.exp(-best) < high:
        return None
    losses = problem.means(0.0)[0], problem.means(best)[0]
    return Start(float(np.exp(-best)), True, "converged", *losses)


def start_of_profile(profile: TemperatureProfile, prior_rows: float | str = 0.0) -> Start:
    """Temperature scaling of the rows of a profile."""
    best = best_temperature(profile, "nll", prior_rows=prior_rows)
    problem = ProfileLoss(profile, "nll")
    after = problem.mean(-float(np.log(best.x)))
    return Start(best.x, best.converged, best.message, problem.mean(0.0), after)
