"""The files that a command reads: scores, and the calibrator that takes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import calibrant
from calibrant.cli._progress import working

if TYPE_CHECKING:
    from calibrant.scorefiles import ScoreFile


def load_both(calibrator: Path | None, scores: Path, **reading: Any) -> tuple[Any, ScoreFile]:
    """A calibrator, or None, and the scores that it takes; ``reading`` is for `read_scores`."""
    from calibrant.scorefiles import read_scores

    method = calibrant.load(calibrator) if calibrator else None
    takes = method.input if method else None
    with working(f"reading {scores.name}"):
        data = read_scores(scores, default_kind=takes, **reading)
    if takes not in (None, data.kind):
        raise ValueError(
            f"{calibrator} takes {takes}, but {scores} has {data.kind}: "
            f"if they are {takes} all the same, say --input {takes}"
        )
    return method, data


def check_not_same(output: Path, *inputs: Path | None) -> None:
    """Refuse an output that would overwrite an input."""
    for path in inputs:
        if path is not None and output.resolve() == path.resolve():
            raise ValueError(f"the output must be another file than the input, got {output} twice")
