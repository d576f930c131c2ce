"""A calibrator appended to an ONNX model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.backends.onnx._builder import OLDEST_OPSET, GraphBuilder, need_onnx
from calibrant.backends.onnx._files import SUFFIXES, data_file, output_info, write
from calibrant.backends.onnx._graph import GraphNames, GraphSource, Layout, emit, graph_source
from calibrant.backends.onnx._kinds import check_kind
from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.common.files import check_output
from calibrant.common.untrusted_files import parsing
from calibrant.data.checks import class_axis_of

FLOATS = ("float32", "float16", "float64")
MODEL = "an ONNX model"


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
    model = _load(model_path)
    _check_not_its_weights(model, Path(model_path), Path(out_path))
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
    external = _external_tensors(model)
    _load_external(model, external, Path(model_path))
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
    with parsing(Path(path), MODEL):
        return need_onnx().load(os.fspath(path), load_external_data=False)


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


def _check_not_its_weights(model: Any, path: Path, out_path: Path) -> None:
    """Refuse an output whose weights would take the place of another model's."""
    data = data_file(out_path)
    files = {os.path.realpath(path.parent / _location(t)) for t in _external_tensors(model)}
    is_same = os.path.realpath(path) == os.path.realpath(out_path)
    if os.fspath(data) in files and not is_same:
        raise ValueError(f"the output's weights would replace those of {path}, {data}: rename it")


def _location(tensor: Any) -> str:
    """The file of a tensor's values, as the model names it."""
    return {entry.key: entry.value for entry in tensor.external_data}.get("location", "")


def _load_external(model: Any, tensors: list[Any], path: Path) -> None:
    """Read weights that lie in other files. Only files in the model's own folder are opened."""
    folder = os.path.realpath(path.parent)
    with parsing(path, MODEL):
        for tensor in tensors:
            location = _location(tensor)
            file = os.path.realpath(os.path.join(folder, location))
            if os.path.commonpath([folder, file]) != folder:
                raise ValueError(f"its weights {location!r} lie outside its folder")
            if not os.path.isfile(file):
                raise ValueError(f"its weights {location!r} are not beside it")
        if tensors:
            loader = need_onnx("onnx.external_data_helper")
            loader.load_external_data_for_model(model, os.fspath(path.parent))


def _external_tensors(model: Any) -> list[Any]:
    """The tensors whose values lie in other files."""
    external = need_onnx("onnx").TensorProto.EXTERNAL
    nodes = [node for function in model.functions for node in function.node]
    tensors = (*_tensors(model.graph), *_tensors_of_nodes(nodes))
    return [tensor for tensor in tensors if tensor.data_location == external]


def _tensors(graph: Any) -> Iterator[Any]:
    """All tensors of a graph and of the graphs inside it."""
    yield from graph.initializer
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for inner in (attribute.g, *attribute.graphs):
            yield from _tensors(inner)
