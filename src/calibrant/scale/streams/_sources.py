"""Files as streams: Parquet tables and NumPy arrays a few rows at a time, all others whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.common.errors import FileError
from calibrant.common.files import Expansion, parsing
from calibrant.data.npz import map_array
from calibrant.data.scorefiles import _parquet_files as parquet_files
from calibrant.data.scorefiles._copied_columns import NOT_ROWS, is_row_array, whole_labels
from calibrant.data.scorefiles._names import (
    NAMELESS,
    SCORE_NAMES,
    ColumnNames,
    OpenFile,
    ReadOptions,
    check_numbers,
    choose_names,
    flat_columns,
)
from calibrant.data.scorefiles._reading import FileRows, check_readable, opened, read_file

_TABLE, _ARRAY = "a parquet table", "a NumPy array"  # what messages call them
_BUFFER = 2**20  # bytes of a column that are read at once: else a whole row group of it is
_CUT = 4096  # rows, in whose multiples arrays are cut
_LABELS = "labels"  # what an array of labels that lies elsewhere is called


@dataclass(frozen=True, kw_only=True)
class Batch(FileRows):
    """Some consecutive rows of a file.

    Parameters
    ----------
    rows : Rows
        The scores, labels, weights and covariates, as they stand in the file. Nothing is checked.
    predictions : ndarray of shape (n_rows,) or None
        The predicted classes, where the scores are confidences.
    others : dict of str to array
        All columns but the scores, as they stand in the file, where they were asked for.
    left_out : dict of str to str
        The other columns that could not be read as rows, and why.
    file : Path
        The file.
    first_row : int
        The number of the first of these rows in the file.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, n_classes) or (n_rows,)
        Logits or probabilities, 1-D for class 1 of two; or confidences.
    labels : ndarray of shape (n_rows,) or None
        Their labels, as they stand in the file, with NaN for null; None where there are none.
    weights : ndarray of shape (n_rows,) or None
        The weight of each row; None where no name was given.
    covariates : dict of str to array, or None
        The covariates that the stream reads, by name; None where it reads none.
    """

    file: Path
    first_row: int

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Add to errors about these rows which file they are from."""
        try:
            yield
        except FileError:
            raise
        except (ValueError, TypeError) as error:
            where = f", of the rows from {self.first_row} on" if self.first_row else ""
            error.add_note(f"{self.file}{where}")
            raise


@dataclass(frozen=True, kw_only=True)
class ScoreSource(ABC):
    """An opened file: what it says before its rows are read, and a way to read them."""

    path: Path
    names: ColumnNames
    options: ReadOptions
    others: Mapping[str, Any]  # no rows of each column that is not the scores, if types are known
    n_rows: int | None = None  # None where only reading tells it
    n_classes: int | None = None
    row_bytes: int = 0
    splits: Sequence[int] = ()  # rows where it is cut cheaply

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that belong to it."""
        labels = self.options.labels_path
        return (self.path,) if labels is None else (self.path, labels)

    @abstractmethod
    def with_covariates(self, names: tuple[str, ...]) -> Self:
        """The same file, of which these columns are read as well."""

    @abstractmethod
    def batches(
        self, start: int, stop: int, most: int, *, all_columns: bool = False
    ) -> Iterator[Batch]:
        """The rows from ``start`` to ``stop``, at most so many at once."""


# --- whole files ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class WholeSource(ScoreSource):
    """A file that says how many rows it has only when it is read."""

    @classmethod
    def of(cls, path: Path, options: ReadOptions) -> Self:
        """What the names in a file say."""
        with opened(path, options.max_size) as file:
            names = choose_names(file, options)
            others = dict.fromkeys(name for name in file.names if name not in names.scores)
            return cls(path=path, names=names, options=options, others=others)

    def with_covariates(self, names: tuple[str, ...]) -> Self:
        return self.of(self.path, replace(self.options, covariates=names))

    def batches(
        self, start: int, stop: int, most: int, *, all_columns: bool = False
    ) -> Iterator[Batch]:
        data = read_file(self.path, self.options, self.names, all_columns=all_columns)
        others = {
            name: whole_labels(column) if name == self.names.labels else column
            for name, column in data.others.items()
        }
        rows = data.rows
        if all_columns:
            rows = replace(rows, labels=None)  # type: ignore[arg-type]
        for first in range(0, len(rows), most):
            part = slice(first, first + most)
            yield Batch(
                rows=rows[part],
                predictions=None if data.predictions is None else data.predictions[part],
                others={name: column[part] for name, column in others.items()},
                left_out=data.left_out,
                file=self.path,
                first_row=first,
            )


# --- arrays -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ArraySource(ScoreSource):
    """NumPy arrays of the same rows that stay on the disk, one to a file; one alone is the scores.

    ``a.logits.npy`` belongs to ``a.label.npy``.
    """

    arrays: Mapping[str, Path]
    left_out: Mapping[str, str]  # arrays that apply does not copy, and why

    @classmethod
    def of(cls, arrays: Mapping[str, Path], options: ReadOptions) -> Self:
        """What the headers of files say that belong together."""
        beside = list(arrays)
        if options.labels_path is not None:
            arrays = {**arrays, _LABELS: options.labels_path}
        names = choose_names(OpenFile(next(iter(arrays.values())), beside), options)
        if options.labels_path is not None:
            names = replace(names, labels=_LABELS)
        heads = {}
        for name, file in arrays.items():
            check_readable(file)
            with parsing(file, _ARRAY):
                heads[name] = map_array(file)
        (scored,) = names.scores
        for name in names.columns:
            if heads[name].ndim == 0:
                raise FileError(f"{arrays[name]} is a single number, not an array of rows")
        rows, *width = heads[scored].shape
        for name in names.columns:
            if len(heads[name]) != rows:
                raise FileError(
                    f"{arrays[name]} has {len(heads[name])} rows, but {arrays[scored]} has {rows}"
                )
        others = {
            name: np.empty((0, *head.shape[1:]), head.dtype)
            for name, head in heads.items()
            if name != scored and is_row_array(head.shape, head.dtype, rows)
        }
        return cls(
            path=arrays[scored],
            names=names,
            options=options,
            others=others,
            n_rows=rows,
            n_classes=width[0] if len(width) == 1 else None,
            row_bytes=sum(
                heads[name].dtype.itemsize * heads[name][:1].size for name in names.columns
            ),
            splits=(*range(_CUT, rows, _CUT), rows),  # it can be cut anywhere
            arrays=arrays,
            left_out={name: NOT_ROWS for name in heads if name not in {scored, *others}},
        )

    @property
    def files(self) -> tuple[Path, ...]:
        read = {*self.names.columns, *self.others}
        return tuple(file for name, file in self.arrays.items() if name in read)

    def with_covariates(self, names: tuple[str, ...]) -> Self:
        given = dict(self.arrays)
        if self.options.labels_path is not None:
            del given[_LABELS]
        return self.of(given, replace(self.options, covariates=names))

    def batches(
        self, start: int, stop: int, most: int, *, all_columns: bool = False
    ) -> Iterator[Batch]:
        names = replace(self.names, labels=None) if all_columns else self.names
        others = list(self.others) if all_columns else []
        wanted = list(dict.fromkeys([*names.columns, *others]))
        for first in range(start, stop, most):
            columns = {}
            for name in wanted:  # the map ends here, and what it has read is given back
                with parsing(self.arrays[name], _ARRAY):
                    mapped = map_array(self.arrays[name])
                    columns[name] = np.array(mapped[first : min(first + most, stop)])
            yield Batch(
                rows=names.rows(self.path, columns[names.scores[0]], columns),
                predictions=None if names.predictions is None else columns[names.predictions],
                others={name: columns[name] for name in others},
                left_out=self.left_out,
                file=self.path,
                first_row=first,
            )


def arrays_together(files: list[Path]) -> list[dict[str, Path]]:
    """Files by what they belong to: ``a.logits.npy`` and ``a.label.npy`` are arrays of ``a``."""
    together: dict[tuple[Path, str], dict[str, Path]] = {}
    for file in files:
        stem, _, name = file.stem.rpartition(".")
        together.setdefault((file.parent, stem), {})[name] = file
    return [
        arrays if len(arrays) > 1 or {*arrays} <= {*SCORE_NAMES} else {NAMELESS: file}
        for arrays in together.values()
        for file in [next(iter(arrays.values()))]
    ]


# --- tables -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ParquetSource(ScoreSource):
    """A parquet table, which is cut at the ends of its row groups."""

    texts: tuple[str, ...]  # columns of texts

    @classmethod
    def of(cls, path: Path, options: ReadOptions) -> Self:
        """What the footer of a file says; none of its rows are read."""
        if options.labels_path is not None:
            raise ValueError(f"labels_path does not go with a Parquet table, got it for {path}")
        check_readable(path)
        with parsing(path, _TABLE), _parquet_file(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            table = OpenFile(path, schema.names, flat=flat_columns(path, schema.names))
            names = choose_names(table, options)
            check_numbers(path, [list(names.scores)])
            read = names if options.need_labels else replace(names, labels=None)
            row_bytes, lengths = 0, {}
            for one in read.columns:
                kind = schema.field(one).type
                width = parquet_files.width_of(path, one, kind)
                lengths[one] = _list_length(path, metadata, kind, one)
                row_bytes += width * (lengths[one] or 1)
            sizes = _group_rows(metadata)
            # a row group may claim far more than there is, and its rows may come at once
            Expansion(path, options.max_size).check_claim(row_bytes * max(sizes, default=0))
            from pyarrow import nulls

            single = len(names.scores) == 1
            return cls(
                path=path,
                names=names,
                options=options,
                others={f.name: nulls(0, f.type) for f in schema if f.name not in names.scores},
                n_rows=metadata.num_rows,
                n_classes=lengths[names.scores[0]] if single else len(names.scores),
                row_bytes=row_bytes,
                splits=tuple(int(end) for end in np.cumsum(sizes)),
                texts=tuple(parquet_files.text_columns(schema)),
            )

    def with_covariates(self, names: tuple[str, ...]) -> Self:
        return self.of(self.path, replace(self.options, covariates=names))

    def batches(
        self, start: int, stop: int, most: int, *, all_columns: bool = False
    ) -> Iterator[Batch]:
        names = replace(self.names, labels=None) if all_columns else self.names
        others = {name: none.type for name, none in self.others.items()} if all_columns else {}
        texts = [name for name in self.texts if name in others]
        allowed = Expansion(self.path, self.options.max_size)
        with parsing(self.path, _TABLE), _parquet_file(self.path, texts) as file:
            ends = np.cumsum([0, *_group_rows(file.metadata)])
            first, last = np.searchsorted(ends, [start, stop], side="right")
            groups = list(range(first - 1, min(last, len(ends) - 1)))
            row = int(ends[first - 1])
            columns = list(dict.fromkeys([*names.columns, *others]))
            parts = file.iter_batches(batch_size=most, row_groups=groups, columns=columns)
            for part in parts:
                begin, end = max(start - row, 0), min(stop - row, part.num_rows)
                if begin < end:
                    table = part.slice(begin, end - begin)
                    copies = {
                        name: parquet_files.as_stored(table.column(name), kind, allowed)
                        for name, kind in others.items()
                    }
                    yield table_batch(self.path, table, names, row + begin, copies)
                row += part.num_rows


def table_batch(
    path: Path,
    table: Any,
    names: ColumnNames,
    first_row: int,
    others: Mapping[str, Any] | None = None,
) -> Batch:
    """The named columns of an Arrow table, or of a batch of one, as arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    for name in names.columns:
        column = table.column(name)
        if not hasattr(column, "chunks"):  # that of a batch
            from pyarrow import chunked_array

            column = chunked_array([column])
        may_be_null = name == names.labels
        arrays[name] = parquet_files.column_array(
            path, name, column, first_row, may_be_null=may_be_null
        )
    scores = [arrays[name] for name in names.scores]
    array = np.stack(scores, axis=1) if len(scores) > 1 else scores[0]
    return Batch(
        rows=names.rows(path, array, arrays),
        predictions=None if names.predictions is None else arrays[names.predictions],
        others=others or {},
        file=path,
        first_row=first_row,
    )


def _parquet_file(path: Path, as_dictionaries: Sequence[str] = ()) -> Any:
    return parquet_files.pyarrow_parquet().ParquetFile(
        path,
        buffer_size=_BUFFER,
        pre_buffer=False,
        page_checksum_verification=True,
        read_dictionary=[*as_dictionaries],
    )


def _group_rows(metadata: Any) -> list[int]:
    return [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]


def _list_length(path: Path, metadata: Any, kind: Any, name: str) -> int | None:
    """How many numbers a row has in a column of lists; None for numbers, or without rows."""
    if not hasattr(kind, "value_type") or metadata.num_rows == 0:
        return None
    if getattr(kind, "list_size", -1) > 0:
        return int(kind.list_size)
    values = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = map(group.column, range(group.num_columns))
        counts = {one.path_in_schema.partition(".")[0]: one.num_values for one in columns}
        values += counts.get(name, 0)
    length, rest = divmod(values, metadata.num_rows)
    if rest or not length:
        raise FileError(
            f"{path}, column {name!r}: lists must have one length, and no nulls, got "
            f"{values} values in {metadata.num_rows} rows"
        )
    return int(length)
