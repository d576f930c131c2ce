"""Print the table of docs/training.md: every trained network whose logits lie in a folder.

    python tools/training_table.py data

Epochs and seconds are those of the cards; accuracy, ECE (10 bins) and NLL are computed from the
stored logits.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from calibrant import datasets, metrics
from calibrant_papers.experiments import BINS
from calibrant_papers.logit_sets import ON_CIFAR, STAND_INS

HEADS = ("network", "seed", "epochs", "training (s)", "test accuracy (%)", "ECE (%)", "NLL")
STAND_IN = " *"  # behind the name of an architecture stand-in on CIFAR-100


def lines(folder: Path) -> Iterator[str]:
    """The table in Markdown."""
    yield f"| {' | '.join(HEADS)} |"
    yield "|" + "---|" * len(HEADS)
    for name in (*ON_CIFAR, *STAND_INS):
        found = {0: folder / f"{name}.npz"}
        for file in folder.glob(f"seed*/{name}.npz"):
            found[int(file.parent.name.removeprefix("seed"))] = file
        for seed in sorted(found):
            yield f"| {' | '.join(_cells(name, seed, found[seed]))} |"


def _cells(name: str, seed: int, file: Path) -> tuple[str, ...]:
    data = datasets.read(file)
    images = name.split("-")[0]
    network = re.split(r",| \(| with | of ", data.card["network"])[0]
    label = f"{images.upper().replace('CIFAR', 'CIFAR-')} {network}"
    scores = data.test_logits, data.test_labels
    return (
        label + STAND_IN * (name in STAND_INS),
        str(seed),
        str(data.card["epochs"]),
        f"{data.card['seconds']:.0f}",
        f"{100 * metrics.accuracy(*scores, input='logits'):.2f}",
        f"{100 * metrics.ece(*scores, n_bins=BINS, input='logits'):.2f}",
        f"{metrics.nll(*scores, input='logits'):.3f}",
    )


def main() -> int:
    """Read the command line, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    print("\n".join(lines(parser.parse_args().folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
