"""What a command reads: one file of scores in memory, or many as a stream of rows.

Folders, patterns, many files and large ones are read a few rows at a time.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli._output import say, working
from calibrant.common import files as _files
from calibrant.common.errors import noted

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.data.scorefiles import ScoreFile
    from calibrant.scale.streams import ScoreStream

EMBEDDED = "fashion-mnist-lenet5"  # the logits that come with the package
LARGE = 10**9  # bytes of one file from which on it is read as a stream, too


def how_to_read(
    kind: str | None,
    scores_key: str | None,
    labels_key: str | None,
    max_size: str | None,
    covariates: str | None = None,
    **others: Any,
) -> dict[str, Any]:
    """The options of a command as keywords of ``read_scores`` and ``open_stream``."""
    from calibrant.common.memory import parse_size

    keys = {"input": kind, "scores_key": scores_key, "labels_key": labels_key}
    if covariates is not None:  # the names of columns may have spaces inside
        others["covariates"] = tuple(dict.fromkeys(map(str.strip, covariates.split(","))))
    return {**keys, "max_size": parse_size(max_size), **others}


# --- one file ---------------------------------------------------------------------------------


def read_for(methods: Iterable[Calibrator], file: Path, **reading: Any) -> ScoreFile:
    """The scores of a file and the covariates that calibrators read; the first must take them."""
    from calibrant.data.scorefiles import read_scores

    methods = list(methods)
    takes = methods[0].input if methods else None
    names = dict.fromkeys(name for one in methods for name in one.formula_.covariate_names)
    with working(f"reading {file.name}"):
        data = read_scores(file, default_input=takes, covariates=tuple(names), **reading)
    _check_taken(takes, data.input, file)
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
    if fitted.input != judged.input:
        raise ValueError(f"{val} has {fitted.input}, but {test} has {judged.input}")
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


def pair_arguments(fitted: ScoreFile, judged: ScoreFile | None) -> dict[str, Any]:
    """Rows to fit on and to judge on as arguments of ``compare`` and ``make_report``."""
    arguments: dict[str, Any] = {
        "val_scores": fitted.scores,
        "val_labels": fitted.labels,
        "val_weight": fitted.weights,
        "input": fitted.input,
    }
    if fitted.covariates is not None:
        arguments["covariates"] = fitted.covariates
    if judged is None:
        return arguments
    if judged.covariates is not None:
        arguments["test_covariates"] = judged.covariates
    test = {"test_scores": judged.scores, "test_labels": judged.labels}
    return {**arguments, **test, "test_weight": judged.weights}


def embedded(dataset: str = EMBEDDED) -> tuple[ScoreFile, ScoreFile]:
    """The validation and the test rows that come with the package."""
    from calibrant.data import datasets
    from calibrant.data.rows import Rows
    from calibrant.data.scorefiles import ScoreFile

    data = datasets.load(dataset)
    return (
        ScoreFile(rows=Rows.of(data.val_logits, data.val_labels), scores_name="", labels_name=""),
        ScoreFile(rows=Rows.of(data.test_logits, data.test_labels), scores_name="", labels_name=""),
    )


def _check_taken(takes: str | None, given: str, file: Any) -> None:
    if takes not in (None, given):
        raise ValueError(
            f"the calibrator takes {takes}, but {file} has {given}: "
            f"if they are {takes} all the same, say --input {takes}"
        )


def note_unlabelled(unlabelled: int, file: Path | None = None) -> None:
    """Tell on standard error that rows have no label, of a file or of all of them."""
    if unlabelled:
        where = f"{file}: " if file else ""
        say(f"note: {where}{rows_without_label(unlabelled)}", err=True)


def rows_without_label(unlabelled: int) -> str:
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


def check_output(output: Path, suffixes: Collection[str], *inputs: Path | None) -> None:
    """Refuse, before the work, an output that would replace an input or cannot be written."""
    for path in inputs:
        if path is not None and os.path.realpath(output) == os.path.realpath(path):
            raise ValueError(f"the output must be another file than the input, got {output} twice")
    _files.check_output(output, suffixes)


# --- streams ----------------------------------------------------------------------------------


def is_stream(paths: Sequence[Path]) -> bool:
    """Whether scores are read a few rows at a time: they are no one file of usual size."""
    if len(paths) != 1:
        return True
    (path,) = paths
    if path.is_file():
        return path.suffix.lower() in (".parquet", ".npy") and path.stat().st_size > LARGE
    return path.is_dir() or glob.has_magic(str(path))


def refuse_stream_options(**options: Any) -> None:
    """Refuse options that mean nothing for one file in memory."""
    for name, value in options.items():
        if value not in (None, False, "local"):
            flag = name.replace("_", "-")
            raise ValueError(f"--{flag} goes with a folder, a pattern, or many files of scores")


def open_for(method: Calibrator | None, paths: Sequence[Path], **reading: Any) -> ScoreStream:
    """The stream of files, which must be what a calibrator takes."""
    from calibrant.scale.streams import open_stream

    takes = method.input if method else None
    stream = open_stream(paths, default_input=takes, **reading)
    _check_taken(takes, stream.input, stream.sources[0].path)
    return stream


def workers(engine: str, address: str | None) -> Any:
    """Who fits, applies and judges streams: a module with functions of the same names."""
    if engine == "local":
        if address is not None:
            raise ValueError("--address goes with --engine ray")
        from calibrant.scale import streams

        return streams
    from calibrant.scale.ray import connected

    return connected(address)
