"""Make the logits of one network on one data set: train it, or run a published one on ImageNet.

    python -m calibrant.papers.pts.make_logits --dataset cifar100 --data DIR --network vgg19 \\
        --out DIR

It needs NumPy, torch and Pillow alone, so that it runs on a bare GPU machine from ``src``.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from calibrant.papers.pts._extras import need
from calibrant.papers.pts.recipes import NETWORKS, RECIPES, Recipe

Tell = Callable[[str], None]
DATASETS = sorted({dataset for dataset, _ in RECIPES})
# The fields of a recipe that the command line can change.
CHANGEABLE: dict[str, Callable[[str], Any]] = {
    "epochs": int,
    "batch": int,
    "rate": float,
    "weight_decay": float,
    "crop": int,
    "flip": lambda text: bool(int(text)),
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
    changes: Mapping[str, Any] | None = None,
    command: str = "",
    tell: Tell = print,
) -> dict[str, Any]:
    """Train, write ``out/DATASET-NETWORK.npz`` and its card, return the card.

    The checkpoint lies beside them and goes when they are complete; ``changes`` replaces fields of
    the recipe.
    """
    torch = need("torch")
    from calibrant.papers.pts import images, logits, training

    recipe = recipe_for(dataset, network, changes or {})
    path = out / f"{dataset}-{network}.npz"
    checkpoint = path.with_suffix(".checkpoint.pt")
    trained = training.train(
        images.load(dataset, data, split_seed),
        network,
        recipe,
        seed=seed,
        device=device or ("cuda" if torch.cuda.is_available() else "cpu"),
        checkpoint=checkpoint,
        compiled=compiled,
        report=lambda epoch: tell(str(epoch)),
    )
    notes = {"licence": LICENCE, "command": command}
    card = logits.write_logits(path, trained.held_out, {**trained.card, **notes})
    checkpoint.unlink(missing_ok=True)
    return card


LICENCE = "The images are their owners' and are not included; the logits are this project's own."


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
    from calibrant.papers.pts import imagenet, imagenet_logits, logits

    path = out / f"imagenet-{network}.npz"
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
    line.add_argument("--truth", type=Path, help="file of labels of a flat ImageNet folder")
    recipe = line.add_argument_group("changes to the recipe")
    for field in fields(Recipe):
        if field.name in CHANGEABLE:
            option = f"--{field.name.replace('_', '-')}"
            recipe.add_argument(option, metavar="X", type=CHANGEABLE[field.name])
    return line


def main(arguments: list[str] | None = None) -> int:
    """Parse, make the logits, print one summary line."""
    words = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(words)
    command = shlex.join(["python", "-m", "calibrant.papers.pts.make_logits", *words])

    def tell(line: str) -> None:
        print(line, flush=True)

    try:
        card = _make(options, command, tell)
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    tell(summary(card))
    return 0


def _make(options: argparse.Namespace, command: str, tell: Tell) -> dict[str, Any]:
    shared = {"split_seed": options.split_seed, "device": options.device, "command": command}
    where = (options.data, options.network, options.out)
    if options.dataset == "imagenet":
        return imagenet_to_file(
            *where, truth=options.truth, batch=options.batch, tell=tell, **shared
        )
    need("torch").backends.cudnn.benchmark = True  # all batches have one shape
    changes = {name: getattr(options, name) for name in CHANGEABLE}
    return train_to_file(
        options.dataset,
        *where,
        seed=options.seed,
        compiled=options.compile,
        changes={name: value for name, value in changes.items() if value is not None},
        tell=tell,
        **shared,
    )


def summary(card: Mapping[str, Any]) -> str:
    """One line about finished logits."""
    return (
        f"{card['name']:22} seed {card['seed']}  "
        f"val accuracy {card['val_accuracy']:.2%} ECE {card['val_ece']:.2%}  "
        f"test accuracy {card['test_accuracy']:.2%} ECE {card['test_ece']:.2%}  "
        f"{card['seconds']:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
