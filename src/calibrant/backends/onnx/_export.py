"""A calibrator alone in an ONNX file."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from calibrant import __version__
from calibrant.backends.onnx._builder import OLDEST_OPSET, GraphBuilder, need_onnx
from calibrant.backends.onnx._files import output_info, write
from calibrant.backends.onnx._graph import GraphNames, GraphSource, emit, graph_source
from calibrant.calibrators import Calibrator

DEFAULT_OPSET = 17  # of 2022: every runtime in use reads it
DTYPES = ("float32", "float16", "float64")


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
    (batch,), the largest of them, and, where the method has one, ``temperature`` (batch,).

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
    temperature = "temperature" if source.has_temperature else None
    covariates = "covariates" if "covariates" in source.formula.needs else None
    names = GraphNames(source.input, "probabilities", "confidence", temperature, covariates)
    write(_model(source, names, np.dtype(dtype), opset), path)
    return names


def _model(source: GraphSource, names: GraphNames, dtype: np.dtype[Any], opset: int) -> Any:
    helper = need_onnx("onnx.helper")
    graph = GraphBuilder(opset)
    emit(graph, source, dtype, names)
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    rows: list[Any] = ["batch"]
    shapes = dict.fromkeys(names.outputs, rows) | {names.probabilities: [*rows, source.n_classes]}
    inputs = [output_info(names.input, kind, [*rows, source.n_classes])]
    if names.covariates is not None:
        columns = len(source.formula.covariate_names)
        inputs.append(output_info(names.covariates, kind, [*rows, columns]))
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            f"calibrant_{source.method}",
            inputs,
            [output_info(name, kind, shapes[name]) for name in names.outputs],
            graph.initializers,
        ),
        producer_name="calibrant",
        producer_version=__version__,
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports),
    )
    helper.set_model_props(model, {"calibrant.method": source.method})
    return model
