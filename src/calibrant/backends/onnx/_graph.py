"""From a formula to nodes: scores in; probabilities, confidence and temperature out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.backends.onnx._builder import GraphBuilder, Tensor
from calibrant.backends.onnx._ops import GraphOps
from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.common.types import InputKind
from calibrant.formulas import Formula, FormulaRows, TemperatureFormula
from calibrant.formulas._row_functions import ordered_log_odds

LARGEST_FLOAT16 = 65504.0


@dataclass(frozen=True)
class GraphNames:
    """The names of the input and the outputs of a written graph.

    Parameters
    ----------
    input : str
        The scores.
    probabilities : str
        The calibrated probabilities.
    confidence : str
        The largest probability of each row.
    temperature : str or None
        The temperature of each row; None where the method has none.
    covariates : str or None
        The second input, of a calibrator that was fitted with covariates.
    """

    input: str
    probabilities: str
    confidence: str
    temperature: str | None
    covariates: str | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs in their order."""
        names = (self.probabilities, self.confidence, self.temperature)
        return tuple(name for name in names if name is not None)


@dataclass(frozen=True)
class GraphSource:
    """What is written: a formula, what it is applied to, and for how many classes."""

    formula: Formula
    input: InputKind
    method: str
    n_classes: int

    @property
    def has_temperature(self) -> bool:
        """Whether the method divides logits by a temperature."""
        return isinstance(self.formula, TemperatureFormula)


@dataclass(frozen=True)
class Layout:
    """The number of dimensions of the scores, None where it is not known, and their classes' axis.

    The axis is counted from the end.
    """

    rank: int | None = 2
    class_axis: int = -1

    def classes_last(self, scores: Tensor) -> Tensor:
        """The scores with the classes as their last axis."""
        return scores if self.class_axis == -1 else scores.transpose(self._order)

    def as_given(self, probabilities: Tensor) -> Tensor:
        """Probabilities with the classes last, in the layout of the scores."""
        if self.class_axis == -1:
            return probabilities
        return probabilities.transpose([int(place) for place in np.argsort(self._order)])

    @property
    def _order(self) -> list[int]:
        assert self.rank is not None
        axes = list(range(self.rank))
        return [*axes[: self.class_axis], *axes[self.class_axis + 1 :], axes[self.class_axis]]


ALONE = Layout()  # of a graph that is a calibrator alone: (batch, classes)


def graph_source(calibrator: Calibrator, n_classes: int | None) -> GraphSource:
    """A fitted calibrator, for a given number of classes or the fitted one."""
    check_is_calibrator(calibrator)
    name = type(calibrator).__name__
    size = calibrator.n_classes_ if n_classes is None else n_classes
    if size is None:
        raise ValueError(f"say n_classes: this {name} was made for any number of classes")
    if size < 2:
        raise ValueError(f"n_classes must be at least 2, got {size}")
    calibrator.formula_.check_classes(size)
    return GraphSource(calibrator.formula_, calibrator.input_, name, size)


def emit(
    graph: GraphBuilder,
    source: GraphSource,
    dtype: np.dtype[Any],
    names: GraphNames,
    layout: Layout = ALONE,
) -> None:
    """Append everything between the input and the outputs, whose floats are of ``dtype``.

    All is computed in float32 at least.
    """
    ops, formula = GraphOps(source.n_classes), source.formula
    scores = layout.classes_last(graph.tensor(names.input, dtype))
    scores = scores.cast(np.float64 if dtype == np.float64 else np.float32)
    logits = ordered_log_odds(scores, ops) if source.input == "probs" else scores
    covariates = None
    if names.covariates is not None:
        covariates = graph.tensor(names.covariates, dtype).cast(scores.dtype)
    rows = FormulaRows(logits, covariates)
    probabilities = formula.probabilities(rows, ops)
    layout.as_given(probabilities).cast(dtype).named(names.probabilities)
    probabilities.max().drop_last_axis().cast(dtype).named(names.confidence)
    if isinstance(formula, TemperatureFormula) and names.temperature is not None:
        temperature = formula.row_temperatures(rows, ops)
        if dtype == np.float16:
            temperature = temperature.at_most(LARGEST_FLOAT16)
        temperature.cast(dtype).named(names.temperature)
