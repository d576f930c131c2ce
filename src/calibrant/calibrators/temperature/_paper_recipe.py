"""The published fit of PTS: Adam on minibatches, here from the profile instead of the logits.

What the paper leaves open or its code does otherwise (docs/pts.md has the list), decided:

- the loss is the Brier score over the number of classes, as Keras' mean squared error has it:
  Adam is blind to that factor but for its epsilon;
- Adam's epsilon stands outside the bias correction, as in Keras;
- T = clip(|r|, 1e-12, 1e12), without a gradient where the clip holds;
- the penalty is the sum of squares of the hidden kernels (not of the output kernel or the biases);
- an epoch is a new permutation, and its last, smaller batch is kept;
- a start whose temperature is 0 for every row never learns, and is drawn again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant._losses import ProfileLoss
from calibrant._types import Report
from calibrant.calibrators import _network as network
from calibrant.profile import TemperatureProfile

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-7
SMALLEST, LARGEST = 1e-12, 1e12  # temperatures
MAX_DRAWS = 100


def draw_start(
    inputs: NDArray[np.float64], hidden: Sequence[int], rng: np.random.Generator, linear: bool
) -> tuple[network.Weights, int]:
    """Glorot weights that give some row a temperature, and how many draws it took."""
    sizes = network.layer_sizes(inputs.shape[1], hidden)
    for draw in range(1, MAX_DRAWS + 1):
        weights = network.glorot(sizes, rng)
        if np.any(np.abs(network.forward(weights, inputs, linear)) > SMALLEST):
            return weights, draw
    raise RuntimeError(f"no start out of {MAX_DRAWS} gave any row a temperature above 0")


def fit(
    profile: TemperatureProfile,
    inputs: NDArray[np.float64],
    start: network.Weights,
    *,
    loss: str,
    penalty: float,
    learning_rate: float,
    batch_size: int,
    steps: int,
    rng: np.random.Generator,
    linear: bool,
    report: Report,
) -> network.Weights:
    """The weights after ``steps`` steps of Adam."""
    sizes = network.layer_sizes(inputs.shape[1], [len(b) for b in start[1:-2:2]])
    flat = network.flatten(start)
    weights = network.unflatten(flat, sizes)  # views: they follow the steps
    decay = 2.0 * penalty * network.kernel_mask(sizes, len(sizes) - 1) if penalty else None
    problem = ProfileLoss(profile, loss)
    row_weight = profile.weight / profile.weight.mean() / profile.n_classes
    moment1, moment2 = np.zeros_like(flat), np.zeros_like(flat)
    for step, batch in enumerate(_batches(len(profile), batch_size, steps, rng), start=1):
        raw, layers = network.forward_all(weights, inputs.take(batch, axis=0), linear)
        size = np.abs(raw)
        temperature = np.minimum(np.maximum(size, SMALLEST), LARGEST)
        moving = temperature == size
        # d loss / d r = -(d loss / d log b) / T * sign(r) = -(d loss / d log b) / r
        slope = problem.slopes(-np.log(temperature), batch)
        still = not moving.all()
        signal = -slope / (np.where(moving, raw, 1.0) if still else raw)
        if still:
            signal[~moving] = 0.0
        signal *= row_weight[batch] / len(batch)
        gradient = network.gradient(weights, layers, signal, linear)
        if decay is not None:
            gradient += decay * flat
        moment1 += (1.0 - BETA1) * (gradient - moment1)
        moment2 += (1.0 - BETA2) * (gradient * gradient - moment2)
        rate = learning_rate * np.sqrt(1.0 - BETA2**step) / (1.0 - BETA1**step)
        flat -= rate * moment1 / (np.sqrt(moment2) + EPSILON)
        report(step, steps)
    return weights


def _batches(
    rows: int, size: int, steps: int, rng: np.random.Generator
) -> Iterator[NDArray[np.intp]]:
    """Row indices of one batch per step; a batch of all rows needs no shuffling."""
    if size >= rows:
        everything = np.arange(rows)
        for _ in range(steps):
            yield everything
        return
    done = 0
    while True:
        order = rng.permutation(rows)
        for first in range(0, rows, size):
            if done == steps:
                return
            done += 1
            yield order[first : first + size]
