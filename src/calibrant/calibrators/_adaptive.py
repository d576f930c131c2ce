"""The adaptive-temperature family: one engine, several things to read off a row.

A method of the family says what its network reads (``_inputs``, and the same from a profile);
fitting and predicting are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray

from calibrant._arrays import Array, InputKind
from calibrant._losses import LOSSES, ProfileLoss
from calibrant._progress import reporter
from calibrant.calibrators import _anchored
from calibrant.calibrators import _network as network
from calibrant.calibrators._base import (
    TEMPERATURE_BOUNDS,
    TemperatureMap,
    best_temperature,
    warn_at_bound,
)
from calibrant.profile import TemperatureProfile

DEFAULT_LOSS = "mixed"
DEFAULT_MEMBERS = 4


class AdaptiveTemperature(TemperatureMap):
    """softmax(z / T) with a temperature that a small network reads off the row."""

    _state: ClassVar[tuple[str, ...]] = ("weights_", "base_temperature_", "input_range_")

    def __init__(
        self,
        hidden: Sequence[int] = (5, 5),
        loss: str = DEFAULT_LOSS,
        penalty: float | str = "auto",
        members: int = DEFAULT_MEMBERS,
        random_state: int | np.random.Generator | None = None,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.hidden = hidden
        self.loss = loss
        self.penalty = penalty
        self.members = members
        self.random_state = random_state
        self.verbose = verbose
        self.input = input

    # --- what a method reads ---

    def _profile_inputs(self, profile: TemperatureProfile) -> NDArray[np.float64]:
        """The network's inputs (rows, inputs) from a profile."""
        raise NotImplementedError

    def _inputs(self, logits: Array) -> Array:
        """The same from a tile of logits, in any array namespace."""
        raise NotImplementedError

    def _learn_inputs(self, base_temperature: float) -> None:
        """Set what the inputs depend on, before they are first read."""

    def _layers(self) -> Sequence[int]:
        """The widths of the hidden layers; none for a linear method."""
        return self.hidden

    # --- fitting ---

    def _fit_profile(self, profile: TemperatureProfile) -> None:
        self._check_parameters()
        scaling = best_temperature(profile, self._loss_name(), TEMPERATURE_BOUNDS)
        warn_at_bound(scaling, type(self).__name__)
        base = scaling.x
        self._learn_inputs(base)
        inputs = self._profile_inputs(profile)
        with reporter(f"fitting {type(self).__name__}", self.verbose) as report:
            result = _anchored.fit(
                profile,
                inputs,
                base,
                hidden=self._layers(),
                loss=self._loss_name(),
                penalty=self.penalty,
                members=self.members,
                rng=self._rng(),
                report=report,
            )
        self.weights_ = result.weights
        self.base_temperature_ = result.base_temperature
        self.input_range_ = np.stack([inputs.min(axis=0), inputs.max(axis=0)])
        self.fit_info_ = {"converged": True, "message": "converged", **result.info}
        self._tell_losses(profile, inputs)

    def _loss_name(self) -> str:
        return self.loss

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(0 if self.random_state is None else self.random_state)

    def _tell_losses(self, profile: TemperatureProfile, inputs: NDArray[np.float64]) -> None:
        name = self._loss_name()
        problem = ProfileLoss(profile, name)
        self.fit_info_ |= {
            "loss": name,
            "loss_before": problem.mean(0.0),
            "loss_after": problem.mean(-np.log(self._from_inputs(inputs))),
        }

    def _check_parameters(self) -> None:
        if self._loss_name() not in LOSSES:
            raise ValueError(f"loss must be one of {sorted(LOSSES)}, got {self.loss!r}")
        strength = None if isinstance(self.penalty, str) else float(self.penalty)
        if self.penalty != "auto" and (
            not is_number(self.penalty) or strength is None or not 0.0 <= strength < np.inf
        ):
            raise ValueError(f"penalty must be 'auto' or at least 0, got {self.penalty!r}")
        if not isinstance(self.hidden, Sequence) or not all(_is_count(w) for w in self.hidden):
            raise ValueError(f"hidden must be widths of at least 1, got {self.hidden!r}")
        self._check_counts("members")

    def _check_counts(self, *names: str) -> None:
        for name in names:
            if not _is_count(getattr(self, name)):
                rule = "must be a whole number of at least 1"
                raise ValueError(f"{name} {rule}, got {getattr(self, name)!r}")

    # --- predicting ---

    def _temperature(self, logits: Array) -> Array:
        return self._from_inputs(self._inputs(logits))

    def _from_inputs(self, inputs: Array) -> Array:
        """The temperatures of rows by what the network reads of them."""
        xp = array_namespace(inputs)
        if is_numpy_array(inputs):
            weights = [part.astype(inputs.dtype) for part in self.weights_]
            low, high = self.input_range_.astype(inputs.dtype)
        else:
            place = {"dtype": inputs.dtype, "device": inputs.device}
            weights = [xp.asarray(part, **place) for part in self.weights_]
            low, high = xp.asarray(self.input_range_, **place)
        # beyond what it was fitted on, a network says what it says at the border
        inputs = xp.minimum(xp.maximum(inputs, low), high)
        return self._link(self._network(weights, inputs), xp)

    def _network(self, weights: Sequence[Array], inputs: Array) -> Array:
        return network.forward(weights, inputs)

    def _link(self, raw: Array, xp: Any) -> Array:
        return _anchored.temperature(raw, self.base_temperature_, xp)


def is_number(value: object) -> bool:
    """Whether a parameter is a real number, and not a flag."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1
