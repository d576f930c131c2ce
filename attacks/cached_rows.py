"""Damaged rows of the reproduction: they are computed again."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import calibrant
from calibrant_papers import runner
from calibrant_papers.experiments import Setting
from calibrant_papers.logit_sets import Source
from interrupted_fits import rows_for
from tally import Tally

SETTING = Setting("mine", "ts")
AGAIN = {"data": "mine", "ece": -1.0, "brier": -1.0}  # what no experiment gives


def attack_rows(folder: Path, flips: int, rng: np.random.Generator) -> list[Tally]:
    """Flip bits of a row's file, and cut it short."""
    folder.mkdir()
    (val, labels), (test, target) = rows_for(1), rows_for(2)
    file = folder / "mine.npz"
    np.savez(file, val_logits=val, val_labels=labels, test_logits=test, test_labels=target)
    source, rows = Source("mine", file=file), folder / "rows"
    runner.run_all([SETTING], [source], rows, workers=1)
    [path] = rows.iterdir()
    content = path.read_bytes()
    flipped, cut = Tally("bit flips in a cached row"), Tally("cached rows cut short")
    with mock.patch.object(runner, "_work", return_value=AGAIN):
        for at in rng.integers(0, 8 * len(content), flips):
            changed = bytearray(content)
            changed[at // 8] ^= 1 << (at % 8)
            flipped.count(_accepted(source, path, bytes(changed)))
        for length in rng.integers(0, len(content), max(flips // 20, 1)):
            cut.count(_accepted(source, path, content[:length]))
    return [flipped, cut]


def _accepted(source: Source, path: Path, content: bytes) -> str | None:
    """Whether a changed row was taken for a good one."""
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        try:
            [row] = runner.run_all([SETTING], [source], path.parent, workers=1)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None if _is_new(row) else "a changed row was accepted"


def _is_new(row: dict[str, Any]) -> bool:
    return row["ece"] == AGAIN["ece"] and row["brier"] == AGAIN["brier"]
