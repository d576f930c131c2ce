"""The stages of the joint methods: each reads the scores that the last one gave."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.calibrators import _choosing as choosing
from calibrant.calibrators._base import Fitted, Judgement, LogitCalibrator
from calibrant.calibrators._best_temperature import scaled_profile, scaling_start
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._parameters import Count, Widths, constraints
from calibrant.calibrators.affine import StructuredMatrixScaling, StructuredVectorScaling
from calibrant.calibrators.increasing._smooth import DEFAULT_KNOTS, fit_smooth_map
from calibrant.calibrators.profile.losses import LOSSES, ProfileLoss
from calibrant.calibrators.profile.temperature_profile import DEFAULT_TOP_K, TemperatureProfile
from calibrant.calibrators.temperature._default_recipe import (
    DEFAULT_LOSS,
    DEFAULT_MEMBERS,
    NetworkSettings,
    ProfileRows,
    fit_default,
)
from calibrant.calibrators.temperature.parameterized import SMALLEST_GAP
from calibrant.common.arrays import TILE_ELEMENTS, row_tiles
from calibrant.common.threads import one_blas_thread
from calibrant.common.types import Floats, InputKind, Progress, RandomState
from calibrant.data.folds import FEWEST_PER_FOLD, Folds
from calibrant.data.rows import Rows
from calibrant.data.weights import weighted_mean
from calibrant.formulas import Chain, Formula, FormulaRows, LogGaps, LogitMap, NetworkTemperature
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._row_functions import log_softmax

CLASS_MAPS = {"vector": StructuredVectorScaling, "matrix": StructuredMatrixScaling}
PATIENCE = 0.5  # standard errors by which a simpler class map may be worse and still be taken
MATRIX_CLASSES = 256  # with more, the matrix takes minutes
MATRIX_ROWS = 0.6  # rows per entry of the matrix below which no network of 100 classes chose one
PROFILE_TILE = 1 << 22  # elements that are mapped at once on their way into the profile


@dataclass(frozen=True)
class OrderedStages:
    """An increasing map, or none, and a temperature for each row."""

    maps: tuple[LogitMap, ...]
    last: NetworkTemperature
    info: FitInfo
    sample: choosing.Sample | None  # the rows that were chosen on, where these were not all rows
    held_out: Floats  # the NLL of each of them had it not been fitted on
    optimism: Floats  # by how much that is more than the NLL of the fit
    map_optimism: Floats | float  # the same of the map alone

    @property
    def formula(self) -> Formula:
        """Both as one formula."""
        return Chain(self.maps, self.last) if self.maps else self.last


class JointCalibrator(LogitCalibrator, ABC):
    """An increasing map and a network on the mapped logits: what both joint methods begin with."""

    _amplifies_rounding = True
    _constraints = constraints(knots=Count(), top_k=Count(), members=Count(), hidden=Widths())

    def __init__(
        self,
        knots: int = DEFAULT_KNOTS,
        hidden: Sequence[int] = (5, 5),
        top_k: int = DEFAULT_TOP_K,
        members: int = DEFAULT_MEMBERS,
        random_state: RandomState = None,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.knots = knots
        self.hidden = hidden
        self.top_k = top_k
        self.members = members
        self.random_state = random_state
        self.progress = progress
        self.input = input

    @one_blas_thread()
    def _fit_ordered(self, data: Rows, sample: choosing.Sample | None) -> OrderedStages:
        """The increasing map first, then the network on the mapped logits' profile."""
        start = scaling_start(data, prior_rows="auto")
        few = choosing.sampled(data, sample)
        smooth = fit_smooth_map(data, start, self.knots, sample)
        maps: tuple[LogitMap, ...] = () if smooth.formula is None else (smooth.formula,)
        profile = TemperatureProfile(top_k=self.top_k) if maps else scaled_profile(data, self.top_k)
        if maps:
            for _, tile in data.tiles(PROFILE_TILE):  # mapped on their way into the profile
                mapped = Chain(maps, maps[-1]).inner(FormulaRows(tile.logits), NUMPY)
                profile._add(tile.with_scores(mapped.logits))
        k = min(self.top_k, profile.n_classes)
        settings = NetworkSettings(
            type(self).__name__,
            hidden=self.hidden,
            members=self.members,
            random_state=self.random_state,
            progress=self.progress,
        )
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
        # Networks that stop early are judged by held-out rows as they are, and nobody can set their
        # penalty here.
        settled = info.converged or network
        info = replace(
            info,
            converged=settled,
            message="converged" if settled else info.message,
            before=loss_of_scores(data, DEFAULT_LOSS),
            details={
                "choice": " and ".join(names) or choice,
                "map": smooth.details,
                "network": dict(info.details),
            },
        )
        optimism = held_out - fitted
        return OrderedStages(maps, last, info, sample, held_out, optimism, smooth.optimism)


def loss_of_scores(data: Rows, name: str) -> float:
    """The mean loss of the scores as they came."""
    brier_share, nll_share = LOSSES[name]
    parts = []
    for _, tile in data.tiles(TILE_ELEMENTS):
        with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
            logs = log_softmax(tile.logits, 1.0, NUMPY)
        true = logs[np.arange(len(logs)), tile.labels]
        brier = (np.exp(logs) ** 2).sum(axis=1) - 2.0 * np.exp(true) + 1.0
        parts.append(brier_share * brier + nll_share * np.minimum(-true, choosing.WORST))
    return weighted_mean(np.concatenate(parts), data.weight)


def with_class_map(
    stages: OrderedStages, data: Rows, wanted: str, folds: Folds
) -> tuple[Fitted, Floats | None]:
    """All parts as one formula with one report, and the NLL of each row of the folds, held out.

    The folds are those of the rows that were chosen on; None where no class map helps.
    """
    mapped = np.empty_like(data.logits)  # what the class map reads
    for tile in row_tiles(data.logits):
        with np.errstate(over="ignore"):  # a gap too large for its float counts as the largest
            inner = Chain(stages.maps, stages.last).inner(FormulaRows(data.logits[tile]), NUMPY)
            mapped[tile] = stages.last.scores(inner, NUMPY)
    scores = data.with_scores(mapped)
    few = choosing.sampled(scores, stages.sample)
    name, judged, tried = _choose_class_map(few, wanted, folds)
    found: dict[str, Any] = {"choice": name} | ({"path": tried} if tried else {})
    details = {**stages.info.details, "class_map": found}
    info = replace(stages.info, details=details)
    if name == "none":
        return (stages.formula, info), None
    if judged is None or stages.sample is not None:
        formula, own = CLASS_MAPS[name]()._fit_seen(scores)
    else:
        formula, own = judged.fit()
    details["choice"] = f"{details['choice']}, then a {name}"
    info = replace(
        info,
        converged=info.converged and own.converged,
        message=own.message if info.converged else info.message,
        loss="nll",
        before=loss_of_scores(data, "nll"),
        after=own.after,
    )
    held_out = None if judged is None else judged.held_out
    return (Chain((*stages.maps, stages.last), formula), info), held_out


def _choose_class_map(
    few: Rows, wanted: str, folds: Folds
) -> tuple[str, Judgement | None, list[dict[str, Any]]]:
    """The name of the map, how held-out rows judge it if it was tried, and what was tried."""
    if wanted != "auto":
        return wanted, None, []
    rows, classes = few.effective_rows, few.n_classes
    judged: dict[str, Judgement] = {}
    if rows >= 2 * FEWEST_PER_FOLD:
        judged["vector"] = StructuredVectorScaling()._judged(few, folds)
        if 2 < classes <= MATRIX_CLASSES and rows >= MATRIX_ROWS * classes**2:
            judged["matrix"] = StructuredMatrixScaling()._judged(few, folds)
    names = ["none", *judged]
    none = folds.of(choosing.row_nll(None, few))
    held_out = [none, *(one.held_out for one in judged.values())]
    chosen, tried = choosing.simplest_of_the_best(names, held_out, folds.weight, PATIENCE)
    return names[chosen], judged.get(names[chosen]), tried
