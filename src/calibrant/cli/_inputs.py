"""The files that a command reads: scores, and the calibrator that takes them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant import _files
from calibrant.cli._progress import working

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.scorefiles import ScoreFile


def read_for(method: Calibrator | None, file: Path, **reading: Any) -> ScoreFile:
    """The scores of a file, read as ``reading`` says; they must be what a calibrator takes."""
    from calibrant.scorefiles import read_scores

    takes = method.input if method else None
    with working(f"reading {file.name}"):
        data = read_scores(file, default_input=takes, **reading)
    if takes not in (None, data.input):
        raise ValueError(
            f"the calibrator takes {takes}, but {file} has {data.input}: "
            f"if they are {takes} all the same, say --input {takes}"
        )
    return data


@contextmanager
def about(file: Path) -> Iterator[None]:
    """Errors about the rows of a file name it: ``_errors`` puts an error's notes first."""
    try:
        yield
    except (ValueError, TypeError, MemoryError) as error:
        if str(file) not in str(error):
            error.add_note(str(file))
        raise


def check_same_kind(first: Path, kind: str, second: Path, other_kind: str) -> None:
    """Refuse logits beside probabilities."""
    if kind != other_kind:
        raise ValueError(f"{first} has {kind}, but {second} has {other_kind}")


def check_output(output: Path, suffixes: Collection[str], *inputs: Path | None) -> None:
    """Refuse, before the work, an output that would replace an input or cannot be written."""
    for path in inputs:
        if path is not None and os.path.realpath(output) == os.path.realpath(path):
            raise ValueError(f"the output must be another file than the input, got {output} twice")
    _files.check_output(output, suffixes)
