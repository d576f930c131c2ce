"""``calibrant reproduce`` and ``calibrant reproduce logits``.

Only light modules are imported here, so that ``calibrant --help`` is quick.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from calibrant_papers._messages import printable

if TYPE_CHECKING:
    from calibrant_papers.reproduction import Reproduction
    from calibrant_papers.runner import Report


class _AddTakesThree(TyperGroup):
    """Lets ``--add NAME VAL TEST`` be repeated: typer has options of three words or repeated ones.

    The three words travel as one, which a zero byte, never part of a path, holds together.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_joined(args)))


def _joined(args: list[str]) -> Iterator[str]:
    words = iter(args)
    for word in words:
        yield word
        if word.startswith("--add="):
            raise typer.BadParameter("--add takes three words: NAME VAL TEST")
        if word == "--add":
            three = list(islice(words, 3))
            if len(three) < 3 or any(part.startswith("--") for part in three):
                raise typer.BadParameter("--add takes three words: NAME VAL TEST")
            yield "\0".join(three)


def _bytes_of(size: str | None) -> int | None:
    """The bytes that a size such as 4GB or 500MiB means; None stays None."""
    if size is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?", size.strip().lower())
    if match is None:
        raise ValueError(f"max_size must be a number of bytes, or such as 500MB, got {size!r}")
    number, unit, binary = match.groups()
    power = "kmgt".index(unit) + 1 if unit else 0
    return int(Fraction(number) * (1024 if binary else 1000) ** power)


def _separated(text: str) -> tuple[str, Path, Path]:
    name, val, test = text.split("\0")
    return name, Path(val), Path(test)


app = typer.Typer(
    cls=_AddTakesThree,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback(
    epilog="\n\n".join(
        (
            "Examples:",
            "calibrant reproduce --out reproduction",
            "calibrant reproduce --quick --add mine val.npz test.npz",
            "calibrant reproduce logits --dataset cifar10 --data DIR --network vgg19 --out logits",
        )
    )
)
def reproduce(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for the page, the figures and the rows.")] = (
        Path("reproduction")
    ),
    logits: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Folder of NAME.npz, as `reproduce logits` writes them; may be repeated.",
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME VAL TEST",
            help="Your own scores; may be repeated. Seeds after the first pool the rows of both "
            "files and split them anew: --seeds 1 keeps yours.",
        ),
    ] = None,
    kind: Annotated[
        Literal["logits", "probs"] | None,
        typer.Option("--input", help="What added scores are, where their name does not say it."),
    ] = None,
    scores_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the scores in added files.")
    ] = None,
    labels_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the labels in added files.")
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="The most memory that the arrays of one file may take, such as 4GB.",
        ),
    ] = None,
    sets: Annotated[
        str | None, typer.Option(help="Names of sets, separated by commas; left out: all.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed, fewer fits of the published recipe.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many; left out: 3.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; left out: one per core.")
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Run nothing: the page of the rows that are there.")
    ] = False,
) -> None:
    """Rebuild the tables and figures of the PTS paper; an interrupted run goes on where it was."""
    if context.invoked_subcommand is not None:
        return
    from dataclasses import replace

    from calibrant_papers import plan
    from calibrant_papers.logit_sets import sources
    from calibrant_papers.reproduction import reproduce as run

    scope = plan.QUICK if quick else plan.FULL
    if seeds is not None:
        scope = replace(scope, seeds=seeds)
    added = [_separated(text) for text in add or ()]
    reading = {"input": kind, "scores_key": scores_key, "labels_key": labels_key}
    only = sets.split(",") if sets else ()
    chosen = sources(logits or (), added, only, {**reading, "max_size": _bytes_of(max_size)})
    with _progress() as report:
        made = run(chosen, out, scope=scope, workers=workers, report=report, kept_only=preview)
    _print_summary(made)


@app.command("logits")
def make_logits(
    dataset: Annotated[
        str, typer.Option(help="cifar10, cifar100, fashion-mnist: train; imagenet: run.")
    ],
    data: Annotated[Path, typer.Option(help="The folder of the images.", exists=True)],
    network: Annotated[
        str,
        typer.Option(
            help="lenet5, vgg19; on CIFAR-100 and ImageNet resnet50, resnet152, densenet169, "
            "xception, mobilenetv2."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("logits"),
    seed: Annotated[int, typer.Option(help="Of weights and batches.")] = 0,
    split_seed: Annotated[int, typer.Option(help="Of the validation rows.")] = 0,
    device: Annotated[
        str | None, typer.Option(help="cuda or cpu; left out: cuda where there is one.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="File of labels of a flat ImageNet folder.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="In place of the recipe's.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="In place of the recipe's.")] = None,
) -> None:
    """Train a network of the paper (or run a published one on ImageNet) and keep its logits.

    An interrupted run goes on where it was.
    """
    from calibrant_papers import make_logits as making

    shared: dict[str, Any] = {
        "split_seed": split_seed,
        "device": device,
        "command": shlex.join(["calibrant", *sys.argv[1:]]),
        "tell": lambda line: typer.echo(printable(line), err=True),
    }
    if dataset == "imagenet":
        card = making.imagenet_to_file(data, network, out, truth=truth, batch=batch, **shared)
    else:
        changes = {"epochs": epochs, "batch": batch}
        card = making.train_to_file(
            dataset,
            data,
            network,
            out,
            seed=seed,
            changes={name: value for name, value in changes.items() if value is not None},
            **shared,
        )
    typer.echo(making.summary(card))
    file = out / f"{card['name']}.npz"
    typer.echo(printable(f"wrote {file}; next: calibrant reproduce --logits {out}"))


@contextmanager
def _progress() -> Iterator[Report]:
    """A bar on a terminal, lines in a log."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    from calibrant_papers.runner import lines_of_progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines_of_progress()
        return
    columns = ("experiments", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, "{task.description}", console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(done: int, total: int, left: float) -> None:
            text = f"about {left / 60.0:.0f} min left" if left > 90.0 else f"{left:.0f} s left"
            bar.update(task, completed=done, total=total, description=text)

        yield report


def _print_summary(made: Reproduction) -> None:
    """Table 1's means, the verdicts and where everything lies."""
    from calibrant_papers.page import number

    table = made.tables["1"]
    typer.echo(str(made.coverage))
    typer.echo(f"ECE in 10 bins (%), {list(table.rows)[-1]}")
    for column, cell in zip(table.columns, list(table.rows.values())[-1], strict=True):
        typer.echo(f"  {column:<14} {number(cell)}")
    typer.echo("claims of the paper: PTS (paper) / PTS (default) / the paper's own tables")
    for verdict in made.verdicts:
        every = " / ".join(verdict.verdicts.values())
        typer.echo(f"  {every:<56} {verdict.claim}")
    rest = "index.md, tables.json, rows.csv and figures beside it"
    typer.echo(printable(f"wrote {made.page}, {rest}"))
