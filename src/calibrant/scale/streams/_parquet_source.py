"""Parquet tables as streams: a few rows at a time, whatever the size of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.errors import FileError
from calibrant.common.untrusted_files import Expansion, parsing
from calibrant.data.scorefiles._columns import check_numbers, flat_columns
from calibrant.data.scorefiles._contents import Source
from calibrant.data.scorefiles._parquet_files import (
    as_stored,
    column_array,
    pyarrow_parquet,
    text_columns,
    width_of,
)
from calibrant.data.scorefiles._reading import check_readable
from calibrant.scale.streams._batch import Batch
from calibrant.scale.streams._names import Names, Wishes, names_in

_WHAT = "a parquet table"
_BUFFER = 2**20  # bytes of a column that are read at once: else a whole row group of it is


@dataclass(frozen=True)
class ParquetSource:
    """A parquet table; what its footer says, and a way to read rows."""

    path: Path
    names: Names
    n_rows: int
    n_classes: int | None  # None where there are no rows
    row_bytes: int
    splits: tuple[int, ...]  # rows where it is cut cheaply: the ends of its row groups
    others: Mapping[str, Any]  # no rows of each column that is not the scores
    texts: tuple[str, ...]
    max_size: int | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that belong to it."""
        return (self.path,)

    def batches(
        self, start: int, stop: int, most: int, *, all_columns: bool = False
    ) -> Iterator[Batch]:
        """The rows from ``start`` to ``stop``, at most so many at once."""
        names = replace(self.names, labels=None) if all_columns else self.names
        others = {name: none.type for name, none in self.others.items()} if all_columns else {}
        texts = [name for name in self.texts if name in others]
        with parsing(self.path, _WHAT), _opened(self.path, texts) as file:
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
                    batch = table_batch(self.path, table, names, row + begin)
                    yield replace(batch, others=self._stored(table, others))
                row += part.num_rows

    def _stored(self, table: Any, others: Mapping[str, Any]) -> dict[str, Any]:
        allowed = Expansion(self.path, self.max_size)
        return {name: as_stored(table.column(name), kind, allowed) for name, kind in others.items()}


def open_parquet_source(path: Path, wishes: Wishes) -> ParquetSource:
    """What the footer of a file says; none of its rows are read."""
    if wishes.labels_path is not None:
        raise ValueError(f"labels_path does not go with a Parquet table, got it for {path}")
    check_readable(path)
    with parsing(path, _WHAT), _opened(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        source = Source(path, schema.names, _no_fetching, flat_columns(path, schema.names))
        names = names_in(source, wishes)
        check_numbers(path, [list(names.scores)])
        read = names if wishes.need_labels else replace(names, labels=None)
        widths = {one: width_of(path, one, schema.field(one).type) for one in read.columns}
        lengths = {one: _length(path, metadata, schema, one) for one in read.columns}
        row_bytes = sum(width * (lengths[one] or 1) for one, width in widths.items())
        _check_size(Expansion(path, wishes.max_size), metadata, row_bytes)
        single = len(names.scores) == 1
        n_classes = lengths[names.scores[0]] if single else len(names.scores)
        splits = tuple(int(end) for end in np.cumsum(_group_rows(metadata)))
        others = {f.name: _none_of(f.type) for f in schema if f.name not in names.scores}
        return ParquetSource(
            path,
            names,
            metadata.num_rows,
            n_classes,
            row_bytes,
            splits,
            others,
            tuple(text_columns(schema)),
            wishes.max_size,
        )


def table_batch(path: Path, table: Any, names: Names, first_row: int) -> Batch:
    """The named columns of an Arrow table, or of a batch of one, as arrays."""
    arrays: dict[str | None, NDArray[Any]] = {None: None}  # type: ignore[dict-item]
    for name in names.columns:
        column = _chunked(table.column(name))
        may_be_null = name == names.labels
        arrays[name] = column_array(path, name, column, first_row, may_be_null=may_be_null)
    scores = [arrays[name] for name in names.scores]
    return Batch(
        scores=np.stack(scores, axis=1) if len(scores) > 1 else scores[0],
        labels=arrays[names.labels],
        weights=arrays[names.weights],
        predictions=arrays[names.predictions],
        file=path,
        first_row=first_row,
    )


def _chunked(column: Any) -> Any:
    """A column of a batch as one of a table."""
    if hasattr(column, "chunks"):
        return column
    from pyarrow import chunked_array

    return chunked_array([column])


def _opened(path: Path, as_dictionaries: Sequence[str] = ()) -> Any:
    return pyarrow_parquet().ParquetFile(
        path,
        buffer_size=_BUFFER,
        pre_buffer=False,
        page_checksum_verification=True,
        read_dictionary=[*as_dictionaries],
    )


def _none_of(kind: Any) -> Any:
    from pyarrow import nulls

    return nulls(0, kind)


def _no_fetching(wanted: list[list[str]], labels: str | None) -> list[NDArray[Any]]:
    raise NotImplementedError("a stream reads rows, never whole columns")


def _group_rows(metadata: Any) -> list[int]:
    return [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]


def _length(path: Path, metadata: Any, schema: Any, name: str) -> int | None:
    """How many numbers a row has in a column of lists; None for numbers, or without rows."""
    kind = schema.field(name).type
    if not hasattr(kind, "value_type") or metadata.num_rows == 0:
        return None
    if getattr(kind, "list_size", -1) > 0:
        return int(kind.list_size)
    length, rest = divmod(_values(metadata, name), metadata.num_rows)
    if rest or not length:
        raise FileError(
            f"{path}, column {name!r}: lists must have one length, and no nulls, got "
            f"{_values(metadata, name)} values in {metadata.num_rows} rows"
        )
    return int(length)


def _values(metadata: Any, name: str) -> int:
    return sum(values for group in _columns(metadata) for values in [group.get(name, 0)])


def _columns(metadata: Any) -> Iterator[Mapping[str, int]]:
    """The number of values of every column, by its name, for each row group."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = map(group.column, range(group.num_columns))
        yield {one.path_in_schema.partition(".")[0]: one.num_values for one in columns}


def _check_size(allowed: Expansion, metadata: Any, row_bytes: int) -> None:
    """Refuse a row group that claims far more than there is: its rows may come at once."""
    allowed.check_claim(row_bytes * max(_group_rows(metadata), default=0))
