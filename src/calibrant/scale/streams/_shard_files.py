"""The files that a calibrator's outputs are written to, a few rows at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant.common.files import replacing
from calibrant.data.scorefiles._copied_columns import (
    NO_TYPE,
    TOO_LONG,
    Column,
    LeftOut,
    as_array,
    as_arrow,
    as_plain,
)
from calibrant.data.scorefiles._parquet_files import pyarrow_parquet

ShardFormat = Literal["parquet", "npy"]
Outputs = Mapping[str, NDArray[Any]]
Copies = Mapping[str, Column]

_GROUP_ROWS, _GROUP_BYTES = 2**16, 2**25  # of a row group: it ends where one of them is reached


@contextmanager
def writing(stem: Path, kind: ShardFormat) -> Iterator[_ParquetShard | _ArrayShard]:
    """A shard under temporary names, which appears whole at the end of the block, or not at all."""
    with ExitStack() as stack:
        files: list[Path] = []

        def opened(ending: str) -> IO[bytes]:
            files.append(stem.with_name(f"{stem.name}.{ending}"))
            return stack.enter_context(replacing(files[-1]))

        writer = _ParquetShard(opened, files) if kind == "parquet" else _ArrayShard(opened, files)
        yield writer
        writer.close()


class _ParquetShard:
    """A table; rows wait until they make a row group."""

    def __init__(self, opened: Callable[[str], IO[bytes]], files: list[Path]) -> None:
        self.file = opened("parquet")
        self.files = files
        self.columns: list[str] = []  # what was written
        self.left_out: LeftOut = {}
        self.writer: Any = None
        self.waiting: list[Any] = []
        self.rows = self.bytes = 0

    def write(self, outputs: Outputs, copies: Copies) -> None:
        table = as_table(outputs, copies)
        self.columns = list(table.column_names)
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
            names = table.schema.names
            self.writer = pyarrow_parquet().ParquetWriter(
                self.file,
                table.schema,
                # probabilities do not repeat, nor do they become smaller by compression
                use_dictionary=[name for name in names if name not in ("probs", "confidence")],
                compression={name: "none" if name == "probs" else "snappy" for name in names},
                write_page_checksum=True,
            )
        self.writer.write_table(table, row_group_size=max(1, table.num_rows))
        self.waiting, self.rows, self.bytes = [], 0, 0


def as_table(outputs: Outputs, copies: Copies | None = None) -> Any:
    """An Arrow table; rows of numbers become lists of one length."""
    arrow = import_module("pyarrow")
    columns = {name: as_arrow(array, nan_is_null=False) for name, array in outputs.items()}
    copied = {name: as_arrow(column) for name, column in (copies or {}).items()}
    return arrow.table({**columns, **copied})


class _ArrayShard:
    """An array for each column; how many rows it has is written last.

    Copies wait until the shard is whole: only then is it known whether values are missing, and how
    long the longest text is.
    """

    def __init__(self, opened: Callable[[str], IO[bytes]], files: list[Path]) -> None:
        self.opened, self.files = opened, files
        self.left_out: LeftOut = {}
        self.outputs: dict[str, IO[bytes]] = {}
        self.kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self.copies: dict[str, list[Column]] = {}
        self.rows = 0

    @property
    def columns(self) -> list[str]:
        """What was written, once it is closed."""
        return [*self.outputs, *(name for name in self.copies if name not in self.left_out)]

    def write(self, outputs: Outputs, copies: Copies) -> None:
        for name, array in outputs.items():
            if name not in self.kinds:
                self.outputs[name] = self.opened(f"{name}.npy")
                self.kinds[name] = (array.dtype, array.shape[1:])
                self._write_header(name)
            self.outputs[name].write(np.ascontiguousarray(array).data)
        for name, column in copies.items():
            self.copies.setdefault(name, []).append(column)
        self.rows += len(next(iter(outputs.values())))

    def close(self) -> None:
        for name in self.kinds:
            end = self.outputs[name].tell()
            self.outputs[name].seek(0)
            self._write_header(name)
            self.outputs[name].seek(end)
        for name, parts in self.copies.items():
            if isinstance(parts[0], np.ndarray):
                array: Any = np.concatenate([as_array(part) for part in parts])
            else:
                array = as_array(import_module("pyarrow").chunked_array(parts))
            plain = None if array is None else as_plain(array)
            if not re.fullmatch(r"[^./\0]+", name):  # it becomes a part of the name of a file
                self.left_out[name] = "its name has a dot or a slash, and would name a file"
            elif plain is None:
                self.left_out[name] = NO_TYPE if array is None else TOO_LONG
            else:
                npy.write_array(self.opened(f"{name}.npy"), plain, allow_pickle=False)

    def _write_header(self, name: str) -> None:
        """NumPy leaves room in a header for any number of rows, so that its length stays."""
        dtype, shape = self.kinds[name]
        header = {
            "descr": npy.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (self.rows, *shape),
        }
        npy.write_array_header_1_0(self.outputs[name], header)
