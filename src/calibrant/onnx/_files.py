"""Writing ONNX models: checked first, then renamed, so that no bad or partial file appears."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from calibrant.onnx._builder import need_onnx

LARGEST_MESSAGE = 2**31 - 1  # of protobuf: weights beyond it lie in a second file


def write(model: Any, path: str | os.PathLike[str], external: bool = False) -> None:
    """Check a model and put it at ``path``; ``external`` keeps large weights in ``path.data``."""
    onnx = need_onnx()
    need_onnx("onnx.checker")
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} into")
    external = external or model.ByteSize() > LARGEST_MESSAGE
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder:
        temporary, data = Path(folder, target.name), f"{target.name}.data"
        options: dict[str, Any] = {"save_as_external_data": True, "location": data}
        onnx.save_model(model, os.fspath(temporary), **(options if external else {}))
        # full_check infers all shapes, and compares them with what the outputs declare
        try:
            onnx.checker.check_model(os.fspath(temporary), full_check=True)
        except onnx.checker.ValidationError as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"the model does not pass ONNX's own check: {reason}") from None
        if (written := Path(folder, data)).exists():
            written.chmod(temporary.stat().st_mode)  # onnx writes it for its owner alone
            os.replace(written, target.with_name(data))
        os.replace(temporary, target)


def output_info(name: str, element_type: int, shape: list[Any] | None) -> Any:
    """The declaration of a tensor; None in a shape is a size that is not known."""
    return need_onnx("onnx.helper").make_tensor_value_info(name, element_type, shape)
