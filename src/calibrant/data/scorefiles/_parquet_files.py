"""Parquet tables: an array as a column of lists, or as numbered columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.errors import FileError
from calibrant.common.extras import need
from calibrant.common.files import Expansion
from calibrant.data.scorefiles._copied_columns import as_arrow
from calibrant.data.scorefiles._names import Arrays, OpenFile, check_numbers, flat_columns


@contextmanager
def open_parquet(path: Path, allowed: Expansion) -> Iterator[OpenFile]:
    """The names in the schema; only columns that are fetched are read."""
    parquet = pyarrow_parquet()
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow

        def fetch(wanted: list[list[str]], labels: str | None) -> list[NDArray[Any]]:
            check_numbers(path, wanted)
            if file.metadata.num_rows == 0:
                raise FileError(f"{path} has no rows")
            columns = list(dict.fromkeys(name for names in wanted for name in names))
            widths = {name: width_of(path, name, schema.field(name).type) for name in columns}
            allowed.check(_size(file.metadata, widths))
            table = file.read(columns=columns)
            result = []
            for names in wanted:
                arrays = [
                    column_array(path, name, table.column(name), may_be_null=name == labels)
                    for name in names
                ]
                result.append(np.stack(arrays, axis=1) if len(arrays) > 1 else arrays[0])
            return result

        def copied(names: list[str], n_rows: int) -> dict[str, Any]:
            """Columns of any type, as Arrow arrays."""
            allowed.check(_size(file.metadata, dict.fromkeys(names, 1)))
            with parquet.ParquetFile(path, read_dictionary=text_columns(schema)) as texts:
                table = texts.read(columns=names)
            kinds = {name: schema.field(name).type for name in names}
            return {name: as_stored(table.column(name), kinds[name], allowed) for name in names}

        flat = flat_columns(path, schema.names)
        yield OpenFile(path, schema.names, fetch, flat, copied, is_table=True)


def pyarrow_parquet() -> Any:
    """The package that reads and writes them."""
    return need("pyarrow.parquet", "parquet", ".parquet files need")


def text_columns(schema: Any) -> list[str]:
    """The columns of texts: read as dictionaries they take no more memory than in the file."""
    types = import_module("pyarrow.types")
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return [field.name for field in schema if any(of_text(field.type) for of_text in texts)]


def as_stored(column: Any, kind: Any, allowed: Expansion) -> Any:
    """A column of the type in its file; texts, which came as a dictionary, if they may be so large.

    A dictionary of one long word makes any amount of text.
    """
    if column.type == kind:
        return column
    compute = import_module("pyarrow.compute")
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        lengths = compute.take(compute.binary_length(chunk.dictionary), chunk.indices)
        allowed.check_claim(compute.sum(lengths).as_py() or 0)
    return column.cast(kind)


def width_of(path: Path, name: str, kind: Any) -> int:
    """The bytes of one number of a column.

    Text is refused: a dictionary of one long word makes any amount of it.
    """
    types = import_module("pyarrow.types")
    inner = getattr(kind, "value_type", kind)  # of lists
    if types.is_null(inner):  # has no values; which row lacks one is told below
        return 1
    if not (types.is_floating(inner) or types.is_integer(inner) or types.is_boolean(inner)):
        raise FileError(f"{path}, column {name!r}: must hold numbers, got {kind}")
    return max(1, inner.bit_width // 8)


def _size(metadata: Any, widths: Mapping[str, int]) -> int:
    """The bytes of columns, whose numbers have these widths, in memory.

    A few bytes of a file can encode any number of values, or be any number of bytes compressed.
    """
    total = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            path = f"{column.path_in_schema}."
            width = max((w for name, w in widths.items() if path.startswith(f"{name}.")), default=0)
            if width:
                total += max(column.total_uncompressed_size, width * column.num_values)
    return total


def column_array(
    path: Path, name: str, column: Any, first_row: int = 0, *, may_be_null: bool = False
) -> NDArray[Any]:
    """A column as an array: (rows,) of numbers, (rows, length) of lists of one length.

    Nulls are refused, or become NaN where ``may_be_null``.
    """
    width_of(path, name, column.type)
    if may_be_null and column.null_count and not hasattr(column.type, "value_type"):
        return np.asarray(column.cast("float64").to_numpy())
    if column.null_count:
        row = first_row + int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise FileError(f"{path}, column {name!r}: row {row} is null")
    if not hasattr(column.type, "value_type"):
        return np.asarray(column.to_numpy())
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks:
        return np.zeros((0, max(0, getattr(column.type, "list_size", 0))))
    length_of = import_module("pyarrow.compute").list_value_length
    lengths = np.concatenate([length_of(one).to_numpy(zero_copy_only=False) for one in chunks])
    odd = np.flatnonzero(lengths != lengths[0])
    if odd.size:
        raise FileError(
            f"{path}, column {name!r}: lists must have one length, row {first_row} has "
            f"{lengths[0]} values and row {first_row + odd[0]} has {lengths[odd[0]]}"
        )
    values = [chunk.flatten() for chunk in chunks]
    if any(part.null_count for part in values):
        raise FileError(f"{path}, column {name!r}: a list holds a null")
    flat = np.concatenate([part.to_numpy(zero_copy_only=False) for part in values])
    return flat.reshape(len(lengths), -1)


def write_parquet(file: IO[bytes], arrays: Arrays) -> None:
    """A column for each array: rows of numbers, such as ``probs``, are lists of one length."""
    parquet = pyarrow_parquet()
    columns = {name: as_arrow(array) for name, array in arrays.items()}
    parquet.write_table(import_module("pyarrow").table(columns), file)
