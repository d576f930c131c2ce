"""The application: its commands in the order of the help, each with its examples."""

from __future__ import annotations

from typing import Annotated

import typer

import calibrant
from calibrant.cli._apply import apply
from calibrant.cli._compare import compare
from calibrant.cli._demo import demo
from calibrant.cli._errors import OneLineGroup
from calibrant.cli._evaluate import evaluate
from calibrant.cli._fit import fit
from calibrant.cli._graphs import attach, export
from calibrant.cli._methods import methods
from calibrant.cli._monitor import monitor
from calibrant.cli._plot import plot
from calibrant.cli._report import report


def _examples(*lines: str) -> str:
    """An epilogue; typer keeps a line only where a paragraph ends."""
    return "\n\n".join(["Examples:", *lines])


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"calibrant {calibrant.__version__}")
        raise typer.Exit


app = typer.Typer(
    name="calibrant",
    cls=OneLineGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback(
    invoke_without_command=True,
    epilog=_examples("calibrant demo", "calibrant fit val.npz -o auto.safetensors"),
)
def root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version),
    ] = False,
) -> None:
    """Make a classifier's confidences mean what they say."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# Added here and not where they are defined: their order does not hang on that of the imports.
app.command(
    epilog=_examples(
        "calibrant fit val.npz -o auto.safetensors",
        "calibrant fit val.csv -o ts.safetensors --method ts --param loss=brier",
        "calibrant fit val.npz -o pts.safetensors --method pts --param hidden=8,8 --random-state 1",
        "calibrant fit logits.npy -o auto.safetensors --input logits --labels labels.npy",
        "calibrant fit in/ -o pts.safetensors --method pts    (a folder: bounded memory)",
    )
)(fit)
app.command(
    epilog=_examples(
        "calibrant apply pts.safetensors test.npz -o probs.npz",
        "calibrant apply pts.safetensors test.npy -o probs.parquet --temperature",
        "calibrant apply pts.safetensors in/ -o out/    (shard by shard; goes on when repeated)",
        "calibrant apply pts.safetensors in/ -o out/ --only confidence --engine ray",
    )
)(apply)
app.command(
    epilog=_examples(
        "calibrant evaluate test.npz",
        "calibrant evaluate test.npz --metrics accuracy,ece,nll --n-bins 20",
        "calibrant evaluate test.npz --calibrator pts.safetensors --json",
        "calibrant evaluate part-*.npz    (a stream: constant memory, no resampling)",
        "calibrant evaluate out/    (what apply wrote)",
    )
)(evaluate)
app.command(
    epilog=_examples(
        "calibrant compare val.npz    (cross-validation: the test set stays unseen)",
        "calibrant compare val.npz test.npz",
        "calibrant compare val.npz test.npz --methods ts,ets,pts --metrics ece,nll --json",
        "calibrant compare z.npy t.npy --input logits --labels y.npy --test-labels u.npy",
    )
)(compare)
app.command(
    epilog=_examples(
        "calibrant report -o demo.html    (of demonstration data)",
        "calibrant report val.npz test.npz -o report.html --methods ts,ets,pts,auto",
        "calibrant report val.npz -o report.html --force    (cross-validation; replaces the file)",
    )
)(report)
app.command(
    epilog=_examples(
        "calibrant plot -o reliability.png",
        "calibrant plot test.npz -o reliability.pdf --calibrator ts.safetensors "
        "--calibrator pts.safetensors",
        "calibrant plot test.npz -o classes.svg --by class --kind isotonic",
        "calibrant plot test.npz -o temperatures.png --what temperatures --against margin "
        "--calibrator pts.safetensors",
    )
)(plot)
app.command(
    epilog=_examples(
        "calibrant monitor part-*.npz --window 10000",
        "calibrant monitor scored/ --min-error 0.01",
    )
)(monitor)
app.command(epilog=_examples("calibrant demo", "calibrant demo --json"))(demo)
app.command(
    epilog=_examples(
        "calibrant export pts.safetensors -o pts.onnx --n-classes 1000",
        "calibrant export vector.safetensors -o vector.onnx --dtype float16",
    )
)(export)
app.command(
    epilog=_examples(
        "calibrant attach model.onnx pts.safetensors -o calibrated.onnx",
        "calibrant attach model.onnx pts.safetensors -o calibrated.onnx --logits-output logits",
    )
)(attach)
app.command(epilog=_examples("calibrant methods", "calibrant methods --json"))(methods)
