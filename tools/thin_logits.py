"""Make stored logits smaller: the lower a logit below its row's highest, the coarser it is kept.

Run it from the repository root:

    python tools/thin_logits.py IN OUT

It reads every NAME.npz of the folder ``IN`` with its card, writes both to ``OUT``, and prints how
far accuracy, ECE and NLL of the network itself and of TS and PTS fitted anew have moved. The rule
is that of ``calibrant_papers.thinning``. Rows of ten classes are copied as they are: PTS reads all
their logits, and they are small anyway.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "papers" / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from calibrant import datasets, metrics
from calibrant.calibrators import calibrator
from calibrant_papers.logits import HeldOut, write_logits
from calibrant_papers.thinning import FEW_CLASSES, NOTE, thinned

METHODS = ("base", "ts", "pts")


def thin_file(source: Path, target: Path) -> tuple[HeldOut, HeldOut]:
    """Write one set anew; return it before and after."""
    data = datasets.read(source)
    labels = [part.astype(np.int64) for part in (data.val_labels, data.test_labels)]
    before = HeldOut(data.val_logits, labels[0], data.test_logits, labels[1])
    if before.val_logits.shape[1] <= FEW_CLASSES:
        target.parent.mkdir(parents=True, exist_ok=True)
        for suffix in (".npz", ".json"):
            target.with_suffix(suffix).write_bytes(source.with_suffix(suffix).read_bytes())
        return before, before
    after = replace(
        before, val_logits=thinned(before.val_logits), test_logits=thinned(before.test_logits)
    )
    card = json.loads(source.with_suffix(".json").read_text())
    card.pop("name")
    write_logits(target, after, card | {"rounding": NOTE})
    return before, after


def measured(held_out: HeldOut) -> Iterator[float]:
    """ECE in 10 bins (%) and NLL (nats) on the test rows, method by method."""
    for name in METHODS:
        options = {"random_state": 0} if name == "pts" else {}
        model = calibrator(name, **options).fit(held_out.val_logits, held_out.val_labels)
        probs = model.predict_proba(held_out.test_logits)
        yield 100.0 * metrics.ece(probs, held_out.test_labels, n_bins=10)
        yield metrics.nll(probs, held_out.test_labels)


def main() -> int:
    """Write all files, and print what it changed."""
    source, target = map(Path, sys.argv[1:])
    columns = [f"{what} {name}" for name in METHODS for what in ("ECE", "NLL")]
    print(f"{'set':24}{'MB':>6}{'to':>6}" + "".join(f"{column:>16}" for column in columns))
    moves = []
    for file in sorted(source.glob("*.npz")):
        before, after = thin_file(file, target / file.name)
        sizes = [path.stat().st_size / 1e6 for path in (file, target / file.name)]
        line = f"{file.stem:24}{sizes[0]:6.2f}{sizes[1]:6.2f}"
        if after is not before:
            old, new = (np.array(list(measured(part))) for part in (before, after))
            moves.append(new - old)
            pairs = zip(old, new - old, strict=True)
            line += "".join(f"{value:9.4f}{move:+7.3f}" for value, move in pairs)
        print(line, flush=True)
    if moves:
        root = np.sqrt(np.mean(np.square(moves), axis=0))
        for what, values in (("mean", np.mean(moves, axis=0)), ("root mean square", root)):
            print(f"{what:36}" + "".join(f"{value:+16.4f}" for value in values))
    return 0


if __name__ == "__main__":
    sys.exit(main())
