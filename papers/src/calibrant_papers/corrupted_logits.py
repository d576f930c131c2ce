"""Train one network, then make its logits on clean and on corrupted images: one file for all.

    python -m calibrant_papers.corrupted_logits --dataset cifar10 --data IMAGES --network vgg19 \\
        --out FOLDER

A domain is one corruption at one severity, or the clean images. Every domain holds the same
images. As ``make_logits`` it needs NumPy, torch and Pillow alone; with ``--seconds N`` a training
stops after that time with exit code 3, and the same command goes on with it.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.files import replacing, write_text
from calibrant_papers._extras import need
from calibrant_papers._system import unwind_when_asked_to_end
from calibrant_papers.corruptions import CLEAN, CORRUPTIONS, SEVERITIES, STRENGTHS, corrupted
from calibrant_papers.images import TEST, VALIDATION, Bytes, ImageSet, load, split_by_class
from calibrant_papers.logits import (
    accuracy_and_ece,
    card_of,
    check_can_write,
    mean_nll,
    rounded,
    scores,
)
from calibrant_papers.make_logits import LICENCE, REPORT_EVERY, STOPPED, Tell, recipe_for
from calibrant_papers.thinning import FEW_CLASSES, NOTE, thinned

if TYPE_CHECKING:
    from calibrant_papers.training import Trained

FIT, TESTED = 0, 1  # the values of ``split`` in the file
HELD_OUT = 12_500
SHOWN_SEVERITIES = (1, 3, 5)
# Images to fit on and to test on, by data set: so the files of four networks stay small.
ROWS = {"cifar10": (2_000, 3_000), "cifar100": (1_000, 1_000)}
NETWORKS = ("lenet5", "vgg19")


class Domain(NamedTuple):
    """A corruption at a severity."""

    corruption: str
    severity: int


def domains(severities: Iterable[int] = SHOWN_SEVERITIES) -> list[Domain]:
    """The clean images, then every corruption at every severity."""
    found = [Domain(name, severity) for name in STRENGTHS for severity in severities]
    return [Domain(CLEAN, 0), *found]


@dataclass(frozen=True)
class Chosen:
    """The images that every domain holds: rows of an image set, those to fit on first."""

    rows: NDArray[np.int64]
    split: Bytes

    @classmethod
    def of(cls, data: ImageSet, rows_fit: int, rows_test: int, seed: int) -> Chosen:
        """Some of the validation rows and of the test rows, every class in its share."""
        fit = _some(data, VALIDATION, rows_fit, seed)
        test = _some(data, TEST, rows_test, seed)
        split = np.repeat(np.array([FIT, TESTED], np.uint8), [len(fit), len(test)])
        return cls(np.concatenate([fit, test]), split)


def _some(data: ImageSet, part: int, count: int, seed: int) -> NDArray[np.int64]:
    rows = data.rows(part)
    if not 0 < count <= len(rows):
        what = "fit on" if part == VALIDATION else "test on"
        raise ValueError(f"there are 1 to {len(rows)} images to {what}, got {count}")
    return rows[split_by_class(data.labels[rows], count, seed) == VALIDATION]


def copies(data: ImageSet, chosen: Chosen, domain: Domain, seed: int) -> Bytes:
    """The chosen images in one domain; the same pixels for every network."""
    code = CORRUPTIONS.index(domain.corruption)
    rng = np.random.default_rng([seed, code, domain.severity])
    return corrupted(data.images[chosen.rows], *domain, rng)


# --- the file ---------------------------------------------------------------------------------


def stored(logits: NDArray[np.float32]) -> NDArray[np.float16]:
    """The logits as the file holds them: thinned where there are many classes."""
    half = rounded(logits)
    return half if half.shape[1] <= FEW_CLASSES else thinned(half)


def content(
    data: ImageSet,
    chosen: Chosen,
    wanted: Sequence[Domain],
    logits: Sequence[NDArray[np.float16]],
) -> dict[str, NDArray[Any]]:
    """The arrays of the file: the rows of one domain after those of another."""
    codes = [CORRUPTIONS.index(domain.corruption) for domain in wanted]
    severities = [domain.severity for domain in wanted]
    times, each = len(wanted), len(chosen.rows)
    return {
        "logits": np.concatenate(logits),
        "labels": np.tile(data.labels[chosen.rows].astype(np.uint8), times),
        "split": np.tile(chosen.split, times),
        "corruption": np.repeat(np.array(codes, np.uint8), each),
        "severity": np.repeat(np.array(severities, np.uint8), each),
        "image": np.tile(chosen.rows.astype(np.uint16), times),  # CIFAR has 60,000 images
        "corruptions": np.array(CORRUPTIONS),
    }


def described(
    domain: Domain, logits: NDArray[np.float16], labels: NDArray[np.int64], split: Bytes
) -> dict[str, Any]:
    """What the card says about one domain."""
    fit, test = split == FIT, split == TESTED
    test_accuracy, test_ece = accuracy_and_ece(logits[test], labels[test])
    return {
        **domain._asdict(),
        "fit_accuracy": accuracy_and_ece(logits[fit], labels[fit])[0],
        "test_accuracy": test_accuracy,
        "test_ece": test_ece,
        "test_nll": mean_nll(logits[test], labels[test]),
    }


def write(path: Path, arrays: Mapping[str, Any], card: Mapping[str, Any]) -> None:
    """The file, then its card: where the card lies, the file is complete."""
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)
    write_text(card_of(path), json.dumps(card, indent=2) + "\n")


# --- training and running ---------------------------------------------------------------------


def corrupted_to_file(
    dataset: str,
    data: Path,
    network: str,
    out: Path,
    *,
    seed: int = 0,
    split_seed: int = 0,
    rows: tuple[int, int] | None = None,
    severities: Sequence[int] = SHOWN_SEVERITIES,
    device: str | None = None,
    until: float = math.inf,
    changes: Mapping[str, Any] | None = None,
    command: str = "",
    tell: Tell = print,
) -> dict[str, Any]:
    """Train, write ``out/DATASET-NETWORK-corrupted.npz`` and its card, return the card.

    ``rows`` are the numbers of images to fit on and to test on. The other arguments are those of
    ``make_logits.train_to_file``.
    """
    torch = need("torch")
    need("PIL.Image")  # before the training, not after it
    from calibrant_papers import training

    recipe = recipe_for(dataset, network, {"held_out": HELD_OUT, **(changes or {})})
    path = out / f"{dataset}-{network}-corrupted.npz"
    check_can_write(path)
    images = load(dataset, data, split_seed, recipe.held_out)
    chosen = Chosen.of(images, *(rows or ROWS[dataset]), split_seed)
    checkpoint = path.with_suffix(".checkpoint.pt")
    trained = training.train(
        images,
        network,
        recipe,
        seed=seed,
        device=device or ("cuda" if torch.cuda.is_available() else "cpu"),
        checkpoint=checkpoint,
        report_every=REPORT_EVERY,
        until=until,
        report=lambda epoch: tell(str(epoch)),
    )
    began = time.monotonic()
    wanted, labels = domains(severities), images.labels[chosen.rows]
    logits, found = [], []
    for domain in wanted:
        logits.append(stored(trained.logits_of(copies(images, chosen, domain, split_seed))))
        found.append(described(domain, logits[-1], labels, chosen.split))
        tell(line_of(found[-1]))
    card = {
        "name": path.stem,
        **card_of_training(trained),
        "rows": [int((chosen.split == part).sum()) for part in (FIT, TESTED)],
        "split_seed": split_seed,
        "strengths": STRENGTHS,
        "domains": found,
        "seconds_of_domains": round(time.monotonic() - began, 1),
        "licence": LICENCE,
        "command": command,
        **({"rounding": NOTE} if images.n_classes > FEW_CLASSES else {}),
    }
    write(path, content(images, chosen, wanted, logits), card)
    checkpoint.unlink(missing_ok=True)
    return card


def card_of_training(trained: Trained) -> dict[str, Any]:
    """What it says about the network; scores of all held-out rows, most not in the file, apart."""
    measured = scores(trained.held_out)
    own = {key: value for key, value in trained.card.items() if key not in measured}
    return {**own, "all_held_out_rows": measured}


def line_of(found: Mapping[str, Any]) -> str:
    """One line about a domain."""
    return (
        f"{found['corruption']:14} {found['severity']}  test accuracy "
        f"{found['test_accuracy']:.2%} ECE {found['test_ece']:.2%} NLL {found['test_nll']:.3f}"
    )


# --- command line -----------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """The command line of this module."""
    line = argparse.ArgumentParser(prog="corrupted_logits", description=__doc__.split("\n")[0])
    line.add_argument("--dataset", required=True, choices=sorted(ROWS))
    line.add_argument("--data", required=True, type=Path, help="the folder of the images")
    line.add_argument("--network", required=True, choices=NETWORKS)
    line.add_argument("--out", required=True, type=Path, help="the folder to write to")
    line.add_argument("--seed", type=int, default=0, help="of weights and batches")
    line.add_argument("--split-seed", type=int, default=0, help="of the rows and of the noise")
    line.add_argument("--rows-fit", type=int, help="images to fit on, in every domain")
    line.add_argument("--rows-test", type=int, help="images to test on, in every domain")
    line.add_argument(
        "--severities", type=int, nargs="+", choices=SEVERITIES, default=list(SHOWN_SEVERITIES)
    )
    line.add_argument("--device", help="cuda, cpu; default: cuda where there is one")
    line.add_argument("--no-tuning", action="store_true", help="cuDNN's first algorithms will do")
    line.add_argument(
        "--seconds", type=float, default=math.inf, help="stop the training after this time"
    )
    recipe = line.add_argument_group("changes to the recipe")
    recipe.add_argument("--epochs", type=int, metavar="X")
    recipe.add_argument("--held-out", type=int, metavar="X", default=HELD_OUT)
    return line


def main(arguments: list[str] | None = None) -> int:
    """Parse, train, make the logits of every domain, print one summary line."""
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
    seconds = (
        f"{card['seconds']:.0f} s to train, {card['seconds_of_domains']:.0f} s for all domains"
    )
    tell(f"{card['name']} seed {card['seed']}: {seconds}")
    return 0


def command_of(options: argparse.Namespace) -> str:
    """The command line for the card, without the folders and the time limit of one machine."""
    words = ["python", "-m", "calibrant_papers.corrupted_logits"]
    shown = vars(options) | {"data": "IMAGES", "out": "FOLDER", "seconds": None}
    for name, value in shown.items():
        if value is None or value is False:
            continue
        given = value if isinstance(value, list) else [] if value is True else [value]
        words += [f"--{name.replace('_', '-')}", *map(str, given)]
    return shlex.join(words)


def _make(options: argparse.Namespace, until: float, tell: Tell) -> dict[str, Any] | None:
    """The card, or None where the time was up first."""
    # All batches have one shape, so that trying cuDNN's algorithms can pay.
    need("torch").backends.cudnn.benchmark = not options.no_tuning
    from calibrant_papers.training import OutOfTime

    fit, test = ROWS[options.dataset]
    fit = fit if options.rows_fit is None else options.rows_fit
    test = test if options.rows_test is None else options.rows_test
    changes = {"epochs": options.epochs, "held_out": options.held_out}
    try:
        return corrupted_to_file(
            options.dataset,
            options.data,
            options.network,
            options.out,
            seed=options.seed,
            split_seed=options.split_seed,
            rows=(fit, test),
            severities=options.severities,
            device=options.device,
            until=until,
            changes={name: value for name, value in changes.items() if value is not None},
            command=command_of(options),
            tell=tell,
        )
    except OutOfTime as stop:
        tell(str(stop))
        return None


if __name__ == "__main__":
    unwind_when_asked_to_end()
    sys.exit(main())
