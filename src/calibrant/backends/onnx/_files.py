"""ONNX model files: read without trust; checked, then renamed, so that no bad file appears."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from calibrant.backends.onnx._ops import need_onnx
from calibrant.common.files import FilePath, check_output, parsing, replacing

MODEL = "an ONNX model"
SUFFIXES = (".onnx",)
LARGEST_MESSAGE = 2**31 - 1  # of protobuf: weights beyond it lie in a second file
SMALLEST_APART = 1024  # bytes of a tensor that goes there


# --- writing --------------------------------------------------------------------------------------


def write(model: Any, path: FilePath, external: bool = False) -> None:
    """Check a model and put it at ``path``; ``external`` keeps large weights in ``path.data``."""
    check_output(path, SUFFIXES)
    large = [t for t in model.graph.initializer if len(t.raw_data) >= SMALLEST_APART]
    if not large or not (external or model.ByteSize() > LARGEST_MESSAGE):
        with replacing(path) as file:
            _write_and_check(model, file)
        return
    data, helper = data_file(path), need_onnx("onnx.external_data_helper")
    # the weights are renamed first, and the model, which needs them, at once after them
    with replacing(path) as file, replacing(data) as weights:
        entries = []  # of the model, with the name of the second file
        for tensor in large:
            offset = weights.tell()
            weights.write(tensor.raw_data)
            helper.set_external_data(tensor, "", offset, len(tensor.raw_data))
            tensor.ClearField("raw_data")
            entries += [entry for entry in tensor.external_data if entry.key == "location"]
        weights.flush()
        for entry in entries:
            entry.value = Path(weights.name).name  # as the check finds them
        _write_and_check(model, file)
        for entry in entries:
            entry.value = data.name
        file.seek(0)
        file.truncate()
        file.write(model.SerializeToString())


def data_file(path: FilePath) -> Path:
    """Where the weights of a model lie that are not in its file: beside what a link points to."""
    target = Path(os.path.realpath(path))
    return target.with_name(f"{target.name}.data")


def _write_and_check(model: Any, file: IO[bytes]) -> None:
    """Infer all shapes, too, and compare them with what the outputs declare."""
    file.write(model.SerializeToString())
    file.flush()
    checker = need_onnx("onnx.checker")
    try:
        checker.check_model(file.name, full_check=True)
    except MemoryError:
        raise
    except Exception as error:  # its own kinds, and those of names that are no text
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"the model does not pass ONNX's own check: {reason}") from None


def tensor_info(name: str, dtype: Any, shape: list[Any] | None) -> Any:
    """The declaration of a tensor; None in a shape is a size that is not known."""
    helper = need_onnx("onnx.helper")
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


# --- reading --------------------------------------------------------------------------------------


def load(path: FilePath) -> Any:
    """The model without the weights that lie in other files: they are needed only to write it."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)}")
    with parsing(Path(path), MODEL):
        return need_onnx().load(os.fspath(path), load_external_data=False)


def load_weights(model: Any, path: Path) -> bool:
    """Read weights that lie in other files, and say whether there are any.

    Only files in the model's own folder are opened.
    """
    folder = os.path.realpath(path.parent)
    tensors = _external_tensors(model)
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
    return bool(tensors)


def check_not_its_weights(model: Any, path: Path, out_path: Path) -> None:
    """Refuse an output whose weights would take the place of another model's."""
    data = data_file(out_path)
    files = {os.path.realpath(path.parent / _location(t)) for t in _external_tensors(model)}
    is_same = os.path.realpath(path) == os.path.realpath(out_path)
    if os.fspath(data) in files and not is_same:
        raise ValueError(f"the output's weights would replace those of {path}, {data}: rename it")


def _location(tensor: Any) -> str:
    """The file of a tensor's values, as the model names it."""
    return {entry.key: entry.value for entry in tensor.external_data}.get("location", "")


def _external_tensors(model: Any) -> list[Any]:
    """The tensors whose values lie in other files."""
    external = need_onnx("onnx").TensorProto.EXTERNAL
    graphs = (model.graph, *model.functions)
    tensors = (tensor for graph in graphs for tensor in _tensors(graph))
    return [tensor for tensor in tensors if tensor.data_location == external]


def _tensors(graph: Any) -> Iterator[Any]:
    """All tensors of a graph, or of a function, and of the graphs inside it."""
    yield from getattr(graph, "initializer", ())  # functions have none
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for inner in (attribute.g, *attribute.graphs):
            yield from _tensors(inner)
