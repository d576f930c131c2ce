"""The application: its commands in the order of the help, each with its examples.

Commands of plugins come after them: found when the help lists them or one is called, loaded to run.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

import calibrant
from calibrant import plugins
from calibrant.cli._apply import apply
from calibrant.cli._compare import compare, demo
from calibrant.cli._errors import OneLineGroup
from calibrant.cli._evaluate import evaluate, monitor
from calibrant.cli._fit import fit, methods
from calibrant.cli._onnx import attach, export
from calibrant.cli._plot import plot
from calibrant.cli._report import report

# Commands of packages that may not be installed, and how to get them.
ELSEWHERE = {
    "reproduce": "reproduce belongs to calibrant-papers, which is not installed: in a clone of "
    "calibrant's repository, pip install ./papers"
}


class GroupWithPlugins(OneLineGroup):
    """A group that also has the commands of installed plugins, after its own."""

    _looked = False

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, in the order of the help."""
        self._add_plugins()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name; plugins are looked for only where it is none of calibrant's."""
        if cmd_name not in self.commands:
            self._add_plugins()
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called; one of a package that is missing is told."""
        if args and args[0] in ELSEWHERE and self.get_command(ctx, args[0]) is None:
            ctx.fail(ELSEWHERE[args[0]])
        return super().resolve_command(ctx, args)

    def _add_plugins(self) -> None:
        if self._looked:
            return
        self._looked = True
        for name, _, plugin in plugins.installed():
            for command in plugin.commands:
                if command.name in self.commands:
                    taken = ValueError("there is a command of that name already")
                    plugins.left_out(name, f"the command {command.name!r}", taken)
                else:
                    self.commands[command.name] = _OnDemand(command)


class _OnDemand(TyperGroup):
    """Stands for a plugin's command in the help, and hands over to it when it is called."""

    def __init__(self, command: plugins.Command) -> None:
        super().__init__(name=command.name, help=command.help)
        self._load = command.load

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """The context of the command that it stands for, which therefore is what runs."""
        try:
            command = typer.main.get_command(self._load())
        except Exception as error:  # it is other people's code
            said = f"{type(error).__name__}: {error}"
            raise ImportError(f"the command {self.name} could not be loaded: {said}") from error
        self.params = command.params  # messages speak of these flags
        return command.make_context(info_name, args, parent, **extra)


def _examples(*lines: str) -> str:
    """An epilogue; typer keeps a line only where a paragraph ends."""
    return "\n\n".join(["Examples:", *lines])


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"calibrant {calibrant.__version__}")
        raise typer.Exit


app = typer.Typer(
    name="calibrant",
    cls=GroupWithPlugins,
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
        bool, typer.Option("--version", help="Print the version.", callback=_print_version)
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
        "calibrant monitor part-*.npz --window 10000", "calibrant monitor scored/ --min-error 0.01"
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
