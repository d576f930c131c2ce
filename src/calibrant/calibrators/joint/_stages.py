"""The stages of the joint methods: each reads the scores that the last one gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.calibrators._best_temperature import scaled_profile, scaling_start
from calibrant.calibrators._choosing import WORST
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._sampling import Sample, sample_of_logits, sampled
from calibrant.calibrators.increasing._smooth import fit_smooth_map
from calibrant.calibrators.profile.losses import LOSSES, ProfileLoss
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.calibrators.temperature._adaptive import DEFAULT_LOSS, ProfileRows, fit_anchored
from calibrant.calibrators.temperature.parameterized import SMALLEST_GAP
from calibrant.common.arrays import row_tiles
from calibrant.common.threads import one_blas_thread
from calibrant.common.types import Floats, Progress, RandomState
from calibrant.data.rows import Rows
from calibrant.data.weights import weighted_mean
from calibrant.formulas import Chain, Formula, FormulaRows, LogGaps, LogitMap, NetworkTemperature
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._row_functions import log_softmax

MAP_SAMPLES = 5  # times the rows that choose the map are enough to fit it
PROFILE_TILE = 1 << 22  # elements that are mapped at once on their way into the profile


@dataclass(frozen=True)
class OrderedStages:
    """An increasing map, or none, and a temperature for each row."""

    maps: tuple[LogitMap, ...]
    last: NetworkTemperature
    info: FitInfo
    sample: Sample | None  # the rows that were chosen on, where these were not all rows
    left_out: Floats  # the NLL of each of them had it not been fitted on
    optimism: Floats  # by how much that is more than the NLL of the fit

    @property
    def formula(self) -> Formula:
        """Both as one formula."""
        return Chain(self.maps, self.last) if self.maps else self.last

    def scores(self, logits: Floats) -> Floats:
        """What a class map reads: the mapped logits over their temperatures."""
        result = np.empty_like(logits)
        for tile in row_tiles(logits):
            with np.errstate(over="ignore"):  # a gap too large for its float counts as the largest
                inner = Chain(self.maps, self.last).inner(FormulaRows(logits[tile]), NUMPY)
                result[tile] = self.last.scores(inner, NUMPY)
        return result


@dataclass(frozen=True)
class NetworkSettings:
    """The parameters of the network that a joint method shares with PTS."""

    hidden: Sequence[int]
    top_k: int
    members: int
    random_state: RandomState
    title: str
    progress: Progress


@one_blas_thread()
def fit_ordered(data: Rows, knots: int, network: NetworkSettings) -> OrderedStages:
    """The increasing map first, then the network on the mapped logits' profile."""
    start = scaling_start(data, prior_rows="auto")
    sample = sample_of_logits(data)
    few = sampled(data, sample)
    more = None if sample is None else sampled(data, sample_of_logits(data, MAP_SAMPLES))
    smooth = fit_smooth_map(few, start, knots, more)
    maps: tuple[LogitMap, ...] = () if smooth.formula is None else (smooth.formula,)
    profile = _mapped_profile(data, maps, network.top_k)
    k = min(network.top_k, profile.n_classes)
    formula, info, log_t = fit_anchored(
        profile,
        lambda best, origin: LogGaps(k, best, SMALLEST_GAP, origin),
        hidden=network.hidden,
        loss=DEFAULT_LOSS,
        penalty="auto",
        members=network.members,
        random_state=network.random_state,
        clip=None,
        title=network.title,
        progress=network.progress,
        sample=sample,
    )
    seen = profile if sample is None else profile.take(sample.index)
    problem = ProfileLoss(seen, "nll", few.weight)
    inputs = formula.reading.read(ProfileRows(seen))
    fitted = problem.rows(-np.log(formula.from_inputs(inputs, NUMPY)[:, 0])).value
    left_out = problem.rows(-log_t).value + smooth.optimism
    before = loss_of_scores(data, DEFAULT_LOSS)
    info = _told(info, smooth.details, bool(maps), before)
    return OrderedStages(maps, formula, info, sample, left_out, left_out - fitted)


def _told(info: FitInfo, map_details: dict[str, Any], mapped: bool, before: float) -> FitInfo:
    """The network's report with the map's beside it."""
    network = "" if info.details["choice"] == "temperature scaling" else "network"
    parts = [part for part in ("increasing map" if mapped else "", network) if part]
    details = {
        "choice": " and ".join(parts) or info.details["choice"],
        "map": map_details,
        "network": dict(info.details),
    }
    # Networks that stop early are judged by left-out rows as they are, and nobody can set their
    # penalty here.
    settled = info.converged or bool(network)
    return FitInfo(
        settled,
        "converged" if settled else info.message,
        iterations=info.iterations,
        loss=info.loss,
        before=before,
        after=info.after,
        details=details,
    )


def loss_of_scores(data: Rows, name: str) -> float:
    """The mean loss of the scores as they came."""
    brier_share, nll_share = LOSSES[name]
    parts = []
    for tile in row_tiles(data.logits):
        with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
            logs = log_softmax(data.logits[tile], 1.0, NUMPY)
        true = logs[np.arange(len(logs)), data.labels[tile]]
        brier = (np.exp(logs) ** 2).sum(axis=1) - 2.0 * np.exp(true) + 1.0
        parts.append(brier_share * brier + nll_share * np.minimum(-true, WORST))
    return weighted_mean(np.concatenate(parts), data.weight)


def _mapped_profile(data: Rows, maps: tuple[LogitMap, ...], top_k: int) -> TemperatureProfile:
    """The profile of the mapped logits, which are mapped on their way into it."""
    if not maps:
        return scaled_profile(data, top_k)
    profile = TemperatureProfile(top_k=top_k)
    for _, tile in data.tiles(PROFILE_TILE):
        mapped = Chain(maps, maps[-1]).inner(FormulaRows(tile.logits), NUMPY)
        profile._add(tile.with_scores(mapped.logits))
    return profile
