"""The dense layers of a formula's small network: checked, and computed."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from calibrant.common.types import Array, Floats
from calibrant.formulas._operations import Ops
from calibrant.formulas._serialization import LARGEST, Part, checked_arrays, require

MOST_LAYERS = 32


class Layered(Protocol):
    """A part with the layers of a network."""

    @property
    def kernels(self) -> tuple[Floats, ...]:
        """Matrices (inputs, outputs)."""

    @property
    def biases(self) -> tuple[Floats, ...]:
        """Vectors (outputs,)."""


def checked_layers(part: Part, reach: Floats) -> Floats:
    """Refuse layers that do not fit each other, or whose numbers could leave those of float32.

    ``reach`` is how large each input can be; returns how large each output can be.
    """
    kernels, biases = checked_arrays(part, "kernels", 2), checked_arrays(part, "biases", 1)
    require(len(kernels) == len(biases) > 0, "every kernel must have a bias")
    require(len(biases) <= MOST_LAYERS, f"the network must have at most {MOST_LAYERS} layers")
    for kernel, bias in zip(kernels, biases, strict=True):
        shape = (len(reach), len(bias))
        require(kernel.shape == shape, f"a kernel must have shape {shape}, got {kernel.shape}")
        require(len(bias) > 0, "every layer of the network must have an output")
        reach = reach @ np.abs(kernel) + np.abs(bias)
        require(
            float(reach.max()) <= LARGEST,
            f"the network must not reach beyond {LARGEST:g}, got {reach.max():g}",
        )
    return reach


def widest(part: Layered) -> int:
    """The most numbers that a layer gives."""
    return max(int(bias.shape[0]) for bias in part.biases)


def network_output(part: Layered, inputs: Array, ops: Ops, linear: bool = False) -> Array:
    """Inputs (.., inputs) through the layers, with a ReLU between them unless ``linear``."""
    values = inputs
    for index, (kernel, bias) in enumerate(zip(part.kernels, part.biases, strict=True)):
        if index > 0 and not linear:
            values = ops.maximum(values, 0.0)
        values = ops.affine(values, ops.constant(kernel, inputs), ops.constant(bias, inputs))
    return values
