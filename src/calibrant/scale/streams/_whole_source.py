"""Files of the other formats as streams: each is read whole, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from calibrant.data.scorefiles import read_scores
from calibrant.data.scorefiles._passing import whole_labels
from calibrant.data.scorefiles._reading import opened
from calibrant.scale.streams._batch import Batch
from calibrant.scale.streams._names import Names, Wishes, names_in


@dataclass(frozen=True)
class WholeSource:
    """A file that says how many rows it has only when it is read."""

    path: Path
    names: Names
    wishes: Wishes
    others: Mapping[str, None]  # the columns that are not the scores; their types are not known
    n_rows: None = None
    n_classes: None = None
    row_bytes: int = 0
    splits: tuple[int, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that belong to it."""
        labels = self.wishes.labels_path
        return (self.path,) if labels is None else (self.path, labels)

    def batches(
        self, start: int, stop: int, most: int, *, all_columns: bool = False
    ) -> Iterator[Batch]:
        """All of its rows, at most so many at once."""
        wishes, names = self.wishes, self.names
        labelled = names.labels is not None or wishes.labels_path is not None
        data = read_scores(
            self.path,
            scores_key=wishes.scores_key,
            labels_key=wishes.labels_key if labelled else None,
            weights_key=wishes.weights_key,
            labels_path=wishes.labels_path,
            input=wishes.input,
            default_input=wishes.default_input,
            need_labels=labelled and wishes.need_labels,
            max_size=wishes.max_size,
            all_columns=all_columns,
        )
        labels = data.labels if labelled else None
        others = {
            name: whole_labels(column) if name == names.labels else column
            for name, column in data.others.items()
        }
        for first in range(0, len(data.scores), most):
            rows = slice(first, first + most)
            yield Batch(
                data.scores[rows],
                None if all_columns or labels is None else labels[rows],
                None if data.weights is None else data.weights[rows],
                None,
                self.path,
                first,
                {name: column[rows] for name, column in others.items()},
                data.left_out,
            )


def open_whole_source(path: Path, wishes: Wishes) -> WholeSource:
    """What the names in a file say."""
    with opened(path, wishes.max_size) as source:
        names = names_in(source, wishes)
        others = dict.fromkeys(name for name in source.names if name not in names.scores)
        return WholeSource(path, names, wishes, others)
