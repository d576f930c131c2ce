"""What a stream yields: a few rows, and where they came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.common.errors import FileError
from calibrant.common.types import InputKind
from calibrant.data.scorefiles._unlabelled import has_label

#: What the scores of a stream are; "confidence" is that of the prediction beside it, and no more.
StreamKind = InputKind | Literal["confidence"]


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows of a file.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes) or (n_rows,)
        Logits or probabilities, 1-D for class 1 of two; or confidences.
    labels : ndarray of shape (n_rows,) or None
        Their labels, as they stand in the file, with NaN for null; None where there are none.
    weights : ndarray of shape (n_rows,) or None
        The weight of each row; None where no name was given.
    predictions : ndarray of shape (n_rows,) or None
        The predicted classes, where the scores are confidences.
    file : Path
        The file.
    first_row : int
        The number of the first of these rows in the file.
    others : dict of str to array
        All columns but the scores, as they stand in the file, where they were asked for.
    left_out : dict of str to str
        The other columns that could not be read as rows, and why.
    """

    scores: NDArray[Any]
    labels: NDArray[Any] | None
    weights: NDArray[Any] | None
    predictions: NDArray[Any] | None
    file: Path
    first_row: int
    others: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.scores)

    def labelled(self) -> tuple[Batch, int]:
        """Leave out rows without a label.

        Returns
        -------
        tuple of Batch and int
            The rows that have a label, and the number of those that have none.
        """
        if self.labels is None:
            known, labels = np.zeros(len(self), np.bool_), np.zeros(len(self))
        elif self.labels.ndim == 0 or len(self.labels) != len(self):
            return self, 0  # refused where labels are checked
        else:
            known, labels = has_label(self.labels), self.labels
        if known.all() and self.labels is not None:
            return self, 0
        kept = replace(
            self,
            scores=self.scores[known],
            labels=labels[known],
            weights=None if self.weights is None else self.weights[known],
            predictions=None if self.predictions is None else self.predictions[known],
        )
        return kept, int(np.count_nonzero(~known))

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
