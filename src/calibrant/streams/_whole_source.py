"""Files of the other formats as streams: each is read whole, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calibrant.scorefiles import read_scores
from calibrant.scorefiles._reading import opened
from calibrant.streams._batch import Batch
from calibrant.streams._names import Names, Wishes, names_in


@dataclass(frozen=True)
class WholeSource:
    """A file that says how many rows it has only when it is read."""

    path: Path
    names: Names
    wishes: Wishes
    n_rows: None = None
    n_classes: None = None
    row_bytes: int = 0
    splits: tuple[int, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that belong to it."""
        return (self.path,)

    def batches(self, start: int, stop: int, most: int) -> Iterator[Batch]:
        """All of its rows, at most so many at once."""
        wishes = self.wishes
        data = read_scores(
            self.path,
            scores_key=wishes.scores_key,
            labels_key=wishes.labels_key,
            weights_key=wishes.weights_key,
            labels_path=wishes.labels_path,
            input=wishes.input,
            default_input=wishes.default_input,
            need_labels=wishes.need_labels,
            max_size=wishes.max_size,
        )
        for first in range(0, len(data.scores), most):
            rows = slice(first, first + most)
            labels = None if data.labels is None else data.labels[rows]
            weights = None if data.weights is None else data.weights[rows]
            yield Batch(data.scores[rows], labels, weights, None, self.path, first)


def open_whole_source(path: Path, wishes: Wishes) -> WholeSource:
    """What the names in a file say."""
    with opened(path, wishes.max_size) as source:
        return WholeSource(path, names_in(source, wishes), wishes)
