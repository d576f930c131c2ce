"""Rows of many files, or of one that is larger than memory, a few at a time."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from calibrant.common.errors import FileError
from calibrant.common.files import FilePath
from calibrant.common.tables import counted
from calibrant.common.types import InputKind, Report
from calibrant.data.scorefiles._formats import SUFFIXES
from calibrant.data.scorefiles._names import ReadOptions, StreamKind
from calibrant.data.scorefiles._reading import covariate_names
from calibrant.formulas import Formula
from calibrant.scale.streams._manifest import check_finished
from calibrant.scale.streams._sources import (
    ArraySource,
    Batch,
    ParquetSource,
    ScoreSource,
    WholeSource,
    arrays_together,
)

Paths = FilePath | Iterable[FilePath]

BATCH_BYTES = 2**24  # of scores, where the caller does not say how many rows
MOST_ROWS = 2**16  # .. but never more rows than these
UNKNOWN_ROWS = 4096  # at once, of files that do not tell their size


@dataclass(frozen=True)
class Piece:
    """Some rows of one source; of one that does not tell its size, all."""

    source: int
    start: int
    stop: int


@dataclass(frozen=True)
class ScoreStream:
    """Labelled scores in files, of which a few rows at a time are in memory.

    Iterating gives ``Batch`` objects, from the first row again each time.

    Parameters
    ----------
    sources : tuple
        The opened files.
    batch_rows : int or None
        The most rows of a batch; None leaves it to their size.

    See Also
    --------
    open_stream : Opens one.
    """

    sources: tuple[ScoreSource, ...]
    batch_rows: int | None = None

    def __post_init__(self) -> None:
        first = self.sources[0]
        for other in self.sources[1:]:
            if other.names.kind != first.names.kind:
                kinds = (first.names.kind, other.names.kind)
                raise FileError(f"{first.path} has {kinds[0]}, but {other.path} has {kinds[1]}")
        known = [one for one in self.sources if one.n_classes is not None]
        for other in known[1:]:
            if other.n_classes != known[0].n_classes:
                raise FileError(
                    f"{known[0].path} has {known[0].n_classes} classes, but {other.path} has "
                    f"{other.n_classes}"
                )

    def __repr__(self) -> str:
        rows = "" if self.n_rows is None else f", {counted(self.n_rows, 'row')}"
        classes = "" if self.n_classes is None else f", {counted(self.n_classes, 'class')}"
        return f"ScoreStream({counted(len(self.sources), 'file')}{rows}{classes}, {self.input})"

    def __iter__(self) -> Iterator[Batch]:
        for piece in self.pieces():
            yield from self.read(piece)

    @property
    def input(self) -> StreamKind:
        """What the scores are: "logits", "probs", or "confidence" alone."""
        return self.sources[0].names.kind

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None where a file does not tell it before it is read."""
        rows = [source.n_rows for source in self.sources]
        return None if None in rows else sum(one for one in rows if one is not None)

    @property
    def n_classes(self) -> int | None:
        """The number of classes; None where no file tells it before it is read."""
        return next((s.n_classes for s in self.sources if s.n_classes is not None), None)

    def pieces(self, most_bytes: int | None = None) -> list[Piece]:
        """Cut it where that is cheap.

        Parameters
        ----------
        most_bytes : int, optional
            About how many bytes of scores a piece may have; by default a piece is a file.

        Returns
        -------
        list of Piece
            All rows, in order.
        """
        pieces = []
        for index, source in enumerate(self.sources):
            if source.n_rows is None:
                pieces.append(Piece(index, 0, 0))
                continue
            most = source.n_rows
            if most_bytes is not None:
                most = max(1, most_bytes // source.row_bytes)
            cuts = [0]
            for before, split in pairwise((0, *source.splits)):
                if split - cuts[-1] > most and before > cuts[-1]:
                    cuts.append(before)
            ends = pairwise((*cuts, source.n_rows))
            pieces += [Piece(index, start, stop) for start, stop in ends if start < stop]
        return pieces

    def read(self, piece: Piece, *, all_columns: bool = False) -> Iterator[Batch]:
        """Read some rows.

        Parameters
        ----------
        piece : Piece
            Which ones.
        all_columns : bool, default False
            Read all columns, as they stand in the file. Labels are then one of them.

        Yields
        ------
        Batch
            A few of them.
        """
        source = self.sources[piece.source]
        most = self.batch_rows
        if most is None and source.row_bytes:
            most = max(1, min(MOST_ROWS, BATCH_BYTES // source.row_bytes))
        most = most or UNKNOWN_ROWS
        yield from source.batches(piece.start, piece.stop, most, all_columns=all_columns)

    def reported(self, report: Report) -> Iterator[Batch]:
        """Iterate, and report after each batch how many rows are done, and of how many.

        Parameters
        ----------
        report : callable
            Called as ``report(done, total)``; the total is 0 where it is not known.

        Yields
        ------
        Batch
            A few rows.
        """
        done, total = 0, self.n_rows or 0
        for batch in self:
            yield batch
            done += len(batch)
            report(done, total)

    def _read_by(self, formula: Formula) -> ScoreStream:
        """The same stream with the covariates that a formula reads, if it reads any."""
        names = formula.covariate_names if "covariates" in formula.needs else ()
        if not names or all(source.names.covariates == names for source in self.sources):
            return self
        sources = tuple(source.with_covariates(names) for source in self.sources)
        return replace(self, sources=sources)


def open_stream(
    paths: Paths,
    *,
    scores_key: str | None = None,
    labels_key: str | None = None,
    weights_key: str | None = None,
    covariates: Sequence[str] = (),
    labels_path: FilePath | None = None,
    input: InputKind | None = None,  # noqa: A002 - the word of the whole public interface
    default_input: InputKind | None = None,
    need_labels: bool = True,
    batch_rows: int | None = None,
    max_size: int | None = None,
) -> ScoreStream:
    """Open files of scores as one stream of rows.

    Parquet tables and ``.npy`` arrays are read a few rows at a time; files of other formats one by
    one. In a folder, ``a.logits.npy`` and ``a.label.npy`` belong together.

    Parameters
    ----------
    paths : path-like or iterable of path-like
        A file, a folder, a pattern such as ``in/part-*.parquet``, or many of them.
    scores_key : str, optional
        The name of the scores: an array, a column of lists, or ``val`` for the columns ``val_0``,
        ``val_1``, .. . By default the one called logits or probs.
    labels_key : str, optional
        The name of the labels; by default label or labels.
    weights_key : str, optional
        The name of the rows' weights; there are none by default.
    covariates : sequence of str, default ()
        The names of what else is known of each row: columns of numbers in all files, for methods
        that use them. What a fitted calibrator reads need not be named again.
    labels_path : path-like, optional
        A file that has the labels, where the scores are one file and have none beside them.
    input : {"logits", "probs"}, optional
        What the scores are, whatever their name.
    default_input : {"logits", "probs"}, optional
        What the scores are where their name leaves it open.
    need_labels : bool, default True
        Whether files none of which has labels are refused. Where some of them have labels, the rows
        of the others are unlabelled: fitting and judging leave them out, and say how many.
    batch_rows : int, optional
        The most rows of a batch; by default about 16 MB of them.
    max_size : int, optional
        The most bytes that the arrays of a file, or a row group of a table, may take in memory.

    Returns
    -------
    ScoreStream
        The stream.

    Raises
    ------
    FileError
        Where a file is damaged or foreign, lacks a name, or does not go with the others.
    FileNotFoundError
        Where there is no such file, or none that a pattern matches.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "a.logits.npy", np.zeros((5, 3), np.float32))
    >>> np.save(folder / "a.label.npy", np.arange(5) % 3)
    >>> stream = open_stream(folder, batch_rows=2)
    >>> stream
    ScoreStream(1 file, 5 rows, 3 classes, logits)
    >>> [len(batch) for batch in stream]
    [2, 2, 1]
    """
    if batch_rows is not None and batch_rows < 1:
        raise ValueError(f"batch_rows must be at least 1, got {batch_rows}")
    labels = None if labels_path is None else Path(labels_path)
    options = ReadOptions(
        scores_key=scores_key,
        labels_key=labels_key,
        weights_key=weights_key,
        covariates=covariate_names(covariates),
        labels_path=labels,
        input=input,
        default_input=default_input,
        need_labels=need_labels,
        max_size=max_size,
    )
    files = files_of(paths)
    if labels is not None and len(files) > 1:
        raise ValueError("labels_path goes with one file of scores; several must hold their labels")
    sources = tuple(_opened(files, replace(options, may_lack_labels=True)))
    if labels is None and all(source.names.labels is None for source in sources):
        next(_opened(files, options))  # refused in the words for one file, if labels are needed
    return ScoreStream(sources, batch_rows)


def _opened(files: list[Path], options: ReadOptions) -> Iterator[ScoreSource]:
    """Each file's source, arrays that belong together as one of them."""
    arrays = [file for file in files if file.suffix.lower() == ".npy"]
    sets = {min(one.values()): one for one in arrays_together(arrays)}
    firsts = {*sets}
    for file in files:
        if file in firsts:
            yield ArraySource.of(sets[file], options)
        elif file.suffix.lower() == ".parquet":
            yield ParquetSource.of(file, options)
        elif file.suffix.lower() != ".npy":
            yield WholeSource.of(file, options)


def files_of(paths: Paths) -> list[Path]:
    """The files that folders and patterns stand for, in order; one that is named twice is two."""
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: list[Path] = []
    for path in map(Path, listed):
        if path.is_dir():
            check_finished(path)
            files = [  # what is hidden or begins with _ is not data
                file
                for file in sorted(path.iterdir())
                if file.suffix.lower() in SUFFIXES and file.name[0] not in "._" and file.is_file()
            ]
            if not files:
                raise FileNotFoundError(f"{path} holds no files of scores ({', '.join(SUFFIXES)})")
            found += files
        elif glob.has_magic(str(path)) and not path.exists():
            matching = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
            if not matching:
                raise FileNotFoundError(f"no file matches {path}")
            found += [file for file in matching if not file.is_dir()]
        else:
            found.append(path)
    if not found:
        raise ValueError("a stream needs at least one file, got none")
    return found
