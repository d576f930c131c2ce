"""``calibrant apply``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

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
    """Write calibrated probabilities to a file, beside the labels where the scores have them.

    Of a folder, a pattern or many files they go to a folder, shard by shard: where that is
    interrupted, the same command goes on with what is missing.
    """
    from calibrant._memory import parse_size
    from calibrant.io import load_calibrator

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
    method = load_calibrator(calibrator)
    stream, clock, who = open_for(method, scores, **reading), Clock(), workers(engine, address)
    with row_bar("calibrating") as progress:
        done = who.apply_stream(
            method, stream, output, only=only, format=kind_of_shards or "parquet", progress=progress
        )
    if as_json:
        document = {"n_rows": done.n_rows, "shards": done.n_shards, "skipped": done.skipped}
        print_json({**document, "columns": done.columns, "folder": str(done.folder)})
        return
    before = f", {done.skipped} of them before" if done.skipped else ""
    say(
        f"wrote {', '.join(done.columns)} of {done.n_rows} rows to {done.folder} "
        f"({done.n_shards} shards{before}; {clock.rate(done.n_rows)})"
    )


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
    from calibrant import scorefiles
    from calibrant.io import load_calibrator
    from calibrant.scorefiles._formats import SUFFIXES

    check_output(output, SUFFIXES, calibrator, scores)
    method = load_calibrator(calibrator)
    if temperature and not hasattr(method, "temperature"):
        raise ValueError(f"--temperature: {type(method).__name__} has none for each row")
    data = read_for(method, scores, **reading)
    with about(scores), working("calibrating"):
        probs = method.predict_proba(data.scores)
        extra = {
            "labels": None if output.suffix.lower() == ".npy" else data.labels,
            "temperature": method.temperature(data.scores) if temperature else None,
        }
        scorefiles.write_probs(output, probs, **extra)
    names = ["probs", *(name for name, array in extra.items() if array is not None)]
    rows, classes = probs.shape
    if as_json:
        print_json({"n_rows": rows, "n_classes": classes, "arrays": names, "file": str(output)})
    else:
        say(f"wrote {', '.join(names)} of {rows} rows, {classes} classes to {output}")
