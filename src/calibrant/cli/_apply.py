"""``calibrant apply``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from calibrant.cli import _inputs as inputs
from calibrant.cli import _options as option
from calibrant.cli._output import print_json, row_bar, say, working

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.data.scorefiles import ScoreFile


def apply(
    calibrator: option.CalibratorFile,
    scores: option.ScoresFiles,
    output: option.OutputFileOrFolder,
    temperature: Annotated[
        bool, typer.Option("--temperature", help="Write the temperature of each row as well.")
    ] = False,
    kind: option.Input = None,
    scores_key: option.ScoresKey = None,
    labels_key: option.LabelsKey = None,
    max_size: option.MaxSize = None,
    only: Annotated[
        Literal["confidence"] | None,
        typer.Option(help="Of a stream, leave out the probabilities of all classes."),
    ] = None,
    kind_of_shards: Annotated[
        Literal["parquet", "npy"] | None,
        typer.Option("--format", help="Of a stream's outputs; left out: parquet."),
    ] = None,
    engine: option.Engine = "local",
    address: option.Address = None,
    as_json: option.AsJson = False,
) -> None:
    """Write calibrated probabilities, beside all other columns that the scores have.

    Of a folder, a pattern or many files they go to a folder, shard by shard: where that is
    interrupted, the same command goes on with what is missing. Labels are not needed.
    """
    reading = inputs.how_to_read(kind, scores_key, labels_key, max_size, need_labels=False)
    if not inputs.is_stream(scores) and output.suffix:
        inputs.refuse_stream_options(
            only=only, format=kind_of_shards, engine=engine, address=address
        )
        _apply_file(calibrator, scores[0], output, temperature, reading, as_json)
        return
    if temperature:
        raise ValueError("--temperature goes with one file of scores, and a file to write")
    if output.exists() and not output.is_dir():
        raise ValueError(f"the outputs of a stream go to a folder, and {output} is a file")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {output.parent} to make {output.name} in")
    for path in scores:
        if path.is_dir() and output.resolve() == path.resolve():
            raise ValueError(f"the output must be another folder than the input, got {output}")
    method = _loaded(calibrator, scores[0])
    stream, who = inputs.open_for(method, scores, **reading), inputs.workers(engine, address)
    started = time.perf_counter()
    with row_bar("calibrating") as progress:
        done = who.apply_stream(
            method, stream, output, only=only, format=kind_of_shards or "parquet", progress=progress
        )
    if as_json:
        document = {"n_rows": done.n_rows, "shards": done.n_shards, "skipped": done.skipped}
        names = {"columns": done.columns, "left_out": done.left_out}
        print_json({**document, **names, "folder": str(done.folder)})
        return
    rate = done.n_rows / max(time.perf_counter() - started, 1e-9)
    before = f", {done.skipped} of them before" if done.skipped else ""
    say(
        f"wrote {', '.join(done.columns)} of {done.n_rows} rows to {done.folder} "
        f"({done.n_shards} shards{before}; {rate:,.0f} rows/s)"
    )
    _note_left_out(done.left_out)


def _loaded(calibrator: Path, scores: Path) -> Calibrator:
    """The calibrator; whoever gave the files in the other order is told so."""
    from calibrant.io import load_calibrator

    try:
        return load_calibrator(calibrator)
    except (ValueError, OSError):
        swapped = False
        if calibrator.exists():
            with suppress(ValueError, TypeError, OSError):
                load_calibrator(scores)
                swapped = True
        if not swapped:
            raise
    raise ValueError(
        f"the calibrator comes first, then the scores: {scores} is a calibrator, and "
        f"{calibrator} is not. Say calibrant apply {scores} {calibrator}"
    )


def _note_left_out(left_out: Mapping[str, str]) -> None:
    """Tell which columns were not copied, and why."""
    for why in dict.fromkeys(left_out.values()):
        names = ", ".join(name for name, reason in left_out.items() if reason == why)
        say(f"note    left out {names}: {why}")


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

    inputs.check_output(output, SUFFIXES, calibrator, scores)
    method = _loaded(calibrator, scores)
    if temperature and not hasattr(method, "temperature"):
        raise ValueError(f"--temperature: {type(method).__name__} has none for each row")
    data = inputs.read_for([method], scores, all_columns=True, **reading)
    used = {"covariates": data.covariates}
    with inputs.about(scores), working("calibrating"):
        probs = method.predict_proba(data.scores, **used)
        per_row = method.temperature(data.scores, **used) if temperature else None
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
    from calibrant.data.scorefiles._copied_columns import class_labels, columns_to_copy

    passing = columns_to_copy(data.others, (), data.labels_name, "labels", outputs)
    copies = {new: data.others[name] for name, new in passing.renamed.items()}
    if data.labels_name in data.others:
        copies = {"labels": class_labels(copies["labels"], n_classes)} | {
            name: column for name, column in copies.items() if name != "labels"
        }
    return copies, {**data.left_out, **passing.left_out}
