"""``calibrant export`` and ``calibrant attach``: calibrators as ONNX graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calibrant.cli import _options as option
from calibrant.cli._inputs import check_output
from calibrant.cli._output import print_json, say

if TYPE_CHECKING:
    from calibrant.backends.onnx import GraphNames


def export(
    calibrator: option.CalibratorFile,
    output: option.Output,
    n_classes: Annotated[
        int | None, typer.Option(min=2, help="Classes of the graph; left out: those of the fit.")
    ] = None,
    dtype: Annotated[
        Literal["float32", "float16", "float64"], typer.Option(help="Of the graph's scores.")
    ] = "float32",
    as_json: option.AsJson = False,
) -> None:
    """Write a calibrator as an ONNX graph: scores in, probabilities out."""
    from calibrant import onnx
    from calibrant.backends.onnx._files import SUFFIXES
    from calibrant.io import load_calibrator

    check_output(output, SUFFIXES, calibrator)
    names = onnx.export(load_calibrator(calibrator), output, n_classes=n_classes, dtype=dtype)
    _print_graph(names, output, as_json)


def attach(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX model.")],
    calibrator: option.CalibratorFile,
    output: option.Output,
    logits_output: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model's output that holds the scores.")
    ] = None,
    class_axis: Annotated[
        int | None, typer.Option(help="Its axis of the classes; left out: the last one.")
    ] = None,
    as_json: option.AsJson = False,
) -> None:
    """Append a calibrator to an ONNX model."""
    from calibrant import onnx
    from calibrant.backends.onnx._files import SUFFIXES
    from calibrant.io import load_calibrator

    check_output(output, SUFFIXES, model, calibrator)
    method = load_calibrator(calibrator)
    names = onnx.attach(model, method, output, logits_output, class_axis)
    _print_graph(names, output, as_json)


def _print_graph(names: GraphNames, output: Path, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(output), "input": names.input, "outputs": list(names.outputs)})
    else:
        say(f"wrote {output}: {names.input} -> {', '.join(names.outputs)}")
