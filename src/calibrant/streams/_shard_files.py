"""The files that a calibrator's outputs are written to, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant._files import replacing
from calibrant.scorefiles._parquet_files import pyarrow_parquet

ShardFormat = Literal["parquet", "npy"]
Columns = Mapping[str, NDArray[Any]]

_GROUP_ROWS, _GROUP_BYTES = 2**16, 2**25  # of a row group: it ends where one of them is reached


class ShardWriter(Protocol):
    """An open shard."""

    def write(self, columns: Columns) -> None:
        """Write some rows, with the same columns each time."""


def shard_paths(stem: Path, columns: list[str], kind: ShardFormat) -> list[Path]:
    """The files of a shard: it is finished where all of them are there."""
    if kind == "parquet":
        return [stem.with_name(f"{stem.name}.parquet")]
    return [stem.with_name(f"{stem.name}.{column}.npy") for column in columns]


@contextmanager
def writing(stem: Path, columns: list[str], kind: ShardFormat) -> Iterator[ShardWriter]:
    """A shard under temporary names, which appears whole at the end of the block, or not at all."""
    paths = shard_paths(stem, columns, kind)
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(path)) for path in paths]
        writer = _ParquetShard(files[0]) if kind == "parquet" else _ArrayShard(columns, files)
        yield writer
        writer.close()


class _ParquetShard:
    """A table; rows wait until they make a row group."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.writer: Any = None
        self.waiting: list[Any] = []
        self.rows = self.bytes = 0

    def write(self, columns: Columns) -> None:
        table = as_table(columns)
        self.waiting.append(table)
        self.rows, self.bytes = self.rows + table.num_rows, self.bytes + table.nbytes
        if self.rows >= _GROUP_ROWS or self.bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        if self.writer is not None:
            self.writer.close()

    def _flush(self) -> None:
        if not self.waiting:
            return
        table = import_module("pyarrow").concat_tables(self.waiting)
        if self.writer is None:
            self.writer = pyarrow_parquet().ParquetWriter(
                self.file,
                table.schema,
                # probabilities do not repeat, nor do they become smaller by compression
                use_dictionary=[
                    name for name in ("prediction", "label") if name in table.schema.names
                ],
                compression={
                    name: "none" if name == "probs" else "snappy" for name in table.schema.names
                },
                write_page_checksum=True,
            )
        self.writer.write_table(table, row_group_size=max(1, table.num_rows))
        self.waiting, self.rows, self.bytes = [], 0, 0


def as_table(columns: Columns) -> Any:
    """An Arrow table; rows of numbers become lists of one length."""
    arrow = import_module("pyarrow")
    return arrow.table({name: _arrow(array) for name, array in columns.items()})


def _arrow(array: NDArray[Any]) -> Any:
    arrow = import_module("pyarrow")
    if array.ndim == 1:
        return arrow.array(array)
    flat = arrow.array(np.ascontiguousarray(array).ravel())
    return arrow.FixedSizeListArray.from_arrays(flat, array.shape[1])


class _ArrayShard:
    """An array for each column; how many rows it has is written last."""

    def __init__(self, names: list[str], files: list[IO[bytes]]) -> None:
        self.files = dict(zip(names, files, strict=True))
        self.kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self.rows = 0

    def write(self, columns: Columns) -> None:
        for name, array in columns.items():
            if name not in self.kinds:
                self.kinds[name] = (array.dtype, array.shape[1:])
                self._write_header(name)
            self.files[name].write(np.ascontiguousarray(array).data)
        self.rows += len(next(iter(columns.values())))

    def close(self) -> None:
        for name in self.kinds:
            end = self.files[name].tell()
            self.files[name].seek(0)
            self._write_header(name)
            self.files[name].seek(end)

    def _write_header(self, name: str) -> None:
        """NumPy leaves room in a header for any number of rows, so that its length stays."""
        dtype, shape = self.kinds[name]
        header = {
            "descr": npy.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (self.rows, *shape),
        }
        npy.write_array_header_1_0(self.files[name], header)
