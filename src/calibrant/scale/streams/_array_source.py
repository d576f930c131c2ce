"""NumPy arrays that stay on the disk as streams: ``a.logits.npy`` beside ``a.label.npy``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.errors import FileError
from calibrant.common.untrusted_files import parsing
from calibrant.data.npz import map_array
from calibrant.data.scorefiles._choosing import SCORE_NAMES
from calibrant.data.scorefiles._contents import NAMELESS, Source
from calibrant.data.scorefiles._passing import NOT_ROWS, is_row_array
from calibrant.data.scorefiles._reading import check_readable
from calibrant.scale.streams._batch import Batch
from calibrant.scale.streams._names import Names, Wishes, names_in

_WHAT = "a NumPy array"


@dataclass(frozen=True)
class ArraySource:
    """Arrays of the same rows, one to a file; one alone is the scores."""

    path: Path
    arrays: Mapping[str, Path]  # those that are read, and those that only apply copies
    names: Names
    n_rows: int
    n_classes: int | None
    row_bytes: int
    others: Mapping[str, NDArray[Any]]  # no rows of each array that is not the scores
    left_out: Mapping[str, str]

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that belong to it."""
        return tuple(self.arrays.values())

    @property
    def splits(self) -> tuple[int, ...]:
        """It can be cut anywhere."""
        return (*range(_CUT, self.n_rows, _CUT), self.n_rows)

    def batches(
        self, start: int, stop: int, most: int, *, all_columns: bool = False
    ) -> Iterator[Batch]:
        """The rows from ``start`` to ``stop``, at most so many at once."""
        for first in range(start, stop, most):
            yield self._batch(first, min(first + most, stop), all_columns)

    def _batch(self, start: int, stop: int, all_columns: bool) -> Batch:
        def rows(name: str | None) -> NDArray[Any] | None:
            return None if name is None else self._rows(name, start, stop)

        names = self.names
        return Batch(
            scores=self._rows(names.scores[0], start, stop),
            labels=None if all_columns else rows(names.labels),
            weights=rows(names.weights),
            predictions=rows(names.predictions),
            file=self.path,
            first_row=start,
            others={name: rows(name) for name in self.others} if all_columns else {},
            left_out=self.left_out,
        )

    def _rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some rows in memory: the map ends here, and what it has read is given back."""
        with parsing(self.arrays[name], _WHAT):
            return np.array(map_array(self.arrays[name])[start:stop])


_CUT = 4096  # rows
_LABELS = "labels"


def open_array_source(arrays: Mapping[str, Path], wishes: Wishes) -> ArraySource:
    """What the headers of files say that belong together."""
    beside = list(arrays)
    if wishes.labels_path is not None:
        arrays = {**arrays, _LABELS: wishes.labels_path}
    path = next(iter(arrays.values()))
    names = names_in(Source(path, beside, lambda wanted, labels: []), wishes)
    if wishes.labels_path is not None:
        names = replace(names, labels=_LABELS)
    heads = {name: _head(file) for name, file in arrays.items()}
    scores = arrays[names.scores[0]]
    for name in names.columns:
        if heads[name].ndim == 0:
            raise FileError(f"{arrays[name]} is a single number, not an array of rows")
    rows, *width = heads[names.scores[0]].shape
    for name in names.columns:
        if len(heads[name]) != rows:
            raise FileError(f"{arrays[name]} has {len(heads[name])} rows, but {scores} has {rows}")
    others = {
        name: np.empty((0, *head.shape[1:]), head.dtype)
        for name, head in heads.items()
        if name not in names.scores and is_row_array(head.shape, head.dtype, rows)
    }
    left_out = {name: NOT_ROWS for name in heads if name not in {*names.scores, *others}}
    used = {name: file for name, file in arrays.items() if name in {*names.columns, *others}}
    row_bytes = sum(heads[name].dtype.itemsize * heads[name][:1].size for name in names.columns)
    n_classes = width[0] if len(width) == 1 else None
    return ArraySource(scores, used, names, rows, n_classes, row_bytes, others, left_out)


def _head(path: Path) -> NDArray[Any]:
    """An array that stays on the disk: its shape and type."""
    check_readable(path)
    with parsing(path, _WHAT):
        return map_array(path)


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
