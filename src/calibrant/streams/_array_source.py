"""NumPy arrays that stay on the disk as streams: ``a.logits.npy`` beside ``a.label.npy``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._errors import FileError
from calibrant._foreign_files import parsing
from calibrant._npz import map_array
from calibrant.scorefiles._choosing import SCORE_NAMES
from calibrant.scorefiles._contents import NAMELESS, Source
from calibrant.scorefiles._reading import check_readable
from calibrant.streams._batch import Batch
from calibrant.streams._names import Names, Wishes, names_in

_WHAT = "a NumPy array"


@dataclass(frozen=True)
class ArraySource:
    """Arrays of the same rows, one to a file; one alone is the scores."""

    path: Path
    arrays: Mapping[str, Path]
    names: Names
    n_rows: int
    n_classes: int | None
    row_bytes: int

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that belong to it."""
        return tuple(self.arrays.values())

    @property
    def splits(self) -> tuple[int, ...]:
        """It can be cut anywhere."""
        return (*range(_CUT, self.n_rows, _CUT), self.n_rows)

    def batches(self, start: int, stop: int, most: int) -> Iterator[Batch]:
        """The rows from ``start`` to ``stop``, at most so many at once."""
        for first in range(start, stop, most):
            yield self._batch(first, min(first + most, stop))

    def _batch(self, start: int, stop: int) -> Batch:
        names = self.names
        return Batch(
            scores=self._rows(names.scores[0], start, stop),
            labels=None if names.labels is None else self._rows(names.labels, start, stop),
            weights=None if names.weights is None else self._rows(names.weights, start, stop),
            predictions=(
                None if names.predictions is None else self._rows(names.predictions, start, stop)
            ),
            file=self.path,
            first_row=start,
        )

    def _rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some rows in memory: the map ends here, and what it has read is given back."""
        with parsing(self.arrays[name], _WHAT):
            return np.array(map_array(self.arrays[name])[start:stop])


_CUT = 4096  # rows
_LABELS = "labels"


def open_array_source(arrays: Mapping[str, Path], wishes: Wishes) -> ArraySource:
    """What the headers of files say that belong together."""
    if wishes.labels_path is not None:
        arrays = {**arrays, _LABELS: wishes.labels_path}
    shapes: dict[str, tuple[int, ...]] = {}
    row_bytes = 0
    for name, path in arrays.items():
        check_readable(path)
        with parsing(path, _WHAT):
            array = map_array(path)
        if array.ndim == 0:
            raise FileError(f"{path} is a single number, not an array of rows")
        shapes[name] = array.shape
        row_bytes += array.dtype.itemsize * int(np.prod(array.shape[1:]))
    path = next(iter(arrays.values()))
    beside = [name for name in arrays if not (name == _LABELS and wishes.labels_path)]
    names = names_in(Source(path, beside, lambda wanted: []), wishes)
    if wishes.labels_path is not None:
        names = Names(names.kind, names.scores, _LABELS, names.weights, names.predictions)
    used = {name: arrays[name] for name in names.columns}
    scores, shape = arrays[names.scores[0]], shapes[names.scores[0]]
    rows = shape[0]
    for name in used:
        if shapes[name][0] != rows:
            raise FileError(f"{arrays[name]} has {shapes[name][0]} rows, but {scores} has {rows}")
    n_classes = shape[1] if len(shape) == 2 else None
    return ArraySource(scores, used, names, rows, n_classes, row_bytes)


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
