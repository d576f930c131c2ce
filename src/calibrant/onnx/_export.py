"""A calibrator alone in an ONNX file."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from calibrant import __version__
from calibrant._plan import Plan
from calibrant.calibrators import Calibrator
from calibrant.onnx._builder import OLDEST_OPSET, GraphBuilder, need_onnx
from calibrant.onnx._files import output_info, write
from calibrant.onnx._formulas import GraphNames, emit, has_temperature, plan_for_graph

DEFAULT_OPSET = 17  # of 2022: every runtime in use reads it
DTYPES = ("float32", "float16", "float64")


def export(
    calibrator: Calibrator,
    path: str | os.PathLike[str],
    num_classes: int | None = None,
    dtype: Literal["float32", "float16", "float64"] = "float32",
    *,
    opset: int = DEFAULT_OPSET,
) -> GraphNames:
    """Write a fitted calibrator as an ONNX graph and return the names of its input and outputs.

    The input ``logits`` (``probs`` for a calibrator with ``input="probs"``) is (batch,
    num_classes) with any batch size. The outputs are ``probabilities`` (batch, num_classes),
    ``confidence`` (batch,), the largest of them, and, where the method has one, ``temperature``
    (batch,). ``num_classes`` defaults to the fitted number, ``dtype`` is that of the input and the
    outputs: inside nothing is computed in less than float32.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if opset < OLDEST_OPSET:
        raise ValueError(f"opset must be at least {OLDEST_OPSET}, got {opset}")
    plan = plan_for_graph(calibrator, num_classes)
    temperature = "temperature" if has_temperature(plan) else None
    names = GraphNames(plan.input, "probabilities", "confidence", temperature)
    write(_model(plan, names, np.dtype(dtype), opset), path)
    return names


def _model(plan: Plan, names: GraphNames, dtype: np.dtype[Any], opset: int) -> Any:
    helper = need_onnx("onnx.helper")
    graph = GraphBuilder(opset)
    emit(graph, plan, dtype, names)
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    rows: list[Any] = ["batch"]
    shapes = dict.fromkeys(names.outputs, rows) | {names.probabilities: [*rows, plan.n_classes]}
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            f"calibrant_{plan.method}",
            [output_info(names.input, kind, [*rows, plan.n_classes])],
            [output_info(name, kind, shapes[name]) for name in names.outputs],
            graph.initializers,
        ),
        producer_name="calibrant",
        producer_version=__version__,
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports),
    )
    helper.set_model_props(model, {"calibrant.method": plan.method})
    return model
