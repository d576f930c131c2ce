"""From a formula to nodes: scores in; probabilities, confidence and temperature out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibrant import __version__
from calibrant.backends.onnx._files import tensor_info, write
from calibrant.backends.onnx._ops import OLDEST_OPSET, GraphBuilder, GraphOps, Tensor, need_onnx
from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.common.types import InputKind
from calibrant.formulas import Formula, FormulaRows, TemperatureFormula
from calibrant.formulas._row_functions import ordered_log_odds

DEFAULT_OPSET = 17  # of 2022: every runtime in use reads it
DTYPES = ("float32", "float16", "float64")
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
        The second input, of a calibrator that was fitted with covariates; None for any other.
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


def export(
    calibrator: Calibrator,
    path: str | os.PathLike[str],
    n_classes: int | None = None,
    dtype: Literal["float32", "float16", "float64"] = "float32",
    *,
    opset: int = DEFAULT_OPSET,
) -> GraphNames:
    """Write a fitted calibrator as an ONNX graph.

    The input ``logits`` (``probs`` for a calibrator with ``input="probs"``) is (batch, n_classes)
    with any batch size. The outputs are ``probabilities`` (batch, n_classes), ``confidence``
    (batch,), the largest of them, and, where the method has one, ``temperature`` (batch,). A
    calibrator that was fitted with covariates has a second input, ``covariates`` (batch, columns),
    in the order of the fit: float64 where ``dtype`` is, else float32.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator of any method.
    path : path-like
        The file to write, whose name ends in ``.onnx``; it appears whole or not at all.
    n_classes : int, optional
        The number of classes of the graph; None is that of the fit.
    dtype : {"float32", "float16", "float64"}, default "float32"
        The float of the input and the outputs; inside nothing is computed in less than float32.
    opset : int, default 17
        The version of ONNX's operators.

    Returns
    -------
    GraphNames
        The names of the graph's input and outputs.

    Raises
    ------
    ValueError
        Where the dtype, the opset, the number of classes or the end of the file's name does not
        fit.
    TypeError
        Where it is no calibrator of calibrant.
    OSError
        Where the file cannot be written, or a folder, a device, a FIFO or a socket is in its place.

    Examples
    --------
    >>> import calibrant, tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "ts.onnx")
    >>> ts = calibrant.TS().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
    >>> export(ts, file).outputs
    ('probabilities', 'confidence', 'temperature')
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if opset < OLDEST_OPSET:
        raise ValueError(f"opset must be at least {OLDEST_OPSET}, got {opset}")
    source = graph_source(calibrator, n_classes)
    names = free_names(source.input, set(), source)
    kind, graph, helper = np.dtype(dtype), GraphBuilder(opset), need_onnx("onnx.helper")
    emit(graph, source, kind, names)
    rows: list[Any] = ["batch"]
    shapes = dict.fromkeys(names.outputs, rows) | {names.probabilities: [*rows, source.n_classes]}
    inputs = [tensor_info(names.input, kind, [*rows, source.n_classes])]
    if names.covariates is not None:
        inputs.append(tensor_info(names.covariates, working_float(kind), [*rows, source.columns]))
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            f"calibrant_{source.method}",
            inputs,
            [tensor_info(name, kind, shapes[name]) for name in names.outputs],
            graph.initializers,
        ),
        producer_name="calibrant",
        producer_version=__version__,
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports),
    )
    helper.set_model_props(model, {"calibrant.method": source.method})
    write(model, path)
    return names


@dataclass(frozen=True)
class GraphSource:
    """What is written: a formula, what it is applied to, and for how many classes."""

    formula: Formula
    input: InputKind
    method: str
    n_classes: int

    @property
    def columns(self) -> int | None:
        """The number of covariates; None for a formula that reads none."""
        reads_covariates = "covariates" in self.formula.needs
        return len(self.formula.covariate_names) if reads_covariates else None


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


def free_names(scores: str, taken: set[str], source: GraphSource) -> GraphNames:
    """The names of a graph with these scores, none of which is taken."""
    wanted = ["probabilities", "confidence", "temperature"]
    lead, number = "", 0
    while any(lead + name in taken for name in wanted):
        number += 1
        lead = "calibrated_" if number == 1 else f"calibrated{number}_"
    probabilities, confidence, temperature = (lead + name for name in wanted)
    covariates, number = "covariates", 1
    while covariates in taken:
        number += 1
        covariates = f"covariates{number}"
    return GraphNames(
        scores,
        probabilities,
        confidence,
        temperature if isinstance(source.formula, TemperatureFormula) else None,
        covariates if source.columns is not None else None,
    )


def working_float(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What is computed in, and what covariates come in: float32 at least."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def emit(
    graph: GraphBuilder,
    source: GraphSource,
    dtype: np.dtype[Any],
    names: GraphNames,
    rank: int | None = 2,
    class_axis: int = -1,
) -> None:
    """Append everything between the inputs and the outputs, whose floats are of ``dtype``.

    ``rank`` is the number of dimensions of the scores, None where it is not known, and
    ``class_axis`` that of the classes, counted from the end.
    """
    ops, formula = GraphOps(source.n_classes), source.formula
    scores = Tensor(graph, names.input, dtype)
    order: list[int] = []  # of the axes, so that the classes are the last one
    if class_axis != -1:
        assert rank is not None
        axes = list(range(rank))
        order = [*axes[:class_axis], *axes[class_axis + 1 :], axes[class_axis]]
        scores = scores.apply("Transpose", perm=order)
    scores = scores.cast(working_float(dtype))
    logits = ordered_log_odds(scores, ops) if source.input == "probs" else scores
    covariates = None
    if names.covariates is not None:
        covariates = Tensor(graph, names.covariates, scores.dtype)
    rows = FormulaRows(logits, covariates)
    probabilities = formula.probabilities(rows, ops)
    results = {
        names.probabilities: probabilities,
        names.confidence: ops.drop(probabilities.reduce("ReduceMax")),
    }
    if order:
        back = [int(place) for place in np.argsort(order)]
        results[names.probabilities] = probabilities.apply("Transpose", perm=back)
    if isinstance(formula, TemperatureFormula) and names.temperature is not None:
        temperature = formula.row_temperatures(rows, ops)
        if dtype == np.float16:
            temperature = ops.minimum(temperature, LARGEST_FLOAT16)
        results[names.temperature] = temperature
    for name, result in results.items():
        graph.node("Identity", [result.cast(dtype).name], output=name)
