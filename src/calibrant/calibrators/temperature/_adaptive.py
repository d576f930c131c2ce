"""The adaptive-temperature family: one engine, whatever its networks read off a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from calibrant.calibrators._base import Fitted
from calibrant.calibrators._best_temperature import best_temperature
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._origin import origin_of
from calibrant.calibrators._sampling import Sample, sample_of_profile
from calibrant.calibrators.profile.losses import ProfileLoss
from calibrant.calibrators.profile.row_order import canonical_profile
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.calibrators.temperature import _anchored, _paper_recipe
from calibrant.common.progress import reporter
from calibrant.common.random import generator
from calibrant.common.threads import one_blas_thread
from calibrant.common.types import Floats, Progress, RandomState
from calibrant.formulas import (
    AbsoluteLink,
    ExponentialLink,
    NetworkTemperature,
    Reading,
    TopLogits,
)
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._operations import Ops

DEFAULT_LOSS = "mixed"
DEFAULT_MEMBERS = 4
INPUT_CLIP = 100.0  # of the published code
LARGEST_INPUT = 1e15  # of the default recipe: larger ones count as this, and have a finite spread


@dataclass(frozen=True)
class ProfileRows:
    """The rows of a profile, as far as a network reads them."""

    profile: TemperatureProfile

    @property
    def ops(self) -> Ops:
        """What computes with them."""
        return NUMPY

    @property
    def covariates(self) -> None:
        """A profile has none."""

    def top(self, k: int) -> Floats:
        """The k largest logits of each row in decreasing order."""
        return self.profile.top_logits(k)

    def entropy_share(self) -> Floats:
        """The entropy of softmax(z) over the largest possible one, (rows, 1)."""
        highest = np.log(np.maximum(self.profile.finite_classes, 2))
        return (np.asarray(self.profile.entropy(1.0), np.float64) / highest)[:, None]


@one_blas_thread()
def fit_anchored(
    profile: TemperatureProfile,
    reading_at: Callable[[float, float], Reading],
    *,
    hidden: Sequence[int],
    loss: str,
    penalty: float | str,
    members: int,
    random_state: RandomState,
    clip: float | None,
    title: str,
    progress: Progress,
    sample: Sample | None = None,
) -> tuple[NetworkTemperature, FitInfo, Floats]:
    """The default recipe: networks that read ``reading_at(best temperature, origin)`` of a row.

    ``sample`` has the rows that are chosen on, those of the profile's own sample unless given.
    Beside the formula and the report: the logarithm of the temperature of each of these rows had it
    not been fitted on.
    """
    profile, place = canonical_profile(profile)
    if sample is not None:
        sample = replace(sample, index=place[sample.index])
    else:
        sample = sample_of_profile(profile)
    start = best_temperature(profile, loss, prior_rows="auto")
    reading = reading_at(start.x, origin_of(profile.top_logits(1)[:, 0], profile.weight, start.x))
    inputs = np.clip(reading.read(ProfileRows(profile)), -LARGEST_INPUT, LARGEST_INPUT)
    with reporter(f"fitting {title}", progress) as report:
        fit = _anchored.fit(
            profile,
            inputs,
            start.x,
            hidden=hidden,
            loss=loss,
            penalty=penalty,
            members=members,
            rng=generator(random_state),
            report=report,
            sample=sample,
        )
    kernels, biases = side_by_side(fit.weights)
    formula = NetworkTemperature(
        reading,
        inputs.min(axis=0),
        inputs.max(axis=0),
        kernels,
        biases,
        linear=False,
        link=ExponentialLink(fit.base_temperature, _anchored.RANGE),
        clip=clip,
    )
    info = FitInfo(
        start.converged and fit.converged,
        fit.message if start.converged else start.message,
        iterations=fit.iterations,
        **_losses(profile, loss, formula, inputs),
        details=fit.details,
    )
    return formula, info, fit.left_out if sample is not None else fit.left_out[place]


def fit_published(
    profile: TemperatureProfile,
    k: int,
    *,
    hidden: Sequence[int],
    linear: bool,
    loss: str,
    penalty: float,
    learning_rate: float,
    batch_size: int,
    steps: int,
    random_state: RandomState,
    clip: float | None,
    title: str,
    progress: Progress,
) -> Fitted:
    """The paper's recipe: one network on the k largest logits, a fixed number of steps of Adam."""
    inputs = np.clip(profile.top_logits(k), -INPUT_CLIP, INPUT_CLIP)
    rng = generator(random_state)
    start, draws = _paper_recipe.draw_start(inputs, hidden, rng, linear)
    with reporter(f"fitting {title}", progress) as report:
        weights = _paper_recipe.fit(
            profile,
            inputs,
            start,
            loss=loss,
            penalty=penalty,
            learning_rate=learning_rate,
            batch_size=batch_size,
            steps=steps,
            rng=rng,
            linear=linear,
            report=report,
        )
    formula = published_formula(weights, linear, clip)
    return formula, FitInfo(
        True,
        f"all {steps} steps done, as published",
        iterations=steps,
        **_losses(profile, loss, formula, inputs),
        details={"draws": draws},
    )


def published_formula(
    weights: Sequence[Floats], linear: bool, clip: float | None
) -> NetworkTemperature:
    """The network of the published code: clipped top logits in, |.| of its output as T."""
    k = len(weights[0])
    return NetworkTemperature(
        TopLogits(k),
        np.full(k, -INPUT_CLIP),
        np.full(k, INPUT_CLIP),
        tuple(weights[::2]),
        tuple(weights[1::2]),
        linear=linear,
        link=AbsoluteLink(_paper_recipe.SMALLEST, _paper_recipe.LARGEST),
        clip=clip,
    )


def _losses(
    profile: TemperatureProfile, name: str, formula: NetworkTemperature, inputs: Floats
) -> dict[str, Any]:
    problem = ProfileLoss(profile, name)
    after = problem.mean(-np.log(formula.from_inputs(inputs, NUMPY)[:, 0]))
    return {"loss": name, "before": problem.mean(0.0), "after": after}


def side_by_side(weights: Sequence[Floats]) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Networks as one: the first kernels joined, the others along the diagonal.

    ``weights`` are W1, b1, W2, b2, .. with a leading axis over the networks.
    """
    kernels = [np.concatenate(list(weights[0]), axis=1)]
    kernels += [block_diag(*members) for members in weights[2::2]]
    return tuple(kernels), tuple(bias.reshape(-1) for bias in weights[1::2])


def taken_apart(formula: NetworkTemperature) -> list[Floats]:
    """The weights of ``side_by_side``."""
    members = len(formula.biases[-1])
    weights: list[Floats] = []
    for index, (kernel, bias) in enumerate(zip(formula.kernels, formula.biases, strict=True)):
        columns = np.split(kernel, members, axis=1)
        if index:
            height = len(kernel) // members
            columns = [c[i * height : (i + 1) * height] for i, c in enumerate(columns)]
        weights += [np.stack(columns), bias.reshape(members, -1)]
    return weights
