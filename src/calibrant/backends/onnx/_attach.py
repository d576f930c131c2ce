"""A calibrator appended to an ONNX model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibrant.backends.onnx._export import (
    DTYPES,
    GraphNames,
    emit,
    free_names,
    graph_source,
    working_float,
)
from calibrant.backends.onnx._files import (
    MODEL,
    SUFFIXES,
    check_not_its_weights,
    load,
    load_weights,
    tensor_info,
    write,
)
from calibrant.backends.onnx._ops import OLDEST_OPSET, GraphBuilder, need_onnx
from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.common.files import check_output, parsing
from calibrant.common.types import InputKind
from calibrant.data.checks import class_axis_of

# They move values, and change none.
_MOVES = {"Cast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_LOGITS = {"Conv", "Gemm", "LogSoftmax"}  # nothing that these give are probabilities


def attach(
    model_path: str | os.PathLike[str],
    calibrator: Calibrator,
    out_path: str | os.PathLike[str],
    logits_output: str | None = None,
    class_axis: int | None = None,
) -> GraphNames:
    """Append a fitted calibrator to an ONNX model.

    All outputs of the model stay; ``probabilities``, ``confidence`` and, where the method has one,
    ``temperature`` are added, in the float of the logits. Where the model uses one of these names
    already, all three begin with ``calibrated_``. A calibrator that was fitted with covariates adds
    an input ``covariates``, too: the shape of the logits without the classes, and the columns last,
    in the order of the fit; float64 where the logits are, else float32.

    Parameters
    ----------
    model_path : path-like
        The model.
    calibrator : Calibrator
        A fitted calibrator of any method.
    out_path : path-like
        The file to write, whose name ends in ``.onnx``; it appears whole or not at all. Where the
        model keeps weights outside, they go to ``out_path.data``.
    logits_output : str, optional
        The tensor with the logits (.., classes): an output of the model or any tensor inside it,
        such as the input of its own softmax. It may be left out where the model has one output.
    class_axis : int, optional
        The axis of the classes: 1 for the tensor (batch, classes, height, width) of a segmentation
        model. None is the last one.

    Returns
    -------
    GraphNames
        The names of what the calibrator reads and of what was added.

    Raises
    ------
    FileError
        Where the file is no ONNX model, or its weights lie in files that are not beside it: files
        outside its folder are never opened.
    ValueError
        Where the tensor is not there, the number of classes does not fit, the tensor holds
        probabilities and the calibrator reads logits, or the reverse, or the name of the file to
        write ends otherwise.
    TypeError
        Where the tensor is no array of floats, or ``calibrator`` no calibrator of calibrant.
    FileNotFoundError
        Where there is no such model.
    OSError
        Where the file cannot be written, or a folder, a device, a FIFO or a socket is in its place.

    Examples
    --------
    >>> import calibrant, onnx, onnx.parser, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> network = "net (float[N, 2] x) => (float[N, 2] logits) { logits = Neg(x) }"
    >>> model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> ' + network)
    >>> onnx.save(model, folder / "net.onnx")
    >>> ts = calibrant.TS().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
    >>> names = attach(folder / "net.onnx", ts, folder / "calibrated.onnx")
    >>> names.input, names.outputs
    ('logits', ('probabilities', 'confidence', 'temperature'))
    """
    onnx = need_onnx()
    check_output(out_path, SUFFIXES)
    model = load(model_path)
    check_not_its_weights(model, Path(model_path), Path(out_path))
    imports = _default_opset(model)
    with parsing(Path(model_path), MODEL):
        if imports.version < OLDEST_OPSET:
            converter = need_onnx("onnx.version_converter")
            model = converter.convert_version(model, OLDEST_OPSET)
            imports = _default_opset(model)
        shapes = need_onnx("onnx.shape_inference").infer_shapes(model)
    logits = _logits(shapes.graph, logits_output)
    check_is_calibrator(calibrator)
    check_kind(model.graph, logits.name, calibrator.input_)
    axis = _class_axis(logits, calibrator, class_axis)
    size = logits.shape[axis] if logits.shape else None
    source = graph_source(calibrator, size if isinstance(size, int) else None)
    taken = set(_names(model.graph))
    names, number = free_names(logits.name, taken, source), 0
    while any(name.startswith(prefix := f"calibrant{number or ''}/") for name in taken):
        number += 1
    rank = None if logits.shape is None else len(logits.shape)
    graph = GraphBuilder(imports.version, prefix, rank)
    emit(graph, source, logits.dtype, names, rank, axis)
    model.graph.node.extend(graph.nodes)
    model.graph.initializer.extend(graph.initializers)
    rows = None if logits.shape is None else list(logits.shape)
    if rows is not None:
        del rows[axis]
    for name in names.outputs:
        shape = logits.shape if name == names.probabilities else rows
        model.graph.output.append(tensor_info(name, logits.dtype, shape))
    if names.covariates is not None:
        shape = None if rows is None else [*rows, source.columns]
        declared = tensor_info(names.covariates, working_float(logits.dtype), shape)
        model.graph.input.append(declared)
    lowest = onnx.helper.find_min_ir_version_for(list(model.opset_import))
    model.ir_version = max(model.ir_version, lowest)
    write(model, out_path, external=load_weights(model, Path(model_path)))
    return names


def _default_opset(model: Any) -> Any:
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            return entry
    added = model.opset_import.add()
    added.domain, added.version = "", OLDEST_OPSET
    return added


# --- the tensor of the scores ---------------------------------------------------------------------


class _Logits(NamedTuple):
    """The tensor that the calibrator reads."""

    name: str
    dtype: np.dtype[Any]
    shape: list[Any] | None  # None: not even the number of dimensions is known


def _logits(graph: Any, name: str | None) -> _Logits:
    """The named tensor, or the only output."""
    outputs = [output.name for output in graph.output]
    if name is None and len(outputs) != 1:
        raise ValueError(f"the model has the outputs {outputs}: say which one with logits_output")
    name = outputs[0] if name is None else name
    infos = (*graph.output, *graph.value_info, *graph.input)
    info = next((info for info in infos if info.name == name), None)
    if info is None and any(name in node.output for node in graph.node):
        raise ValueError(f"the type of the tensor {name!r} cannot be inferred from the model")
    if info is None:
        raise ValueError(f"the model has no tensor {name!r}; its outputs are {outputs}")
    tensor, helper = info.type.tensor_type, need_onnx("onnx.helper")
    kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type) if tensor.elem_type else None
    if kind is None or kind.name not in DTYPES:
        raise TypeError(f"logits must be one of {', '.join(DTYPES)}, {info.name!r} is {kind}")
    if not tensor.HasField("shape"):
        return _Logits(info.name, kind, None)
    shape = [
        int(size.dim_value) if size.HasField("dim_value") else str(size.dim_param) or None
        for size in tensor.shape.dim
    ]
    return _Logits(info.name, kind, shape)


def _class_axis(logits: _Logits, calibrator: Calibrator, class_axis: int | None) -> int:
    """Where the tensor has its classes; a shape that cannot be that of the fit is refused."""
    if logits.shape is not None:
        n_classes = calibrator.n_classes_ or calibrator.formula_.n_classes
        return class_axis_of(logits.shape, n_classes, class_axis)
    if class_axis not in (None, -1):
        raise ValueError(
            f"class_axis={class_axis} needs a tensor whose number of dimensions is known, and that "
            f"of {logits.name!r} cannot be inferred from the model"
        )
    return -1


def check_kind(graph: Any, name: str, kind: InputKind) -> None:
    """Refuse the output of a softmax where logits are read, and what is surely none for probs."""
    node = _origin(graph, name)
    if node is None:
        return
    softmax = node if node.op_type == "Softmax" else None
    if node.op_type == "Exp":
        # models trained on log-probabilities end in Exp(LogSoftmax(x)), or in Exp(Log(Softmax(x)))
        softmax, expected = _origin(graph, node.input[0]), "LogSoftmax"
        if softmax is not None and softmax.op_type == "Log":
            softmax, expected = _origin(graph, softmax.input[0]), "Softmax"
        softmax = softmax if softmax is not None and softmax.op_type == expected else None
    if kind == "logits" and softmax is not None:
        what = "output" if softmax is node else node.op_type
        raise ValueError(
            f"the calibrator reads logits, but {name!r} is the {what} of a {softmax.op_type}: give "
            f'that one\'s input, logits_output="{softmax.input[0]}", or fit with input="probs"'
        )
    if kind == "probs" and node.op_type in _LOGITS:
        raise ValueError(
            f"the calibrator reads probabilities, but {name!r} is the output of a {node.op_type}: "
            "give the output of the model's softmax as logits_output, or fit on the logits"
        )


def _origin(graph: Any, name: str) -> Any | None:
    """The node whose values a tensor has; None for an input, a constant or a damaged graph."""
    makers = {output: node for node in graph.node for output in node.output}
    node = makers.pop(name, None)
    while node is not None and node.op_type in _MOVES and node.domain in ("", "ai.onnx"):
        node = makers.pop(node.input[0], None)  # popped: a loop ends, too
    return node


def _names(graph: Any) -> Iterator[str]:
    """All names of a graph and of the graphs inside it."""
    for info in (*graph.input, *graph.output, *graph.initializer):
        yield info.name
    for node in graph.node:
        yield from (node.name, *node.output)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _names(inner)
