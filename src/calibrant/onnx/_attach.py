"""A calibrator appended to an ONNX model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._arrays import class_axis_of
from calibrant._files import check_output
from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.onnx._builder import OLDEST_OPSET, GraphBuilder, need_onnx
from calibrant.onnx._files import SUFFIXES, data_file, output_info, write
from calibrant.onnx._graph import GraphNames, GraphSource, Layout, emit, graph_source
from calibrant.onnx._kinds import check_kind

FLOATS = ("float32", "float16", "float64")


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
    already, all three begin with ``calibrated_``.

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
    ValueError
        Where the file is no ONNX model, the tensor is not there, the number of classes does not
        fit, the tensor holds probabilities and the calibrator reads logits, or the reverse, or the
        name of the file to write ends otherwise.
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
    model = _load(model_path)
    _check_not_its_weights(model, Path(model_path), Path(out_path))
    imports = _default_opset(model)
    if imports.version < OLDEST_OPSET:
        converter = need_onnx("onnx.version_converter")
        model = converter.convert_version(model, OLDEST_OPSET)
        imports = _default_opset(model)
    shapes = need_onnx("onnx.shape_inference").infer_shapes(model)
    logits = _logits(shapes.graph, logits_output)
    check_is_calibrator(calibrator)
    check_kind(model.graph, logits.name, calibrator.input_)
    layout = _layout(logits, calibrator, class_axis)
    source = graph_source(calibrator, _known_size(logits, layout.class_axis))
    taken = set(_names(model.graph))
    names = _free_names(source, logits.name, taken)
    graph = GraphBuilder(imports.version, _free_prefix(taken), layout.rank)
    emit(graph, source, logits.dtype, names, layout)
    model.graph.node.extend(graph.nodes)
    model.graph.initializer.extend(graph.initializers)
    model.graph.output.extend(_declared(names, logits, layout.class_axis))
    lowest = onnx.helper.find_min_ir_version_for(list(model.opset_import))
    model.ir_version = max(model.ir_version, lowest)
    external = _external_files(model, Path(model_path))
    if external:
        _load_weights(model, Path(model_path))
    write(model, out_path, bool(external))
    return names


@dataclass(frozen=True)
class _Logits:
    """The tensor that the calibrator reads."""

    name: str
    dtype: np.dtype[Any]
    shape: list[Any] | None  # None: not even the number of dimensions is known

    @property
    def element_type(self) -> int:
        return int(need_onnx("onnx.helper").np_dtype_to_tensor_dtype(self.dtype))


def _load(path: str | os.PathLike[str]) -> Any:
    """The model without the weights that lie in other files: they are needed only to write it."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)}")
    errors = need_onnx("google.protobuf.message")
    try:
        return need_onnx().load(os.fspath(path), load_external_data=False)
    except errors.DecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not an ONNX model: {error}") from None


def _load_weights(model: Any, path: Path) -> None:
    """Read the weights in other files of the model's folder; onnx refuses all ways out of it."""
    loader, checker = need_onnx("onnx.external_data_helper"), need_onnx("onnx.checker")
    try:
        loader.load_external_data_for_model(model, os.fspath(path.parent))
    except checker.ValidationError as error:
        raise ValueError(f"the weights of {path} cannot be read: {error}") from None


def _default_opset(model: Any) -> Any:
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            return entry
    added = model.opset_import.add()
    added.domain, added.version = "", OLDEST_OPSET
    return added


def _logits(graph: Any, name: str | None) -> _Logits:
    """The named tensor, or the only output."""
    outputs = [output.name for output in graph.output]
    if name is None and len(outputs) != 1:
        raise ValueError(f"the model has the outputs {outputs}: say which one with logits_output")
    name = outputs[0] if name is None else name
    for info in (*graph.output, *graph.value_info, *graph.input):
        if info.name == name:
            return _typed(info)
    inside = {output for node in graph.node for output in node.output}
    if name in inside:
        raise ValueError(f"the type of the tensor {name!r} cannot be inferred from the model")
    raise ValueError(f"the model has no tensor {name!r}; its outputs are {outputs}")


def _typed(info: Any) -> _Logits:
    helper = need_onnx("onnx.helper")
    tensor = info.type.tensor_type
    kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type) if tensor.elem_type else None
    if kind is None or kind.name not in FLOATS:
        raise TypeError(f"logits must be one of {', '.join(FLOATS)}, {info.name!r} is {kind}")
    if not tensor.HasField("shape"):
        return _Logits(info.name, kind, None)
    return _Logits(info.name, kind, [_size(size) for size in tensor.shape.dim])


def _layout(logits: _Logits, calibrator: Calibrator, class_axis: int | None) -> Layout:
    """Where the tensor has its classes; a shape that cannot be that of the fit is refused."""
    n_classes = calibrator.n_classes_ or calibrator.formula_.n_classes
    if logits.shape is not None:
        axis = class_axis_of(logits.shape, n_classes, class_axis)
        return Layout(len(logits.shape), axis)
    if class_axis not in (None, -1):
        raise ValueError(
            f"class_axis={class_axis} needs a tensor whose number of dimensions is known, and that "
            f"of {logits.name!r} cannot be inferred from the model"
        )
    return Layout(None)


def _known_size(logits: _Logits, axis: int) -> int | None:
    size = logits.shape[axis] if logits.shape else None
    return size if isinstance(size, int) else None


def _size(dimension: Any) -> int | str | None:
    if dimension.HasField("dim_value"):
        return int(dimension.dim_value)
    return str(dimension.dim_param) or None


def _names(graph: Any) -> Iterator[str]:
    """All names of a graph and of the graphs inside it."""
    for info in (*graph.input, *graph.output, *graph.initializer):
        yield info.name
    for node in graph.node:
        yield from (node.name, *node.output)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _names(inner)


def _free_prefix(taken: set[str]) -> str:
    number = 0
    while any(name.startswith(prefix := f"calibrant{number or ''}/") for name in taken):
        number += 1
    return prefix


def _free_names(source: GraphSource, logits: str, taken: set[str]) -> GraphNames:
    wanted = ["probabilities", "confidence", "temperature"]
    lead, number = "", 0
    while any(lead + name in taken for name in wanted):
        number += 1
        lead = "calibrated_" if number == 1 else f"calibrated{number}_"
    probabilities, confidence, temperature = (lead + name for name in wanted)
    return GraphNames(
        logits, probabilities, confidence, temperature if source.has_temperature else None
    )


def _declared(names: GraphNames, logits: _Logits, class_axis: int) -> list[Any]:
    rows = None if logits.shape is None else list(logits.shape)
    if rows is not None:
        del rows[class_axis]
    return [
        output_info(name, logits.element_type, logits.shape if place == 0 else rows)
        for place, name in enumerate(names.outputs)
    ]


def _external_files(model: Any, path: Path) -> set[str]:
    """The files beside a model in which some of its weights lie."""
    external = need_onnx("onnx").TensorProto.EXTERNAL
    return {
        os.path.realpath(path.parent / entry.value)
        for tensor in model.graph.initializer
        if tensor.data_location == external
        for entry in tensor.external_data
        if entry.key == "location"
    }


def _check_not_its_weights(model: Any, path: Path, out_path: Path) -> None:
    """Refuse an output whose weights would take the place of another model's."""
    data = data_file(out_path)
    is_same = os.path.realpath(path) == os.path.realpath(out_path)
    if os.fspath(data) in _external_files(model, path) and not is_same:
        raise ValueError(f"the output's weights would replace those of {path}, {data}: rename it")
