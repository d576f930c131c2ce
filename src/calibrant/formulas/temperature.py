"""The temperature family: one temperature, a network's, a mixture around one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant._ops import Ops
from calibrant._parts import (
    Part,
    checked_array,
    checked_arrays,
    checked_flag,
    checked_number,
    checked_part,
    require,
)
from calibrant._rows import log_softmax, softmax, uniform
from calibrant._types import Array, Floats
from calibrant.formulas._base import Formula, TemperatureFormula
from calibrant.formulas.reading import LogitRows, Reading


@dataclass(frozen=True, eq=False)
class ConstantTemperature(TemperatureFormula):
    """softmax(z / T) with one temperature for all rows."""

    kind: ClassVar[str] = "constant-temperature"

    value: float

    def __post_init__(self) -> None:
        checked_number(self, "value", above=0.0)

    @property
    def keeps_arg_max(self) -> bool:
        return True

    def temperature(self, logits: Array, ops: Ops) -> Array:
        return ops.constant(self.value, logits)


class Link(Part, ABC):
    """From a network's outputs to a temperature."""

    @abstractmethod
    def temperature(self, raw: Array, ops: Ops) -> Array:
        """Outputs (.., networks) -> temperatures (.., 1)."""


@dataclass(frozen=True, eq=False)
class ExponentialLink(Link):
    """T = base * exp(mean over the networks of reach * tanh(output / reach))."""

    kind: ClassVar[str] = "exponential-link"

    base: float
    reach: float  # no temperature leaves base * exp(-reach) .. base * exp(reach)

    def __post_init__(self) -> None:
        checked_number(self, "base", above=0.0)
        checked_number(self, "reach", above=0.0, high=100.0)

    def temperature(self, raw: Array, ops: Ops) -> Array:
        base, reach = ops.constant(self.base, raw), ops.constant(self.reach, raw)
        return base * ops.exp(reach * ops.mean(ops.tanh(raw / reach)))


@dataclass(frozen=True, eq=False)
class AbsoluteLink(Link):
    """T = |output|, clipped: the published link, of one network."""

    kind: ClassVar[str] = "absolute-link"

    smallest: float
    largest: float

    def __post_init__(self) -> None:
        checked_number(self, "smallest", above=0.0)
        checked_number(self, "largest", above=self.smallest)

    def temperature(self, raw: Array, ops: Ops) -> Array:
        smallest, largest = ops.constant(self.smallest, raw), ops.constant(self.largest, raw)
        return ops.minimum(ops.maximum(ops.abs(raw), smallest), largest)


@dataclass(frozen=True, eq=False)
class NetworkTemperature(TemperatureFormula):
    """softmax(z / T), T being what a small network reads off the row.

    Networks that are averaged are laid side by side as one with several outputs: the first kernels
    joined, the others along the diagonal. Inputs beyond ``low .. high``, what the network was
    fitted on, count as those ends.
    """

    kind: ClassVar[str] = "network-temperature"

    reading: Reading
    low: Floats
    high: Floats
    kernels: tuple[Floats, ...]  # (inputs, outputs)
    biases: tuple[Floats, ...]
    linear: bool  # without the ReLU between the layers
    link: Link
    clip: float | None  # the logits themselves are clipped to -clip .. clip

    def __post_init__(self) -> None:
        checked_part(self, "reading", Reading)
        checked_part(self, "link", Link)
        checked_flag(self, "linear")
        width = self.reading.width
        low = checked_array(self, "low", ndim=1, shape=(width,))
        high = checked_array(self, "high", ndim=1, shape=(width,))
        require(bool((low <= high).all()), "low must not lie above high")
        kernels, biases = checked_arrays(self, "kernels", 2), checked_arrays(self, "biases", 1)
        require(len(kernels) == len(biases) > 0, "every kernel must have a bias")
        for kernel, bias in zip(kernels, biases, strict=True):
            shape = (width, len(bias))
            require(kernel.shape == shape, f"a kernel must have shape {shape}, got {kernel.shape}")
            width = len(bias)
        require(width > 0, "the network must have an output")
        if isinstance(self.link, AbsoluteLink):
            require(width == 1, f"an absolute link is that of one output, got {width}")
        if self.clip is not None:
            checked_number(self, "clip", above=0.0)

    @property
    def keeps_arg_max(self) -> bool:
        return self.clip is None

    @property
    def fewest_classes(self) -> int:
        return self.reading.fewest_classes

    def read(self, logits: Array, ops: Ops) -> Array:
        if self.clip is None:
            return logits
        clip = ops.constant(self.clip, logits)
        return ops.minimum(ops.maximum(logits, -clip), clip)

    def temperature(self, logits: Array, ops: Ops) -> Array:
        return self.from_inputs(self.reading.read(LogitRows(logits, ops)), ops)

    def from_inputs(self, inputs: Array, ops: Ops) -> Array:
        """The temperatures of rows by what the network reads of them."""
        values = ops.maximum(inputs, ops.constant(self.low, inputs))
        values = ops.minimum(values, ops.constant(self.high, inputs))
        last = len(self.kernels) - 1
        for index, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            values = ops.matmul(values, ops.constant(kernel, inputs))
            values = values + ops.constant(bias, inputs)
            if index < last and not self.linear:
                values = ops.maximum(values, 0.0)
        return self.link.temperature(values, ops)


@dataclass(frozen=True, eq=False)
class Mixture(Formula):
    """w1 softmax(z / T) + w2 softmax(z) + w3 uniform over the classes that are not masked."""

    kind: ClassVar[str] = "mixture"

    temperature: float
    weights: NDArray[Any]  # of the scaled, the plain and the uniform part

    def __post_init__(self) -> None:
        checked_number(self, "temperature", above=0.0)
        weights = checked_array(self, "weights", ndim=1, shape=(3,), low=0.0, high=1.0)
        total = float(weights.sum())
        require(abs(total - 1.0) <= 1e-9, f"weights must sum to 1, got {total}")

    @property
    def keeps_arg_max(self) -> bool:
        return True

    def probabilities(self, logits: Array, ops: Ops) -> Array:
        scaled, plain, even = self._weights(logits, ops)
        temperature = ops.constant(self.temperature, logits)
        parts = scaled * softmax(logits, temperature, ops) + plain * softmax(logits, 1.0, ops)
        return parts + even * uniform(logits, ops)

    def log_probabilities(self, logits: Array, ops: Ops) -> Array:
        """By the largest part, so that nothing underflows."""
        masked = ops.is_masked(logits)
        classes = ops.sum(ops.cast(ops.invert(masked), logits))
        logs = (
            log_softmax(logits, ops.constant(self.temperature, logits), ops),
            log_softmax(logits, 1.0, ops),
            ops.full_like(logits, 0.0) - ops.log(classes),
        )
        parts = [
            ops.where(masked, 0.0, part) + ops.log(weight)
            for part, weight in zip(logs, self._weights(logits, ops), strict=True)
        ]
        largest = ops.maximum(ops.maximum(parts[0], parts[1]), parts[2])
        total = sum(ops.exp(part - largest) for part in parts)
        return ops.where(masked, -np.inf, largest + ops.log(total))

    def _weights(self, logits: Array, ops: Ops) -> tuple[Array, Array, Array]:
        weights = ops.constant(self.weights, logits)
        return weights[0:1], weights[1:2], weights[2:3]
