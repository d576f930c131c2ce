"""The temperature family: one temperature, a network's, a mixture around one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Array, Floats
from calibrant.formulas._base import Formula, FormulaRows, TemperatureFormula
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import log_softmax, uniform, weighted_softmax
from calibrant.formulas._serialization import (
    LARGEST,
    SMALLEST,
    Part,
    checked_array,
    checked_flag,
    checked_number,
    checked_part,
    require,
)
from calibrant.formulas.networks import LogitRows, Reading, checked_layers, network_output


@dataclass(frozen=True, eq=False)
class ConstantTemperature(TemperatureFormula):
    """One temperature for all rows: softmax(z / T).

    Parameters
    ----------
    value : float
        T, above 0.

    Notes
    -----
    softmax(z / T).

    Examples
    --------
    >>> import numpy as np
    >>> ConstantTemperature(2.0)(np.array([[2.0, 0.0]])).round(3)
    array([[0.731, 0.269]])
    """

    kind: ClassVar[str] = "constant-temperature"
    keeps_arg_max: ClassVar[bool] = True

    value: float

    def __post_init__(self) -> None:
        checked_number(self, "value", SMALLEST)

    def temperature(self, rows: FormulaRows, ops: Ops) -> Array:
        return ops.constant(self.value, rows.logits)


class Link(Part, ABC):
    """How a temperature follows from the outputs of networks."""

    @abstractmethod
    def temperature(self, raw: Array, ops: Ops) -> Array:
        """Compute temperatures (.., 1) from the outputs (.., networks)."""


@dataclass(frozen=True, eq=False)
class ExponentialLink(Link):
    """A temperature around a base, from the mean of several networks.

    Parameters
    ----------
    base : float
        The temperature where all outputs are 0.
    reach : float
        No temperature leaves base * exp(-reach) .. base * exp(reach).

    Notes
    -----
    T = base * exp(mean over the networks of reach * tanh(output / reach)).

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas._array_operations import NUMPY
    >>> ExponentialLink(base=2.0, reach=3.0).temperature(np.array([[0.0], [1.0]]), NUMPY).round(3)
    array([[2.   ],
           [5.247]])
    """

    kind: ClassVar[str] = "exponential-link"

    base: float
    reach: float

    def __post_init__(self) -> None:
        base = checked_number(self, "base", SMALLEST)
        factor = math.exp(checked_number(self, "reach", SMALLEST, 50.0))
        require(
            base / factor >= SMALLEST and base * factor <= LARGEST,
            f"temperatures from base / {factor:g} to base * {factor:g} must lie between "
            f"{SMALLEST:g} and {LARGEST:g}, got the base {base:g}",
        )

    def temperature(self, raw: Array, ops: Ops) -> Array:
        base, reach = ops.constant(self.base, raw), ops.constant(self.reach, raw)
        return base * ops.exp(reach * ops.mean(ops.tanh(raw / reach)))


@dataclass(frozen=True, eq=False)
class AbsoluteLink(Link):
    """The absolute value of one network's output, as published.

    Parameters
    ----------
    smallest : float
        The smallest temperature.
    largest : float
        The largest temperature.

    Notes
    -----
    ``T = |output|``, clipped to smallest .. largest.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas._array_operations import NUMPY
    >>> AbsoluteLink(0.1, 10.0).temperature(np.array([[-2.0], [50.0]]), NUMPY)
    array([[ 2.],
           [10.]])
    """

    kind: ClassVar[str] = "absolute-link"

    smallest: float
    largest: float

    def __post_init__(self) -> None:
        smallest = checked_number(self, "smallest", SMALLEST)
        checked_number(self, "largest", smallest)

    def temperature(self, raw: Array, ops: Ops) -> Array:
        smallest, largest = ops.constant(self.smallest, raw), ops.constant(self.largest, raw)
        return ops.clip(ops.abs(raw), smallest, largest)


@dataclass(frozen=True, eq=False)
class NetworkTemperature(TemperatureFormula):
    """A temperature that a small network computes for each row: softmax(z / T(z)).

    Parameters
    ----------
    reading : Reading
        The inputs of the network.
    low : array of shape (inputs,)
        The smallest inputs that it was fitted on; smaller ones count as these.
    high : array of shape (inputs,)
        The largest inputs that it was fitted on; larger ones count as these.
    kernels : tuple of arrays of shape (inputs, outputs)
        The kernels of the layers. Networks that are averaged are laid side by side as one with
        several outputs: their first kernels joined, the others along the diagonal.
    biases : tuple of arrays of shape (outputs,)
        The biases of the layers.
    linear : bool
        Whether there is no ReLU between the layers.
    link : Link
        How the temperature follows from the outputs.
    clip : float or None
        The logits themselves are clipped to -clip .. clip; None leaves them as they are.

    Notes
    -----
    T = link(network(inputs)). Inputs are clipped to low .. high first.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas import Margin
    >>> formula = NetworkTemperature(
    ...     Margin(), [0.0], [9.0], ([[1.0]],), ([0.0],), True, AbsoluteLink(0.1, 10.0), None
    ... )
    >>> formula(np.array([[2.0, 0.0]])).round(3)  # T is the margin, 2
    array([[0.731, 0.269]])
    """

    kind: ClassVar[str] = "network-temperature"

    reading: Reading
    low: Floats
    high: Floats
    kernels: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    linear: bool
    link: Link
    clip: float | None

    def __post_init__(self) -> None:
        checked_part(self, "reading", Reading)
        checked_part(self, "link", Link)
        checked_flag(self, "linear")
        width = self.reading.width
        low = checked_array(self, "low", ndim=1, shape=(width,))
        high = checked_array(self, "high", ndim=1, shape=(width,))
        require(bool((low <= high).all()), "low must not lie above high")
        outputs = len(checked_layers(self, np.maximum(np.abs(low), np.abs(high))))
        if isinstance(self.link, AbsoluteLink):
            require(outputs == 1, f"an absolute link is that of one output, got {outputs}")
        if self.clip is not None:
            checked_number(self, "clip", SMALLEST)

    @property
    def keeps_arg_max(self) -> bool:
        return self.clip is None

    @property
    def fewest_classes(self) -> int:  # type: ignore[override]
        """The fewest classes that its network can read."""
        return self.reading.fewest_classes

    @cached_property
    def widest(self) -> int:  # type: ignore[override]
        """The most numbers that a layer gives."""
        return max(int(bias.shape[0]) for bias in self.biases)

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the network reads beside the logits."""
        return self.reading.needs

    @property
    def covariate_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of the covariates that its network reads."""
        return self.reading.covariate_names

    def read(self, rows: FormulaRows, ops: Ops) -> FormulaRows:
        if self.clip is None:
            return rows
        clip = ops.constant(self.clip, rows.logits)
        return rows.with_logits(ops.clip(rows.logits, -clip, clip))

    def temperature(self, rows: FormulaRows, ops: Ops) -> Array:
        inputs = self.reading.read(LogitRows(rows.logits, ops, rows.covariates))
        return self.from_inputs(inputs, ops)

    def from_inputs(self, inputs: Array, ops: Ops) -> Array:
        """Compute temperatures (.., 1) from the inputs of the network (.., inputs)."""
        low, high = ops.constant(self.low, inputs), ops.constant(self.high, inputs)
        values = ops.clip(inputs, low, high)
        return self.link.temperature(network_output(self, values, ops, self.linear), ops)


@dataclass(frozen=True, eq=False)
class Mixture(Formula):
    """A mixture of temperature scaling, the plain softmax and the uniform distribution.

    Parameters
    ----------
    temperature : float
        T, above 0.
    weights : array of shape (3,)
        w1, w2 and w3: at least 0, with the sum 1.

    Notes
    -----
    w1 softmax(z / T) + w2 softmax(z) + w3 / C, C being the number of classes that are not masked.

    Examples
    --------
    >>> import numpy as np
    >>> Mixture(2.0, [0.5, 0.3, 0.2])(np.array([[2.0, 0.0]])).round(3)
    array([[0.73, 0.27]])
    """

    kind: ClassVar[str] = "mixture"
    keeps_arg_max: ClassVar[bool] = True

    temperature: float
    weights: NDArray[Any]

    def __post_init__(self) -> None:
        checked_number(self, "temperature", SMALLEST)
        weights = checked_array(self, "weights", ndim=1, shape=(3,), low=0.0, high=1.0)
        total = float(weights.sum())
        require(abs(total - 1.0) <= 1e-9, f"weights must sum to 1, got {total}")

    def probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        scaled, plain, even = self._weights(logits, ops)
        gaps, temperature = ops.gaps(logits), ops.constant(self.temperature, logits)
        parts = weighted_softmax(ops.divide(gaps, temperature), scaled, ops)
        parts = parts + weighted_softmax(gaps, plain, ops)
        return parts + even * uniform(logits, ops)

    def log_probabilities(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        # by the largest part, so that nothing underflows
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
        # a gap too large for its float is -inf in all parts
        largest = ops.where(ops.is_masked(largest), 0.0, largest)
        total = sum(ops.exp(part - largest) for part in parts)
        return ops.where(masked, -np.inf, largest + ops.log(total))

    def _weights(self, logits: Array, ops: Ops) -> tuple[Array, Array, Array]:
        weights = ops.constant(self.weights, logits)
        return weights[0:1], weights[1:2], weights[2:3]
