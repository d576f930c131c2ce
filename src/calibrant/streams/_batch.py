"""What a stream yields: a few rows, and where they came from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from calibrant._errors import FileError
from calibrant._types import InputKind

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
        Their labels, as they stand in the file; None where there are none.
    weights : ndarray of shape (n_rows,) or None
        The weight of each row; None where no name was given.
    predictions : ndarray of shape (n_rows,) or None
        The predicted classes, where the scores are confidences.
    file : Path
        The file.
    first_row : int
        The number of the first of these rows in the file.
    """

    scores: NDArray[Any]
    labels: NDArray[Any] | None
    weights: NDArray[Any] | None
    predictions: NDArray[Any] | None
    file: Path
    first_row: int

    def __len__(self) -> int:
        return len(self.scores)

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
