"""The small networks while they are fitted: a few numbers per row in, one out, with derivatives.

Plain NumPy functions over a list of arrays ``W1, b1, W2, b2, .., Wout, bout`` (the order of the
authors' code). A fitted network is part of a formula, and computed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.formulas._array_operations import blas_flags_ignored

Weights = list[Floats]


def layer_sizes(inputs: int, hidden: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise([inputs, *hidden, 1]))


def glorot(sizes: Sequence[tuple[int, int]], rng: np.random.Generator) -> Weights:
    """Glorot-uniform kernels and zero biases: Keras' defaults."""
    weights: Weights = []
    for fan_in, fan_out in sizes:
        limit = np.sqrt(6.0 / (fan_in + fan_out))
        weights += [rng.uniform(-limit, limit, (fan_in, fan_out)), np.zeros(fan_out)]
    return weights


def flatten(weights: Sequence[Floats]) -> Floats:
    return np.concatenate([part.ravel() for part in weights])


def unflatten(flat: Floats, sizes: Sequence[tuple[int, int]]) -> Weights:
    """Views of a flat parameter vector in the shapes of the layers."""
    weights: Weights = []
    start = 0
    for fan_in, fan_out in sizes:
        kernel = flat[start : start + fan_in * fan_out].reshape(fan_in, fan_out)
        start += fan_in * fan_out
        weights += [kernel, flat[start : start + fan_out]]
        start += fan_out
    return weights


def kernel_mask(sizes: Sequence[tuple[int, int]], layers: int | None = None) -> NDArray[np.bool_]:
    """True where a flat parameter vector holds kernels (of the first ``layers`` layers)."""
    chosen = len(sizes) if layers is None else layers
    return np.concatenate(
        [np.repeat([layer < chosen, False], [i * o, o]) for layer, (i, o) in enumerate(sizes)]
    )


@blas_flags_ignored
def forward(weights: Weights, inputs: Floats, linear: bool = False) -> Floats:
    """The network's output (rows,)."""
    return forward_all(weights, inputs, linear)[0]


@blas_flags_ignored
def forward_all(weights: Weights, inputs: Floats, linear: bool = False) -> tuple[Floats, Weights]:
    """The output, and every layer's input on the way, (width, rows), for the derivatives.

    Layers are few numbers wide and many rows long: this way round all loops are long ones.
    """
    layers = [inputs.T]
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        hidden = kernel.T @ layers[-1]
        hidden += bias[:, None]
        if not linear:
            np.maximum(hidden, 0.0, out=hidden)
        layers.append(hidden)
    return weights[-2][:, 0] @ layers[-1] + weights[-1], layers


@blas_flags_ignored
def gradient(weights: Weights, layers: Weights, signal: Floats, linear: bool = False) -> Floats:
    """d (sum_i signal_i output_i) / d parameters, flat."""
    back, ones = signal[None, :], np.ones(len(signal))  # BLAS sums faster than NumPy here
    parts: list[Floats] = []
    for index in range(len(layers) - 1, -1, -1):
        parts += [back @ ones, (layers[index] @ back.T).ravel()]
        if index:
            back = weights[2 * index] @ back
            if not linear:
                back *= layers[index] > 0.0
    return np.concatenate(parts[::-1])


def jacobian(weights: Weights, layers: Weights, linear: bool = False) -> NDArray[np.float32]:
    """d output_i / d parameters: (parameters, rows), in single precision for the sake of speed."""
    rows = layers[0].shape[1]
    result = np.empty((sum(part.size for part in weights), rows), np.float32)
    back, stop = np.ones((1, rows), np.float32), len(result)
    for index in range(len(layers) - 1, -1, -1):
        width = len(back)
        result[stop - width : stop] = back
        stop -= width
        kernel = result[stop - weights[2 * index].size : stop].reshape(-1, width, rows)
        layer = np.ascontiguousarray(layers[index], np.float32)
        np.multiply(layer[:, None, :], back[None, :, :], out=kernel)
        stop -= weights[2 * index].size
        if index:
            back = weights[2 * index].astype(np.float32) @ back
            if not linear:
                back *= layer > 0.0
    return result
