"""From a plan to nodes: logits in; probabilities, confidence and temperature out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant import _plan
from calibrant.calibrators import Calibrator
from calibrant.onnx._affine import affine_map
from calibrant.onnx._builder import GraphBuilder, Tensor, where
from calibrant.onnx._increasing import increasing_logits
from calibrant.onnx._tables import column_map, top_label_map
from calibrant.onnx._temperatures import constant_temperature, mixture, network_temperature
from calibrant.onnx._two_classes import two_class_map

LARGEST_FLOAT16 = 65504.0


@dataclass(frozen=True)
class GraphNames:
    """What the input and the outputs of a written graph are called."""

    input: str
    probabilities: str
    confidence: str
    temperature: str | None  # None where the method has no temperature

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs in their order."""
        names = (self.probabilities, self.confidence, self.temperature)
        return tuple(name for name in names if name is not None)


def plan_for_graph(calibrator: Calibrator, classes: int | None) -> _plan.Plan:
    """What to write, for a given number of classes or the fitted one."""
    plan = _plan.plan(calibrator, classes)
    if plan.n_classes < 2:
        raise ValueError(f"num_classes must be at least 2, got {plan.n_classes}")
    return plan


def has_temperature(plan: _plan.Plan) -> bool:
    """Whether the method divides logits by a temperature."""
    return isinstance(plan.formula, _plan.ConstantTemperature | _plan.NetworkTemperature)


def emit(graph: GraphBuilder, plan: _plan.Plan, dtype: np.dtype[Any], names: GraphNames) -> None:
    """Append everything between the input and the outputs, whose floats are of ``dtype``.

    All is computed in float32 at least.
    """
    scores = graph.tensor(names.input, dtype)
    scores = scores.cast(np.float64 if dtype == np.float64 else np.float32)
    logits = log_odds(scores) if plan.input == "probs" else scores
    probabilities, temperature = _outputs(plan, logits)
    probabilities.cast(dtype).named(names.probabilities)
    probabilities.max().drop_last_axis().cast(dtype).named(names.confidence)
    if temperature is not None and names.temperature is not None:
        if dtype == np.float16:
            temperature = temperature.at_most(LARGEST_FLOAT16)
        temperature.drop_last_axis().cast(dtype).named(names.temperature)


def _outputs(plan: _plan.Plan, logits: Tensor) -> tuple[Tensor, Tensor | None]:
    match plan.formula:
        case _plan.ConstantTemperature() as formula:
            return constant_temperature(logits, formula)
        case _plan.NetworkTemperature() as formula:
            return network_temperature(logits, formula)
        case _plan.Mixture() as formula:
            return mixture(logits, formula), None
        case _plan.AffineMap() as formula:
            return affine_map(logits, formula), None
        case _plan.IncreasingLogits() as formula:
            return increasing_logits(logits, formula), None
        case _plan.ColumnMap() as formula:
            return column_map(logits, formula), None
        case _plan.TopLabelMap() as formula:
            return top_label_map(logits, formula, plan.n_classes), None
        case _plan.TwoClassMap() as formula:
            return two_class_map(logits, formula), None
    raise TypeError(f"{plan.method} cannot be an ONNX graph")


def log_odds(probs: Tensor) -> Tensor:
    """Probabilities as logits: log p minus its mean over the classes with p > 0."""
    positive = probs > 0.0
    logs = where(positive, probs, 1.0).log()
    centred = logs - logs.sum() / positive.cast(probs.dtype).sum()
    return where(positive, centred, -np.inf)
