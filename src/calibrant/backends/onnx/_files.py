"""Writing ONNX models: checked first, then renamed, so that no bad or partial file appears."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

from calibrant.backends.onnx._builder import need_onnx
from calibrant.common.files import FilePath, check_output, replacing

SUFFIXES = (".onnx",)
LARGEST_MESSAGE = 2**31 - 1  # of protobuf: weights beyond it lie in a second file
SMALLEST_APART = 1024  # bytes of a tensor that goes there


def write(model: Any, path: FilePath, external: bool = False) -> None:
    """Check a model and put it at ``path``; ``external`` keeps large weights in ``path.data``."""
    check_output(path, SUFFIXES)
    large = [t for t in model.graph.initializer if len(t.raw_data) >= SMALLEST_APART]
    if large and (external or model.ByteSize() > LARGEST_MESSAGE):
        _write_two_files(model, large, path)
        return
    with replacing(path) as file:
        _write_and_check(model, file)


def data_file(path: FilePath) -> Path:
    """Where the weights of a model lie that are not in its file: beside what a link points to."""
    target = Path(os.path.realpath(path))
    return target.with_name(f"{target.name}.data")


def _write_two_files(model: Any, large: list[Any], path: FilePath) -> None:
    """The weights are renamed first, and the model, which needs them, at once after them."""
    data = data_file(path)
    with replacing(path) as file, replacing(data) as weights:
        entries = [_moved(tensor, weights) for tensor in large]
        weights.flush()
        _rename(entries, Path(weights.name).name)  # as the check finds them
        _write_and_check(model, file)
        _rename(entries, data.name)
        file.seek(0)
        file.truncate()
        file.write(model.SerializeToString())


def _moved(tensor: Any, file: IO[bytes]) -> Any:
    """Put a tensor's values into a file; give the entry of the model that is to have its name."""
    helper = need_onnx("onnx.external_data_helper")
    offset = file.tell()
    file.write(tensor.raw_data)
    helper.set_external_data(tensor, "", offset, len(tensor.raw_data))
    tensor.ClearField("raw_data")
    return next(entry for entry in tensor.external_data if entry.key == "location")


def _rename(entries: list[Any], name: str) -> None:
    for entry in entries:
        entry.value = name


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


def output_info(name: str, element_type: int, shape: list[Any] | None) -> Any:
    """The declaration of a tensor; None in a shape is a size that is not known."""
    return need_onnx("onnx.helper").make_tensor_value_info(name, element_type, shape)
