"""Folders of files that are applied to twice, and files that do not all have the same columns."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

import calibrant
from calibrant import cli
from ordinary_measures import measure

RESUMING, MIXED = "resuming apply", "streams of mixed files"
ROWS, PARTS = 400, 4
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(ROWS, 5)) * 3.0
LABELS = (LOGITS / 2.0 + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
SHARES = np.array_split(np.arange(ROWS), PARTS)


@contextmanager
def _workplace() -> Iterator[None]:
    """An empty folder with a calibrator ``ts.safetensors`` and a folder ``in``."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("in").mkdir()
            calibrant.save(calibrant.TS().fit(LOGITS, LABELS), "ts.safetensors")
            yield
        finally:
            os.chdir(before)


def _inside(function: Callable[[], Any]) -> Callable[[], Any]:
    @wraps(function)
    def run() -> Any:
        with _workplace():
            return function()

    return run


def _calibrant(*words: str) -> tuple[int, str]:
    """The exit code and what was said."""
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(cli.app, list(words))
    return result.exit_code, result.output.strip()


def _write(name: str, rows: Any, **columns: Any) -> None:
    table = {"logits": LOGITS[rows].tolist(), **columns}
    pq.write_table(pa.table(table), f"in/{name}.parquet")


def _apply(*options: str) -> tuple[int, str]:
    return _calibrant("apply", "ts.safetensors", "in", "-o", "out", *options)


def _written(column: str) -> list[Any]:
    parts = [pq.read_table(path) for path in sorted(Path("out").glob("[!_]*.parquet"))]
    return [
        value for part in parts if column in part.column_names for value in part[column].to_pylist()
    ]


def _kill() -> None:
    """Remove two of four shards, as if the run had been killed before them."""
    for number in (2, 3):
        Path(f"out/part-{number}.parquet").unlink()


def _told(code: int, heads: str) -> str:
    return f"exit {code}, heads {heads}"


@measure(
    RESUMING,
    "--scores-key a, two of four shards lost, --scores-key b",
    "refused with exit code 2, no head b",
    lambda found: found == "exit 2, heads a a - -",
)
@_inside
def other_columns() -> str:
    """Go on with the outputs of another head."""
    for number, rows in enumerate(SHARES):
        heads = {"a_logits": LOGITS[rows].tolist(), "b_logits": (-LOGITS[rows]).tolist()}
        pq.write_table(pa.table(heads), f"in/part-{number}.parquet")
    _apply("--scores-key", "a_logits")
    _kill()
    code, _ = _apply("--scores-key", "b_logits")
    return _told(code, " ".join(_head(number, rows) for number, rows in enumerate(SHARES)))


def _head(number: int, rows: Any) -> str:
    """Which head a shard was made of: b has the logits of a, negated."""
    path = Path(f"out/part-{number}.parquet")
    if not path.exists():
        return "-"
    found = pq.read_table(path)["prediction"].to_numpy()
    return "a" if np.array_equal(found, LOGITS[rows].argmax(axis=1)) else "b"


@measure(
    RESUMING,
    "two shards lost, another folder with equal names, sizes and times",
    "refused with exit code 2",
    lambda found: found == 2,
)
@_inside
def another_folder() -> float:
    """Go on with a copy of the inputs."""
    for number, rows in enumerate(SHARES):
        _write(f"part-{number}", rows, label=LABELS[rows])
    _apply()
    _kill()
    shutil.copytree("in", "twin", copy_function=shutil.copy2)
    return _calibrant("apply", "ts.safetensors", "twin", "-o", "out")[0]


@measure(RESUMING, "two shards lost, the same command", "exit code 0", lambda found: found == 0)
@_inside
def the_same_work() -> float:
    """Go on with the same work."""
    for number, rows in enumerate(SHARES):
        _write(f"part-{number}", rows, label=LABELS[rows])
    _apply()
    _kill()
    return _apply()[0] if len(_written("prediction")) == ROWS // 2 else -1


@measure(
    MIXED,
    "labels of 300 rows in the outputs, where the first of four files has none",
    "300",
    lambda found: found == 300,
)
@_inside
def first_without_labels() -> float:
    """The first file does not decide for the others."""
    for number, rows in enumerate(SHARES):
        _write(f"part-{number}", rows, **({"label": LABELS[rows]} if number else {}))
    _apply()
    return sum(label is not None for label in _written("label"))


@measure(
    MIXED,
    "apply, where the last of four files has no labels",
    "exit code 0",
    lambda found: str(found).startswith("exit 0"),
)
@_inside
def last_without_labels() -> str:
    """Nor do the first ones."""
    for number, rows in enumerate(SHARES):
        _write(f"part-{number}", rows, **({"label": LABELS[rows]} if number < 3 else {}))
    code, line = _apply()
    return f"exit {code}" + (f": {line[-30:]}" if code else "")


def _labels_in_outputs(labels: list[Any]) -> str:
    _write("part-0", slice(None), label=labels)
    code, line = _apply()
    if code:
        return f"exit {code}: {line[-40:]}"
    return "as they were" if _written("label") == labels else "changed"


@measure(MIXED, "apply to text labels", "as they were", lambda found: found == "as they were")
@_inside
def text_labels() -> str:
    """Labels that no calibrator could read."""
    return _labels_in_outputs([f"class {label}" for label in LABELS])


@measure(MIXED, "apply to null labels", "as they were", lambda found: found == "as they were")
@_inside
def null_labels() -> str:
    """Labels of which some are missing."""
    return _labels_in_outputs([None if row % 10 == 0 else int(LABELS[row]) for row in range(ROWS)])


def _rows_judged(*command: str) -> str:
    """The numbers of rows with and without a label that a command reports."""
    labels = [None if row % 10 == 0 else int(LABELS[row]) for row in range(ROWS)]
    _write("part-0", slice(None), label=labels)
    code, line = _calibrant(*command, "--json")
    if code:
        return f"exit {code}: {line[-40:]}"
    answer = json.loads(line)
    return f"{answer['n_rows']} judged, {answer.get('n_unlabelled')} unlabelled"


@measure(
    MIXED,
    "evaluate a folder, 40 of 400 labels null",
    "360 judged, 40 unlabelled",
    lambda found: found == "360 judged, 40 unlabelled",
)
@_inside
def evaluate_null_labels() -> str:
    """Judge a stream."""
    return _rows_judged("evaluate", "in")


@measure(
    MIXED,
    "evaluate one file, 40 of 400 labels null",
    "360 judged, 40 unlabelled",
    lambda found: found == "360 judged, 40 unlabelled",
)
@_inside
def evaluate_null_labels_of_a_file() -> str:
    """Judge one file."""
    return _rows_judged("evaluate", "in/part-0.parquet", "--n-resamples", "0")


@measure(
    MIXED,
    "fit on a folder, 40 of 400 labels null",
    "360 judged, 40 unlabelled",
    lambda found: found == "360 judged, 40 unlabelled",
)
@_inside
def fit_null_labels() -> str:
    """Fit on a stream."""
    return _rows_judged("fit", "in", "-o", "x.safetensors", "--method", "ts")


@measure(
    MIXED,
    "ids in the outputs of a folder of 400 rows",
    "400",
    lambda found: found == 400,
)
@_inside
def ids() -> float:
    """Columns of a stream."""
    _write("part-0", slice(None), label=LABELS, id=[f"row-{row}" for row in range(ROWS)])
    _apply()
    return len(_written("id"))


@measure(
    MIXED,
    "ids in the output of one file of 400 rows",
    "400",
    lambda found: found == 400,
)
@_inside
def ids_of_a_file() -> float:
    """Columns of one file."""
    np.savez("one.npz", logits=LOGITS, label=LABELS, id=np.arange(ROWS))
    _calibrant("apply", "ts.safetensors", "one.npz", "-o", "out.npz")
    with np.load("out.npz") as written:
        return len(written["id"]) if "id" in written else 0


@measure(
    MIXED,
    "apply SCORES CALIBRATOR, in the wrong order",
    "a message that says so",
    lambda found: "the calibrator comes first" in found,
)
@_inside
def swapped() -> str:
    """What is told about swapped arguments."""
    np.savez("one.npz", logits=LOGITS, label=LABELS)
    return _calibrant("apply", "one.npz", "ts.safetensors", "-o", "out.npz")[1][-200:]
