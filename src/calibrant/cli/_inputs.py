"""The files that a command reads: scores, and the calibrator that takes them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli._echo import say
from calibrant.cli._progress import working
from calibrant.common import files as _files
from calibrant.common.errors import noted

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.data.scorefiles import ScoreFile


def read_for(method: Calibrator | None, file: Path, **reading: Any) -> ScoreFile:
    """The scores of a file, read as ``reading`` says; they must be what a calibrator takes."""
    from calibrant.data.scorefiles import read_scores

    takes = method.input if method else None
    with working(f"reading {file.name}"):
        data = read_scores(file, default_input=takes, **reading)
    if takes not in (None, data.input):
        raise ValueError(
            f"the calibrator takes {takes}, but {file} has {data.input}: "
            f"if they are {takes} all the same, say --input {takes}"
        )
    return data


def read_pair(
    val: Path,
    test: Path | None,
    labels: tuple[Path | None, Path | None],
    ignore_index: int | None,
    **reading: Any,
) -> tuple[ScoreFile, ScoreFile | None]:
    """Rows to fit on and, where there is a second file, rows to judge on: the same kind of scores.

    Bad rows are refused by the name of their file, before the first fit.
    """
    if test is None and labels[1] is not None:
        raise ValueError("--test-labels needs TEST; the labels of one file are --labels")
    fitted = _read_checked(val, labels[0], ignore_index, reading)
    if test is None:
        return fitted, None
    judged = _read_checked(test, labels[1], ignore_index, reading)
    check_same_kind(val, fitted.input, test, judged.input)
    return fitted, judged


def _read_checked(
    file: Path, labels_path: Path | None, ignore_index: int | None, reading: dict[str, Any]
) -> ScoreFile:
    from calibrant.data.scorefiles import read_scores
    from calibrant.metrics._labelled import labelled

    with working(f"reading {file.name}"), about(file):
        data, unlabelled = read_scores(file, labels_path=labels_path, **reading).labelled()
        with noted():  # whoever works on the rows will warn of them
            labelled(data.scores, data.labels, data.weights, "strict", data.input, ignore_index)
    note_unlabelled(unlabelled, file)
    return data


def note_unlabelled(unlabelled: int, file: Path | None = None) -> None:
    """Tell on standard error that rows have no label, of a file or of all of them."""
    if unlabelled:
        where = f"{file}: " if file else ""
        say(f"note: {where}{left_out_rows(unlabelled)}", err=True)


def left_out_rows(unlabelled: int) -> str:
    """How many rows have no label, in words."""
    from calibrant.common.tables import counted

    verb = "was" if unlabelled == 1 else "were"
    return f"{counted(unlabelled, 'row')} without a label {verb} left out"


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
