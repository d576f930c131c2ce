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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.backends.numba.compiler import has_machine_code
from calibrant.calibrators import _network as network
from calibrant.calibrators._base import Fitted
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators.profile import log_partition as tables
from calibrant.calibrators.profile.losses import ProfileLoss
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.calibrators.temperature._default_recipe import NetworkSettings
from calibrant.common.progress import reporter
from calibrant.common.types import Floats, Report, generator
from calibrant.formulas import AbsoluteLink, NetworkTemperature, TopLogits
from calibrant.formulas._array_operations import NUMPY

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-7
SMALLEST, LARGEST = 1e-12, 1e12  # temperatures
INPUT_CLIP = 100.0  # of the published code
MAX_DRAWS = 100
MUCH_WORK = 2**22  # rows times steps: NumPy is done with less before machine code is loaded


def fit_published(
    profile: TemperatureProfile,
    k: int,
    settings: NetworkSettings,
    *,
    linear: bool,
    learning_rate: float,
    batch_size: int,
    steps: int,
) -> Fitted:
    """The paper's recipe: one network on the k largest logits, a fixed number of steps of Adam."""
    inputs = np.clip(profile.top_logits(k), -INPUT_CLIP, INPUT_CLIP)
    rng = generator(settings.random_state)
    start, draws = draw_start(inputs, settings.hidden, rng, linear)
    with reporter(f"fitting {settings.title}", settings.progress) as report:
        weights = fit(
            profile,
            inputs,
            start,
            loss=settings.loss,
            penalty=0.0 if isinstance(settings.penalty, str) else float(settings.penalty),
            learning_rate=learning_rate,
            batch_size=batch_size,
            steps=steps,
            rng=rng,
            linear=linear,
            report=report,
        )
    formula = published_formula(weights, linear, settings.clip)
    problem = ProfileLoss(profile, settings.loss)
    return formula, FitInfo(
        True,
        f"all {steps} steps done, as published",
        iterations=steps,
        loss=settings.loss,
        before=problem.mean(0.0),
        after=problem.mean(-np.log(formula.from_inputs(inputs, NUMPY)[:, 0])),
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
        link=AbsoluteLink(SMALLEST, LARGEST),
        clip=clip,
    )


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
    work = steps * min(batch_size, len(profile))
    take = _steps_for(work)(
        Descent(
            ProfileLoss(profile, loss),
            inputs,
            flat,
            sizes,
            linear,
            decay=2.0 * penalty * network.kernel_mask(sizes, len(sizes) - 1).astype(np.float64),
            row_weight=profile.weight / profile.weight.mean() / profile.n_classes,
        )
    )
    for step, batch in enumerate(_batches(len(profile), batch_size, steps, rng), start=1):
        take(batch, learning_rate * np.sqrt(1.0 - BETA2**step) / (1.0 - BETA1**step))
        report(step, steps)
    return network.unflatten(flat, sizes)


def _steps_for(work: int) -> Callable[[Descent], Callable[[NDArray[np.intp], float], None]]:
    """Steps in machine code where that is to be had and worth its start, else in NumPy."""
    return NumpySteps if work < MUCH_WORK or not has_machine_code() else CompiledSteps


@dataclass(frozen=True, eq=False)
class Descent:
    """What steps are taken on: the mean loss of batches, as a function of a network's weights."""

    problem: ProfileLoss
    inputs: Floats
    flat: Floats  # the weights, which steps move in place
    sizes: Sequence[tuple[int, int]]
    linear: bool
    decay: Floats
    row_weight: Floats


class NumpySteps:
    """Steps of Adam."""

    def __init__(self, descent: Descent) -> None:
        self.descent = descent
        self.weights = network.unflatten(descent.flat, descent.sizes)  # views: they follow
        self.moment1, self.moment2 = np.zeros_like(descent.flat), np.zeros_like(descent.flat)

    def __call__(self, batch: NDArray[np.intp], rate: float) -> None:
        """Move the weights by one step."""
        on = self.descent
        inputs = on.inputs.take(batch, axis=0)
        raw, layers = network.forward_all(self.weights, inputs, on.linear)
        size = np.abs(raw)
        temperature = np.minimum(np.maximum(size, SMALLEST), LARGEST)
        # d loss / d r = -(d loss / d log b) / T * sign(r) = -(d loss / d log b) / r
        slope = on.problem.slopes(-np.log(temperature), batch)
        moving = temperature == size
        signal = np.where(moving, -slope / np.where(moving, raw, 1.0), 0.0)
        signal *= on.row_weight[batch] / len(batch)
        gradient = network.gradient(self.weights, layers, signal, on.linear)
        gradient += on.decay * on.flat
        self.moment1 += (1.0 - BETA1) * (gradient - self.moment1)
        self.moment2 += (1.0 - BETA2) * (gradient * gradient - self.moment2)
        on.flat[:] -= rate * self.moment1 / (np.sqrt(self.moment2) + EPSILON)


class CompiledSteps:
    """What ``NumpySteps`` does, several times faster.

    Rows outside of a profile's grid, mostly those of the first steps, have their slopes from
    ``ProfileLoss``.
    """

    def __init__(self, descent: Descent) -> None:
        from calibrant.backends.numba import paper_steps as code

        self.code = code
        problem, profile = descent.problem, descent.problem.profile
        rows = profile._block.rows
        self.problem = problem
        self.widths = np.array([fan_in for fan_in, _ in descent.sizes] + [1], np.int64)
        self.network = descent.flat, self.widths, descent.linear
        self.inputs, self.label_gap = _plain(descent.inputs), _plain(problem.label_gap)
        self.row_weight, self.decay = _plain(descent.row_weight), _plain(descent.decay)
        self.clip = np.array([SMALLEST, LARGEST])
        self.constants = np.array([1.0 - BETA1, 1.0 - BETA2, EPSILON])
        self.moments = np.zeros((2, len(descent.flat)))
        self.scratch: dict[int, tuple[Floats, Floats]] = {}
        shares = np.array([problem.brier_share, problem.nll_share])
        self.source: tuple[Any, ...] = shares, float(profile.scale)
        if isinstance(rows, tables.GapRows):
            self.slopes = code.slopes_on_gaps
            self.source += (_plain(rows.by_row, np.float32),)
        else:
            self.slopes = code.slopes_on_nodes
            nodes = _plain(rows.nodes, np.float32).reshape(len(rows.nodes), -1)
            grid = np.array([np.log(tables.B_MIN), tables.STEP])
            self.source += (nodes, tables.HERMITE, tables.HERMITE_SLOPE)
            self.source += (grid, tables.NODES_PER_OCTAVE)

    def __call__(self, batch: NDArray[np.intp], rate: float) -> None:
        """Move the weights by one step."""
        code = self.code
        blocks = -(-len(batch) // code.ROWS)
        if blocks not in self.scratch:  # room for the layers of a batch and for its slopes
            room = np.empty((blocks, int(self.widths.sum()), code.PITCH))
            self.scratch[blocks] = room, np.empty((blocks, code.ROWS))
        layers, slope = self.scratch[blocks]
        code.forward(*self.network, self.inputs, batch, layers)
        if self.slopes(batch, layers, slope, self.clip, self.label_gap, *self.source):
            flat = slope.reshape(-1)
            outside = np.flatnonzero(np.isnan(flat[: len(batch)]))
            raw = layers[outside // code.ROWS, -1, outside % code.ROWS]
            temperature = np.clip(np.abs(raw), *self.clip)
            flat[outside] = self.problem.slopes(-np.log(temperature), batch[outside])
        code.descend(
            *(*self.network, batch, layers, slope, self.clip, self.row_weight),
            *(self.decay, self.moments, rate, self.constants),
        )


def _plain(values: Any, kind: type = np.float64) -> NDArray[Any]:
    """The array as machine code reads it: of this kind, in one piece, aligned."""
    return np.require(values, kind, ["C", "A"])


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
