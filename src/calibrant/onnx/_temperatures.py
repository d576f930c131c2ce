"""The temperature family as nodes."""

from __future__ import annotations

import numpy as np

from calibrant._plan import ConstantTemperature, Mixture, NetworkTemperature
from calibrant.calibrators._anchored import RANGE
from calibrant.calibrators._paper_recipe import LARGEST, SMALLEST
from calibrant.calibrators.hts import SMALLEST_ENTROPY
from calibrant.calibrators.parameterized import SMALLEST_GAP
from calibrant.onnx._builder import Tensor, is_masked, where


def constant_temperature(logits: Tensor, formula: ConstantTemperature) -> tuple[Tensor, Tensor]:
    """Probabilities, and the one temperature for each row."""
    temperature = logits.max().filled_like(formula.temperature)
    return softmax(logits, formula.temperature), temperature


def network_temperature(logits: Tensor, formula: NetworkTemperature) -> tuple[Tensor, Tensor]:
    """Probabilities, and each row's own temperature."""
    if formula.clip_logits is not None:
        logits = logits.at_least(-formula.clip_logits).at_most(formula.clip_logits)
    temperature = _temperature(_inputs(logits, formula), formula)
    return softmax(logits, temperature), temperature


def mixture(logits: Tensor, formula: Mixture) -> Tensor:
    """w1 softmax(z / T) + w2 softmax(z) + w3 uniform over the finite classes."""
    scaled, plain, uniform = formula.weights
    finite = (logits > -np.inf).cast(logits.dtype)
    parts = softmax(logits, formula.temperature) * scaled + softmax(logits) * plain
    return parts + finite / finite.sum() * uniform


def softmax(logits: Tensor, temperature: Tensor | float = 1.0) -> Tensor:
    """softmax(z / T): dividing after the subtraction, nothing overflows."""
    return scaled_gaps(logits, temperature).softmax()


def scaled_gaps(logits: Tensor, temperature: Tensor | float) -> Tensor:
    """(z - max z) / T."""
    gaps = logits - logits.max()
    return gaps if temperature == 1.0 else gaps / temperature


def _temperature(values: Tensor, formula: NetworkTemperature) -> Tensor:
    graph, kind = values.graph, values.dtype
    values = values.at_least(graph.constant(formula.low, kind))
    values = values.at_most(graph.constant(formula.high, kind))
    last = len(formula.layers) - 1
    for index, (kernel, bias) in enumerate(formula.layers):
        values = values @ graph.constant(kernel, kind) + graph.constant(bias, kind)
        if index < last and not formula.linear:
            values = values.apply("Relu")
    if formula.base_temperature is None:
        return values.apply("Abs").at_least(SMALLEST).at_most(LARGEST)
    mean = (values / RANGE).apply("Tanh").sum() / float(len(bias))
    return (mean * RANGE).exp() * formula.base_temperature


def _inputs(logits: Tensor, formula: NetworkTemperature) -> Tensor:
    if formula.reads == "entropy":
        return _entropy_share(logits)
    top = _top(logits, formula.top)
    if formula.reads == "logits":
        return top
    first = top.columns(0, 1)
    if formula.top == 1:
        return first
    gaps = first - top.columns(1, formula.top)
    if formula.reads == "margin":
        return gaps
    return first.concat((gaps / formula.gap_unit + SMALLEST_GAP).log())


def _top(logits: Tensor, k: int) -> Tensor:
    """The k largest logits; the smallest finite one among them stands for masked classes."""
    top = logits.top(k)
    masked = is_masked(top)
    smallest = where(masked, top.columns(0, 1), top).min()
    return where(masked, smallest, top)


def _entropy_share(logits: Tensor) -> Tensor:
    """log of the entropy of softmax(z) over that of the uniform distribution.

    With g = z - max z and r the sum of exp(g) over all classes but one of the largest, the entropy
    is log(1 + r) - sum(g exp(g)) / (1 + r): no digit of a certain row's small entropy is lost.
    """
    gaps = scaled_gaps(logits, 1.0)
    finite, below = gaps > -np.inf, gaps < 0.0
    weight = gaps.exp()
    nothing = gaps.filled_like(0.0)
    ties = (gaps >= 0.0).cast(gaps.dtype).sum()
    rest = (where(below, weight, nothing).sum() + (ties - 1.0)).cast(np.float64)
    loss = where(finite, gaps, nothing) * weight
    entropy = (rest + 1.0).log() - loss.sum().cast(np.float64) / (rest + 1.0)
    classes = finite.cast(np.float64).sum()
    share = entropy / classes.at_least(2.0).log()
    return share.at_least(SMALLEST_ENTROPY).log().cast(logits.dtype)
