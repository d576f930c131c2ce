"""Scores that are read a few rows at a time: folders, patterns, many files, large ones."""

from __future__ import annotations

import glob
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.scale.streams import ScoreStream

LARGE = 10**9  # bytes of one file from which on it is read as a stream, too

Engine = Annotated[
    Literal["local", "ray"],
    typer.Option(help="Who does the work on folders and many files: this process, or Ray."),
]
Address = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Of the Ray cluster; left out: RAY_ADDRESS, or here."),
]
MaxRows = Annotated[
    int | None,
    typer.Option(min=1, help="The most rows of a stream that are fitted on; left out: 200000."),
]
Stratify = Annotated[
    bool, typer.Option("--stratify", help="Draw the same number of rows of every class.")
]


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
    if takes not in (None, stream.input):
        raise ValueError(
            f"the calibrator takes {takes}, but {stream.sources[0].path} has {stream.input}: "
            f"if they are {takes} all the same, say --input {takes}"
        )
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


class Clock:
    """How long something takes, and how many rows in a second."""

    def __init__(self) -> None:
        self.started = time.perf_counter()

    def rate(self, rows: int) -> str:
        """A few words for people."""
        return f"{rows / self.seconds:,.0f} rows/s"

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return max(time.perf_counter() - self.started, 1e-9)
