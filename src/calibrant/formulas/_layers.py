"""The dense layers of a formula's small network: checked, and computed."""

from __future__ import annotations

from typing import Protocol

from calibrant._ops import Ops
from calibrant._parts import Part, checked_arrays, require
from calibrant._types import Array, Floats


class Layered(Protocol):
    """A part with the layers of a network."""

    @property
    def kernels(self) -> tuple[Floats, ...]:
        """Matrices (inputs, outputs)."""

    @property
    def biases(self) -> tuple[Floats, ...]:
        """Vectors (outputs,)."""


def checked_layers(part: Part, inputs: int) -> int:
    """Refuse layers that do not fit each other; returns the number of outputs."""
    kernels, biases = checked_arrays(part, "kernels", 2), checked_arrays(part, "biases", 1)
    require(len(kernels) == len(biases) > 0, "every kernel must have a bias")
    width = inputs
    for kernel, bias in zip(kernels, biases, strict=True):
        shape = (width, len(bias))
        require(kernel.shape == shape, f"a kernel must have shape {shape}, got {kernel.shape}")
        width = len(bias)
    require(width > 0, "the network must have an output")
    return width


def network_output(part: Layered, inputs: Array, ops: Ops, linear: bool = False) -> Array:
    """Inputs (.., inputs) through the layers, with a ReLU between them unless ``linear``."""
    values, last = inputs, len(part.kernels) - 1
    for index, (kernel, bias) in enumerate(zip(part.kernels, part.biases, strict=True)):
        values = ops.matmul(values, ops.constant(kernel, inputs))
        values = values + ops.constant(bias, inputs)
        if index < last and not linear:
            values = ops.maximum(values, 0.0)
    return values
