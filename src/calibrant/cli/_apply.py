"""``calibrant apply``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from calibrant.cli._echo import say
from calibrant.cli._inputs import about, check_output, read_for
from calibrant.cli._json import print_json
from calibrant.cli._options import (
    AsJson,
    CalibratorFile,
    Input,
    LabelsKey,
    MaxSize,
    OutputFileOrFolder,
    ScoresFiles,
    ScoresKey,
)
from calibrant.cli._progress import row_bar, working
from calibrant.cli._streaming import (
    Address,
    Clock,
    Engine,
    is_stream,
    open_for,
    refuse_stream_options,
    workers,
)

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.data.scorefiles import ScoreFile


def apply(
    calibrator: CalibratorFile,
    scores: ScoresFiles,
    output: OutputFileOrFolder,
    temperature: Annotated[
        bool, typer.Option("--temperature", help="Write the temperature of each row as well.")
    ] = False,
    kind: Input = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    max_size: MaxSize = None,
    only: Annotated[
        Literal["confidence"] | None,
        typer.Option(help="Of a stream, leave out the probabilities of all classes."),
    ] = None,
    kind_of_shards: Annotated[
        Literal["parquet", "npy"] | None,
        typer.Option("--format", help="Of a stream's outputs; left out: parquet."),
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write calibrated probabilities, beside all other columns that the scores have.

    Of a folder, a pattern or many files they go to a folder, shard by shard: where that is
    interrupted, the same command goes on with what is missing. Labels are not needed.
    """
    from calibrant.common.memory import parse_size

    reading: dict[str, Any] = {
        "input": kind,
        "scores_key": scores_key,
        "labels_key": labels_key,
        "need_labels": False,
        "max_size": parse_size(max_size),
    }
    if not is_stream(scores) and output.suffix:
        refuse_stream_options(only=only, format=kind_of_shards, engine=engine, address=address)
        _apply_file(calibrator, scores[0], output, temperature, reading, as_json)
        return
    if temperature:
        raise ValueError("--temperature goes with one file of scores, and a file to write")
    _check_folder(output, *scores)
    method = _loaded(calibrator, scores)
    stream, clock, who = open_for(method, scores, **reading), Clock(), workers(engine, address)
    with row_bar("calibrating") as progress:
        done = who.apply_stream(
            method, stream, output, only=only, format=kind_of_shards or "parquet", progress=progress
        )
    if as_json:
        document = {"n_rows": done.n_rows, "shards": done.n_shards, "skipped": done.skipped}
        names = {"columns": done.columns, "left_out": done.left_out}
        print_json({**document, **names, "folder": str(done.folder)})
        return
    before = f", {done.skipped} of them before" if done.skipped else ""
    say(
        f"wrote {', '.join(done.columns)} of {done.n_rows} rows to {done.folder} "
        f"({done.n_shards} shards{before}; {clock.rate(done.n_rows)})"
    )
    _note_left_out(done.left_out)


def _loaded(calibrator: Path, scores: list[Path]) -> Calibrator:
    """The calibrator; whoever gave the files in the other order is told so."""
    from calibrant.io import load_calibrator

    try:
        return load_calibrator(calibrator)
    except (ValueError, OSError):
        if not (calibrator.exists() and _is_calibrator(scores[0])):
            raise
    raise ValueError(
        f"the calibrator comes first, then the scores: {scores[0]} is a calibrator, and "
        f"{calibrator} is not. Say calibrant apply {scores[0]} {calibrator}"
    )


def _is_calibrator(path: Path) -> bool:
    from calibrant.io import load_calibrator

    try:
        load_calibrator(path)
    except (ValueError, TypeError, OSError):
        return False
    return True


def _note_left_out(left_out: Mapping[str, str]) -> None:
    """Tell which columns were not copied, and why."""
    for why in dict.fromkeys(left_out.values()):
        names = ", ".join(name for name, reason in left_out.items() if reason == why)
        say(f"note    left out {names}: {why}")


def _check_folder(folder: Path, *inputs: Path) -> None:
    """Refuse, before the work, a folder that cannot be written to."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"the outputs of a stream go to a folder, and {folder} is a file")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {folder.parent} to make {folder.name} in")
    for path in inputs:
        if path.is_dir() and folder.resolve() == path.resolve():
            raise ValueError(f"the output must be another folder than the input, got {folder}")


def _apply_file(
    calibrator: Path,
    scores: Path,
    output: Path,
    temperature: bool,
    reading: dict[str, Any],
    as_json: bool,
) -> None:
    """One file, in memory."""
    from calibrant.data import scorefiles
    from calibrant.data.scorefiles._formats import SUFFIXES

    check_output(output, SUFFIXES, calibrator, scores)
    method = _loaded(calibrator, [scores])
    if temperature and not hasattr(method, "temperature"):
        raise ValueError(f"--temperature: {type(method).__name__} has none for each row")
    data = read_for(method, scores, all_columns=True, **reading)
    with about(scores), working("calibrating"):
        probs = method.predict_proba(data.scores)
        per_row = method.temperature(data.scores) if temperature else None
        outputs = ["probs", *(["temperature"] if temperature else [])]
        others, left_out = _copies(data, probs.shape[1], outputs)
        unstored = scorefiles.write_probs(output, probs, temperature=per_row, others=others)
    left_out |= unstored
    names = [*outputs, *(name for name in others if name not in unstored)]
    rows, classes = probs.shape
    if as_json:
        document = {"n_rows": rows, "n_classes": classes, "arrays": names, "left_out": left_out}
        print_json({**document, "file": str(output)})
    else:
        say(f"wrote {', '.join(names)} of {rows} rows, {classes} classes to {output}")
        _note_left_out(left_out)


def _copies(
    data: ScoreFile, n_classes: int, outputs: list[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The other columns of a file by the names that they get, labels first; and those left out."""
    from calibrant.data.scorefiles._passing import class_labels, passing_columns

    passing = passing_columns(data.others, (), data.labels_name, "labels", outputs)
    copies = {new: data.others[name] for name, new in passing.renamed.items()}
    if data.labels_name in data.others:
        copies = {"labels": class_labels(copies["labels"], n_classes)} | {
            name: column for name, column in copies.items() if name != "labels"
        }
    return copies, {**data.left_out, **passing.left_out}
