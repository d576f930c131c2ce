"""The best single temperature: of temperature scaling, and the start of all richer methods.

Where logits lie is found here, too: their scale, at which a profile is accurate, and their origin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._optimizers import (
    ScalarResult,
    best_of_scan,
    falling_then_rising,
    newton_minimum,
)
from calibrant.calibrators.profile.losses import ProfileLoss
from calibrant.calibrators.profile.temperature_profile import (
    DEFAULT_TOP_K,
    EXACT_CLASSES,
    TemperatureProfile,
)
from calibrant.common.arrays import row_tiles
from calibrant.common.threads import available_cores, mapping
from calibrant.common.types import Floats
from calibrant.data.rows import Rows
from calibrant.data.weights import copies, shares

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
TILE = 1 << 17  # logits at once: what is computed of them stays in the cache
DEEPEST = -80.0  # exponents; what is left out is below 1e-34 of a row's sum
FAR = 32.0  # spreads from 0 from which on float32 logits would lose digits that matter
LARGEST = 1e15  # larger logits count as this


@dataclass(frozen=True)
class Start:
    """The best single temperature, from which a richer fit sets out, and the mean losses."""

    temperature: float
    converged: bool
    message: str
    loss_before: float
    loss: float


def best_temperature(
    profile: TemperatureProfile,
    loss: str = "nll",
    bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
    prior_rows: float | str = 0.0,
) -> Start:
    """The one temperature that minimises a loss; exact for the NLL, which is convex in 1/T.

    ``prior_rows`` is the weight of the prior, or "auto" for the one that fades with the rows.
    """
    problem = ProfileLoss(profile, loss)
    pull = _prior_weight(prior_rows, problem) if prior_rows else 0.0
    found = _best_log_b(problem, loss, pull, -np.log(bounds[1]), -np.log(bounds[0]))
    best = float(np.exp(-found.x))
    converged, message = found.converged, found.message
    if pull > 0.0 and not problem.label_gap.any():
        converged = False
        message = (
            f"none of the {round(copies(profile.weight).sum())} rows is misclassified: they cannot "
            "tell how sure is too sure, and a prior keeps the temperature near 1. Fit on more rows"
        )
    elif not converged:
        message = (
            f"the best temperature {best:.4g} is an end of the allowed range: the labels look "
            "either separable or unrelated to the logits. Check that rows of labels and scores "
            "belong together, or fit on more rows"
        )
    before, after = problem.means(0.0)[0], problem.means(-float(np.log(best)))[0]
    return Start(best, converged, message, before, after)


def _prior_weight(prior_rows: float | str, rows: Rows | ProfileLoss) -> float:
    """What multiplies the prior of one row beside the mean loss."""
    if isinstance(prior_rows, str):
        prior_rows = PRIOR_ROWS * max(0.0, 1.0 - rows.effective_rows / FADED)
    return prior_rows / rows.effective_rows


def _best_log_b(
    problem: ProfileLoss, loss: str, pull: float, low: float, high: float
) -> ScalarResult:
    """The best log b between two ends, of many rows by way of some of them."""

    def with_prior(log_b: float) -> tuple[float, float, float]:
        value, slope, curvature = problem.means(log_b)
        distance = 0.5 * log_b**2 if abs(log_b) <= 1.0 else abs(log_b) - 0.5
        return (
            value + pull * distance,
            slope + pull * min(max(log_b, -1.0), 1.0),
            curvature + pull * (abs(log_b) < 1.0),
        )

    if len(problem.profile) > SEARCH_ROWS:
        some = ProfileLoss(_some_rows(problem.profile), loss)
        near = _best_log_b(some, loss, pull, low, high)
        best = newton_minimum(with_prior, near.x) if near.converged else None
        if best is not None and low < best < high:
            return ScalarResult(best, True, "converged")
    if loss == "nll":
        return falling_then_rising(with_prior, low, high, "inverse temperature", start=0.0)
    return best_of_scan(with_prior, low, high, "inverse temperature")


def _some_rows(profile: TemperatureProfile) -> TemperatureProfile:
    """Rows at equal distances, enough to search with."""
    rows = len(profile)
    if rows <= SEARCH_ROWS:
        return profile
    return profile.take(np.arange(SEARCH_ROWS) * rows // SEARCH_ROWS)


def scaled_profile(rows: Rows, top_k: int = DEFAULT_TOP_K) -> TemperatureProfile:
    """The profile of the rows; of another scale where theirs is far from that of logits."""
    return at_usual_scale(lambda scale: TemperatureProfile(scale=scale, top_k=top_k)._add(rows))


def at_usual_scale(build: Callable[[float], TemperatureProfile]) -> TemperatureProfile:
    """What ``build`` gives at scale 1, or at the scale that its rows then turn out to have."""
    profile = build(1.0)
    problem, (low, high) = ProfileLoss(_some_rows(profile), "nll"), USUAL
    # whether the best temperature is between the two
    if problem.means(-np.log(high))[1] <= 0.0 <= problem.means(-np.log(low))[1]:
        return profile
    return build(2.0 ** round(np.log2(best_temperature(profile).temperature)))


def scaling_start(rows: Rows, prior_rows: float | str = 0.0) -> Start:
    """Temperature scaling of labelled logits; without a profile where that is quicker."""
    many = rows.n_classes > EXACT_CLASSES and len(rows) > DIRECT_ROWS
    if many and not (prior_rows and _prior_weight(prior_rows, rows) > 0.0):
        some = rows.take(np.arange(DIRECT_ROWS) * len(rows) // DIRECT_ROWS)
        near = best_temperature(scaled_profile(some))
        if near.converged:
            loss, (low, high) = LogitLoss(rows), TEMPERATURE_BOUNDS
            best = newton_minimum(loss.means, -float(np.log(near.temperature)))
            if best is not None and low < np.exp(-best) < high:
                losses = loss.means(0.0)[0], loss.means(best)[0]
                return Start(float(np.exp(-best)), True, "converged", *losses)
    return best_temperature(scaled_profile(rows), prior_rows=prior_rows)


class LogitLoss:
    """The mean NLL of labelled logits as a function of log b, computed in float32.

    Three or four temperatures are tried on all rows: a profile of many classes, which is for any
    number of them, takes longer to make.
    """

    def __init__(self, rows: Rows) -> None:
        self.share = shares(rows.weight)
        self.gaps = np.empty(rows.logits.shape, np.float32)
        self.label_gap = np.empty(len(rows))
        self.tiles = row_tiles(self.gaps, TILE)

        def enter(tile: slice) -> None:
            logits, labels = rows.logits[tile], rows.labels[tile]
            gaps = logits - logits.max(axis=1, keepdims=True)
            self.label_gap[tile] = gaps[np.arange(len(labels)), labels]
            self.gaps[tile] = np.maximum(gaps, np.finfo(np.float32).min)

        self._on_threads(enter)

    def _on_threads(self, work: Callable[[slice], Any]) -> list[Any]:
        with mapping(min(available_cores(), len(self.tiles))) as on_threads:
            return list(on_threads(work, self.tiles))

    def means(self, log_b: float) -> tuple[float, float, float]:
        """The mean NLL and its first two derivatives in log b."""
        b = float(np.exp(log_b))

        def sums(tile: slice) -> NDArray[np.float64]:
            with np.errstate(over="ignore"):
                exponent = self.gaps[tile] * np.float32(b)
            np.maximum(exponent, np.float32(DEEPEST), out=exponent)
            power, ones = np.exp(exponent), np.ones(exponent.shape[1], np.float32)
            total = (power @ ones).astype(np.float64)
            mean = np.vecdot(power, exponent) / total
            power *= exponent
            second = np.vecdot(power, exponent) / total
            reach = b * self.label_gap[tile]
            rows = np.stack([np.log(total) - reach, mean - reach, mean + second - mean**2 - reach])
            return np.asarray(rows @ self.share[tile])

        value, slope, curvature = np.sum(self._on_threads(sums), axis=0).tolist()
        return value, slope, curvature


def origin_of(tops: Floats, weight: Floats, temperature: float) -> float:
    """About the mean of the rows' largest logits as a float32 number; 0 where that is near.

    Logits with a large offset have digits enough for their differences, but products with them do
    not: an offset of a million leaves a float32 product no digit behind the point.
    """
    share, tops = shares(weight), np.clip(tops, -LARGEST, LARGEST)
    mean = float(np.sum(share * tops))
    spread = float(np.sqrt(np.sum(share * (tops - mean) ** 2)))
    near = abs(mean) <= FAR * max(spread, temperature)
    return 0.0 if near else float(np.float32(mean))
