"""Make the logits of one network on one data set: train it, or run a published one on ImageNet.

    python -m calibrant_papers.make_logits --dataset cifar100 --data DIR --network vgg19 \\
        --out DIR

It needs NumPy, torch and Pillow alone, so that it runs on a bare GPU machine from ``src``. With
``--seconds N`` a training stops after that time with exit code 3; the same command goes on with it.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from calibrant_papers._extras import need
from calibrant_papers._system import unwind_when_asked_to_end
from calibrant_papers.recipes import NETWORKS, RECIPES, STAND_INS, Recipe

Tell = Callable[[str], None]
DATASETS = sorted({dataset for dataset, _ in RECIPES})
STOPPED = 3  # exit code: the time was up, the checkpoint is written
REPORT_EVERY = 60.0  # seconds between lines about a training, each a pass over the validation rows
# The fields of a recipe that the command line can change.
CHANGEABLE: dict[str, Callable[[str], Any]] = {
    "epochs": int,
    "batch": int,
    "rate": float,
    "weight_decay": float,
    "crop": int,
    "flip": lambda text: bool(int(text)),
    "held_out": int,
}


def train_to_file(
    dataset: str,
    data: Path,
    network: str,
    out: Path,
    *,
    seed: int = 0,
    split_seed: int = 0,
    device: str | None = None,
    compiled: bool = False,
    until: float = math.inf,
    changes: Mapping[str, Any] | None = None,
    command: str = "",
    tell: Tell = print,
) -> dict[str, Any]:
    """Train, write ``out/DATASET-NETWORK.npz`` and its card, return the card.

    The checkpoint lies beside them and goes when they are complete; ``changes`` replaces fields of
    the recipe. ``until`` is a time of ``time.monotonic()`` at which ``training.OutOfTime`` ends it.
    """
    torch = need("torch")
    from calibrant_papers import images, logits, training

    recipe = recipe_for(dataset, network, changes or {})
    path = out / f"{dataset}-{network}.npz"
    logits.check_can_write(path)  # before hours of training, not after them
    checkpoint = path.with_suffix(".checkpoint.pt")
    trained = training.train(
        images.load(dataset, data, split_seed, recipe.held_out),
        network,
        recipe,
        seed=seed,
        device=device or ("cuda" if torch.cuda.is_available() else "cpu"),
        checkpoint=checkpoint,
        compiled=compiled,
        report_every=REPORT_EVERY,
        until=until,
        report=lambda epoch: tell(str(epoch)),
    )
    notes = {"licence": LICENCE, "command": command}
    if network in STAND_INS:
        notes = {"note": STAND_IN_NOTE} | notes
    card = logits.write_logits(path, trained.held_out, {**trained.card, **notes})
    checkpoint.unlink(missing_ok=True)
    return card


LICENCE = "The images are their owners' and are not included; the logits are this project's own."
STAND_IN_NOTE = (
    "Architecture stand-in on CIFAR-100: the paper trained this architecture on ImageNet, in its "
    "ImageNet form."
)


def recipe_for(dataset: str, network: str, changes: Mapping[str, Any]) -> Recipe:
    """The recipe of the table, with some fields changed."""
    if (dataset, network) not in RECIPES:
        known = ", ".join(f"{d} with {n}" for d, n in RECIPES)
        raise ValueError(f"there are recipes for {known}; got {dataset} with {network}")
    return replace(RECIPES[dataset, network], **changes)


def imagenet_to_file(
    data: Path,
    network: str,
    out: Path,
    *,
    truth: Path | None = None,
    split_seed: int = 0,
    device: str | None = None,
    batch: int | None = None,
    command: str = "",
    make: Callable[[], Any] | None = None,
    tell: Tell = print,
) -> dict[str, Any]:
    """Run a published network over a validation folder, write its logits, return the card."""
    torch = need("torch")
    from calibrant_papers import imagenet, imagenet_logits, logits

    path = out / f"imagenet-{network}.npz"
    logits.check_can_write(path)
    held_out, card = imagenet_logits.imagenet_logits(
        imagenet.find_pictures(data, truth),
        path.with_suffix(".rows.npy"),
        make or (lambda: imagenet_logits.pretrained(network)),
        split_seed=split_seed,
        device=device or ("cuda" if torch.cuda.is_available() else "cpu"),
        batch=batch or imagenet_logits.BATCH,
        report=_with_time_left(tell),
    )
    notes = {"licence": LICENCE, "command": command}
    return logits.write_logits(path, held_out, {**card, **notes})


def _with_time_left(tell: Tell) -> Callable[[int, int], None]:
    began, first = time.monotonic(), [0]

    def report(done: int, total: int) -> None:
        # The first batch of a resumed run stands behind rows of an earlier one: pace from there.
        first[0] = first[0] or done
        pace = (time.monotonic() - began) / max(done - first[0], 1)
        left = f"  {pace * (total - done):.0f} s left" if done > first[0] else ""
        tell(f"{done}/{total} pictures{left}")

    return report


# --- command line -----------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """The command line of this module."""
    line = argparse.ArgumentParser(prog="make_logits", description=__doc__.split("\n")[0])
    line.add_argument("--dataset", required=True, choices=[*DATASETS, "imagenet"])
    line.add_argument("--data", required=True, type=Path, help="the folder of the images")
    line.add_argument("--network", required=True, help=f"{', '.join(NETWORKS)}, or ImageNet's")
    line.add_argument("--out", required=True, type=Path, help="the folder to write to")
    line.add_argument("--seed", type=int, default=0, help="of weights and batches")
    line.add_argument("--split-seed", type=int, default=0, help="of the validation rows")
    line.add_argument("--device", help="cuda, cpu; default: cuda where there is one")
    line.add_argument("--compile", action="store_true", help="compile the network first")
    line.add_argument("--no-tuning", action="store_true", help="cuDNN's first algorithms will do")
    line.add_argument(
        "--seconds", type=float, default=math.inf, help="stop cleanly after this time"
    )
    line.add_argument("--truth", type=Path, help="file of labels of a flat ImageNet folder")
    recipe = line.add_argument_group("changes to the recipe")
    for field in fields(Recipe):
        if field.name in CHANGEABLE:
            option = f"--{field.name.replace('_', '-')}"
            recipe.add_argument(option, metavar="X", type=CHANGEABLE[field.name])
    return line


def main(arguments: list[str] | None = None) -> int:
    """Parse, make the logits, print one summary line."""
    began = time.monotonic()
    options = parser().parse_args(arguments)

    def tell(line: str) -> None:
        print(line, flush=True)

    try:
        card = _make(options, began + options.seconds, tell)
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if card is None:
        return STOPPED
    tell(summary(card))
    return 0


def command_of(options: argparse.Namespace) -> str:
    """The command line for the card, without the folders and the time limit of one machine."""
    words = ["python", "-m", "calibrant_papers.make_logits"]
    shown = vars(options) | {"data": "IMAGES", "out": "FOLDER", "seconds": None}
    shown["truth"] = "LABELS" if options.truth else None
    for name, value in shown.items():
        option = f"--{name.replace('_', '-')}"
        if name in ("compile", "no_tuning"):
            words += [option] if value else []
        elif value is not None:
            words += [option, str(int(value) if name == "flip" else value)]
    return shlex.join(words)


def _make(options: argparse.Namespace, until: float, tell: Tell) -> dict[str, Any] | None:
    """The card, or None where the time was up first."""
    command = command_of(options)
    shared = {"split_seed": options.split_seed, "device": options.device, "command": command}
    where = (options.data, options.network, options.out)
    if options.dataset == "imagenet":
        return imagenet_to_file(
            *where, truth=options.truth, batch=options.batch, tell=tell, **shared
        )
    # All batches have one shape, so that trying cuDNN's algorithms can pay.
    need("torch").backends.cudnn.benchmark = not options.no_tuning
    from calibrant_papers.training import OutOfTime

    changes = {name: getattr(options, name) for name in CHANGEABLE}
    try:
        return train_to_file(
            options.dataset,
            *where,
            seed=options.seed,
            compiled=options.compile,
            until=until,
            changes={name: value for name, value in changes.items() if value is not None},
            tell=tell,
            **shared,
        )
    except OutOfTime as stop:
        tell(str(stop))
        return None


def summary(card: Mapping[str, Any]) -> str:
    """One line about finished logits."""
    return (
        f"{card['name']:22} seed {card['seed']}  "
        f"val accuracy {card['val_accuracy']:.2%} ECE {card['val_ece']:.2%}  "
        f"test accuracy {card['test_accuracy']:.2%} ECE {card['test_ece']:.2%}  "
        f"{card['seconds']:.0f} s"
    )


if __name__ == "__main__":
    unwind_when_asked_to_end()
    sys.exit(main())
