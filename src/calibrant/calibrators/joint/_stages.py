"""The stages of the joint methods: each reads the scores that the last one gave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.calibrators._best_temperature import scaled_profile, scaling_start
from calibrant.calibrators._choosing import (
    WORST,
    Sample,
    held_out_nll,
    row_nll,
    sample_of_logits,
    sampled,
    simplest_of_the_best,
)
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators.affine import StructuredMatrixScaling, StructuredVectorScaling
from calibrant.calibrators.increasing._smooth import fit_smooth_map
from calibrant.calibrators.profile.losses import LOSSES, ProfileLoss
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.calibrators.temperature._default_recipe import (
    DEFAULT_LOSS,
    NetworkSettings,
    ProfileRows,
    fit_default,
)
from calibrant.calibrators.temperature.parameterized import SMALLEST_GAP
from calibrant.common.arrays import TILE_ELEMENTS, row_tiles
from calibrant.common.threads import one_blas_thread
from calibrant.common.types import Floats
from calibrant.data.folds import FEWEST_PER_FOLD, Folds
from calibrant.data.rows import Rows
from calibrant.data.weights import weighted_mean
from calibrant.formulas import Chain, Formula, FormulaRows, LogGaps, LogitMap, NetworkTemperature
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._row_functions import log_softmax

CLASS_MAPS = {"vector": StructuredVectorScaling, "matrix": StructuredMatrixScaling}
PATIENCE = 0.5  # standard errors by which a simpler class map may be worse and still be taken
MATRIX_CLASSES = 256  # with more, the matrix takes minutes
MATRIX_ROWS = 0.05  # rows per entry of the matrix below which its penalty leaves nothing of it
MAP_SAMPLES = 5  # times the rows that choose the map are enough to fit it
PROFILE_TILE = 1 << 22  # elements that are mapped at once on their way into the profile


@dataclass(frozen=True)
class OrderedStages:
    """An increasing map, or none, and a temperature for each row."""

    maps: tuple[LogitMap, ...]
    last: NetworkTemperature
    info: FitInfo
    sample: Sample | None  # the rows that were chosen on, where these were not all rows
    held_out: Floats  # the NLL of each of them had it not been fitted on
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


@one_blas_thread()
def fit_ordered(data: Rows, knots: int, top_k: int, settings: NetworkSettings) -> OrderedStages:
    """The increasing map first, then the network on the mapped logits' profile."""
    start = scaling_start(data, prior_rows="auto")
    sample = sample_of_logits(data)
    few = sampled(data, sample)
    more = None if sample is None else sampled(data, sample_of_logits(data, MAP_SAMPLES))
    smooth = fit_smooth_map(few, start, knots, more)
    maps: tuple[LogitMap, ...] = () if smooth.formula is None else (smooth.formula,)
    profile = _mapped_profile(data, maps, top_k)
    k = min(top_k, profile.n_classes)
    last, info, log_t = fit_default(
        profile, lambda best, origin: LogGaps(k, best, SMALLEST_GAP, origin), settings, sample
    )
    seen = profile if sample is None else profile.take(sample.index)
    problem = ProfileLoss(seen, "nll", few.weight)
    inputs = last.reading.read(ProfileRows(seen))
    fitted = problem.rows(-np.log(last.from_inputs(inputs, NUMPY)[:, 0])).value
    held_out = problem.rows(-log_t).value + smooth.optimism
    choice = info.details["choice"]
    network = choice != "temperature scaling"
    names = ["increasing map"] * bool(maps) + ["network"] * network
    details = {
        "choice": " and ".join(names) or choice,
        "map": smooth.details,
        "network": dict(info.details),
    }
    # Networks that stop early are judged by held-out rows as they are, and nobody can set their
    # penalty here.
    settled = info.converged or network
    info = replace(
        info,
        converged=settled,
        message="converged" if settled else info.message,
        before=loss_of_scores(data, DEFAULT_LOSS),
        details=details,
    )
    return OrderedStages(maps, last, info, sample, held_out, held_out - fitted)


def _mapped_profile(data: Rows, maps: tuple[LogitMap, ...], top_k: int) -> TemperatureProfile:
    """The profile of the mapped logits, which are mapped on their way into it."""
    if not maps:
        return scaled_profile(data, top_k)
    profile = TemperatureProfile(top_k=top_k)
    for _, tile in data.tiles(PROFILE_TILE):
        mapped = Chain(maps, maps[-1]).inner(FormulaRows(tile.logits), NUMPY)
        profile._add(tile.with_scores(mapped.logits))
    return profile


def loss_of_scores(data: Rows, name: str) -> float:
    """The mean loss of the scores as they came."""
    brier_share, nll_share = LOSSES[name]
    parts = []
    for _, tile in data.tiles(TILE_ELEMENTS):
        with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
            logs = log_softmax(tile.logits, 1.0, NUMPY)
        true = logs[np.arange(len(logs)), tile.labels]
        brier = (np.exp(logs) ** 2).sum(axis=1) - 2.0 * np.exp(true) + 1.0
        parts.append(brier_share * brier + nll_share * np.minimum(-true, WORST))
    return weighted_mean(np.concatenate(parts), data.weight)


@dataclass(frozen=True)
class ClassMap:
    """The chosen map (None: no map helps), and the candidates with their held-out losses."""

    formula: Formula | None
    info: FitInfo | None
    held_out: Floats  # the NLL of each row of the folds under fits on the other folds
    details: dict[str, Any]


def fit_class_map(data: Rows, few: Rows, wanted: str, folds: Folds) -> ClassMap:
    """The class map of scores whose softmax is calibrated by rows already.

    It is chosen by the ``folds`` of ``few``, all rows or a sample of them.
    """
    few = folds.rows(few)
    choice, losses = wanted, row_nll(None, few)
    tried: list[dict[str, Any]] = []
    if wanted == "auto":
        rows, classes, names, held_out = few.effective_rows, few.n_classes, ["none"], [losses]
        if rows >= 2 * FEWEST_PER_FOLD:
            names.append("vector")
            if 2 < classes <= MATRIX_CLASSES and rows >= MATRIX_ROWS * classes**2:
                names.append("matrix")
        for name in names[1:]:
            model = CLASS_MAPS[name]()
            fit = lambda some, model=model: model._fit_seen(few.take(some))[0]  # noqa: E731
            held_out.append(held_out_nll(fit, few, folds.parts))
        chosen, tried = simplest_of_the_best(names, held_out, few.weight, PATIENCE)
        choice, losses = names[chosen], held_out[chosen]
    details = {"choice": choice} | ({"path": tried} if tried else {})
    if choice == "none":
        return ClassMap(None, None, losses, details)
    return ClassMap(*CLASS_MAPS[choice]()._fit_logits(data), losses, details)
