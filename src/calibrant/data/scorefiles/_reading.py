"""Reading scores, labels and weights from a file of any format."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.common.errors import FileError
from calibrant.common.files import Expansion, FilePath, parsing, similar_file
from calibrant.common.types import InputKind
from calibrant.data.rows import Rows
from calibrant.data.scorefiles._copied_columns import NOT_ROWS
from calibrant.data.scorefiles._formats import format_of
from calibrant.data.scorefiles._names import (
    NAMELESS,
    ColumnNames,
    OpenFile,
    ReadOptions,
    choose_names,
    labels_name,
)


@dataclass(frozen=True, kw_only=True)
class FileRows:
    """Rows as they stand in a file: nothing is checked, and NaN in the labels stands for none."""

    rows: Rows
    predictions: NDArray[Any] | None = None
    others: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def scores(self) -> NDArray[Any]:
        """The scores, 1-D for class 1 of two."""
        return self.rows.scores

    @property
    def labels(self) -> NDArray[Any] | None:
        """The labels, with NaN for null; None where there are none."""
        return self.rows.labels

    @property
    def weights(self) -> NDArray[Any] | None:
        """The weight of each row; None where no name was given."""
        return self.rows.sample_weight

    @property
    def covariates(self) -> Mapping[str, NDArray[Any]] | None:
        """The covariates that were asked for, by name; None where there are none."""
        return self.rows.covariates

    def labelled(self) -> tuple[Self, int]:
        """Leave out rows without a label.

        Returns
        -------
        tuple
            The rows that have a label, and the number of those that have none.
        """
        labels: Any = self.labels
        if labels is None:
            known, labels = np.zeros(len(self), np.bool_), np.zeros(len(self))
        elif labels.ndim == 0 or len(labels) != len(self):
            return self, 0  # refused where labels are checked
        elif labels.dtype.kind != "f":
            return self, 0
        else:  # of one-hot rows, those have none that are all NaN
            known = ~np.isnan(labels)
            known = known if labels.ndim == 1 else known.reshape(len(labels), -1).any(axis=1)
            if known.all():
                return self, 0
        predictions = None if self.predictions is None else self.predictions[known]
        kept = replace(self.rows, labels=labels).take(known)
        return replace(self, rows=kept, predictions=predictions), int(np.count_nonzero(~known))


def no_labels(n_rows: int) -> str:
    """The message for rows none of which has a label."""
    return f"none of the {n_rows:,} rows has a label: they are absent, null, NaN or empty cells"


@dataclass(frozen=True, kw_only=True)
class ScoreFile(FileRows):
    """What was read from a file of scores.

    Parameters
    ----------
    rows : Rows
        The scores (1-D for class 1 of two), labels, weights, segments and covariates, as they
        stand in the file. Nothing is checked.
    predictions : None
        There are none in a file of scores.
    others : dict of str to array
        All other columns that have a value for each row, as they stand in the file (those of a
        Parquet table as Arrow arrays), if they were asked for. The labels are among them.
    left_out : dict of str to str
        The other columns that could not be read that way, and why.
    scores_name : str
        The name of the scores in the file; empty where it has none.
    labels_name : str or None
        The name of the labels; None where there are none.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, n_classes) or (n_rows,)
        The scores; 1-D for class 1 of two.
    labels : ndarray or None
        Their labels, as they stand in the file; None where there are none.
    weights : ndarray or None
        The weight of each row, as it stands in the file; None where no name was given.
    input : {"logits", "probs"}
        What the scores are.
    segments : ndarray or None
        The segment of each row, as it stands in the file; None where no name was given.
    covariates : dict of str to array, or None
        The covariates that were asked for, by name; None where none were.
    """

    scores_name: str
    labels_name: str | None

    @property
    def input(self) -> InputKind:
        """What the scores are."""
        return self.rows.input

    @property
    def segments(self) -> NDArray[Any] | None:
        """The segment of each row; None where no name was given."""
        return self.rows.segments

    def labelled(self) -> tuple[Self, int]:
        """Leave out the rows without a label: NaN in ``labels``, which stands for null.

        Returns
        -------
        tuple of ScoreFile and int
            The rows that have a label, and the number of those that have none.

        Raises
        ------
        ValueError
            Where no row has a label.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp(), "val.csv")
        >>> _ = file.write_text("probs_0,probs_1,label\\n0.5,0.5,1\\n0.8,0.2,\\n")
        >>> rows, unlabelled = read_scores(file).labelled()
        >>> rows.labels, unlabelled
        (array([1.]), 1)
        """
        if self.labels is None:
            return self, 0
        kept, unlabelled = super().labelled()
        if unlabelled and not len(kept):
            raise ValueError(no_labels(unlabelled))
        return kept, unlabelled


def read_scores(
    path: FilePath,
    *,
    scores_key: str | None = None,
    labels_key: str | None = None,
    weights_key: str | None = None,
    segments_key: str | None = None,
    covariates: Sequence[str] = (),
    labels_path: FilePath | None = None,
    input: InputKind | None = None,  # noqa: A002 - the word of the whole public interface
    default_input: InputKind | None = None,
    need_labels: bool = True,
    max_size: int | None = None,
    all_columns: bool = False,
) -> ScoreFile:
    """Read scores, their labels and their weights.

    A label that is null, or an empty cell, is read as NaN: see ``ScoreFile.labelled``.

    Parameters
    ----------
    path : path-like
        The file; the end of its name tells the format. A ``.npy`` file stays on the disk
        (memory-mapped).
    scores_key : str, optional
        The name of the scores: an array, or ``val`` for the columns ``val_0``, ``val_1``, .. . By
        default the one array called logits or probs.
    labels_key : str, optional
        The name of the labels; by default label or labels.
    weights_key : str, optional
        The name of the rows' weights; there are none by default.
    segments_key : str, optional
        The name of the rows' segments, such as a camera's number; there are none by default.
    covariates : sequence of str, default ()
        The names of what else is known of each row: columns of numbers.
    labels_path : path-like, optional
        A file that has the labels, where they are not beside the scores.
    input : {"logits", "probs"}, optional
        What the scores are, whatever their name.
    default_input : {"logits", "probs"}, optional
        What the scores are where their name leaves it open.
    need_labels : bool, default True
        Whether a file without labels is refused.
    max_size : int, optional
        The most bytes that the arrays of one file may take in memory; by default 1e9, or 20 times
        the size of the file where that is more. A ``.npy`` file, which stays on the disk, may have
        any size.
    all_columns : bool, default False
        Read all other columns, too, whatever they hold. Labels are then one of them, and are
        neither needed nor looked at.

    Returns
    -------
    ScoreFile
        The arrays and what they are.

    Raises
    ------
    FileError
        Where the file is damaged or foreign, lacks a name, does not say what its scores are, or
        would take too much memory.
    FileNotFoundError
        Where there is no such file.
    ValueError
        Where no format has that end of a name.
    ImportError
        Where the format needs a package that is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "val.csv")
    >>> _ = file.write_text("logits_0,logits_1,label\\n2.5,0,0\\n-1,1.5,1\\n")
    >>> read_scores(file).scores
    array([[ 2.5,  0. ],
           [-1. ,  1.5]])
    """
    options = ReadOptions(
        scores_key,
        labels_key,
        weights_key,
        segments_key,
        covariate_names(covariates),
        None if labels_path is None else Path(labels_path),
        input,
        default_input,
        need_labels and not all_columns,
        max_size,
        confidences=False,
    )
    return read_file(Path(path), options, all_columns=all_columns)


def covariate_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of some covariates: one alone must be in a sequence, too."""
    if isinstance(names, str):
        raise TypeError(f"covariates must be a sequence of names, such as ({names!r},)")
    return tuple(names)


def read_file(
    path: Path, options: ReadOptions, names: ColumnNames | None = None, *, all_columns: bool = False
) -> ScoreFile:
    """Read the columns of a file: those that were chosen before, or those of the options."""
    with opened(path, options.max_size) as file:
        names = names or choose_names(file, options)
        labels = None if all_columns else names.labels
        beside = [name for name in names.beside if not all_columns or name != names.labels]
        scores, *rest = file.fetch([list(names.scores), *([name] for name in beside)], labels)
        left = [name for name in file.names if all_columns and name not in names.scores]
        others = file.copied(left, len(scores)) if left else {}
    columns = dict(zip(beside, rest, strict=True))
    rows, found = names.rows(path, scores, columns), names.labels
    if options.labels_path is not None:
        with opened(options.labels_path, options.max_size) as file:
            if file.nameless:
                file.named(options.labels_key)
            found = NAMELESS if file.nameless else labels_name(file, options.labels_key, True)
            name = found or NAMELESS
            rows = replace(rows, labels=file.fetch([[name]], name)[0])
    return ScoreFile(
        rows=rows,
        predictions=None if names.predictions is None else columns[names.predictions],
        others=others,
        left_out={name: NOT_ROWS for name in left if name not in others},
        scores_name=names.scores_name,
        labels_name=found,
    )


@contextmanager
def opened(path: FilePath, max_size: int | None) -> Iterator[OpenFile]:
    """A file that is there and may be read, whatever its format; its faults become a FileError."""
    path = Path(path)
    allowed = Expansion(path, max_size)
    chosen = format_of(path)
    check_readable(path)
    with parsing(path, chosen.what), chosen.open(path, allowed) as file:
        yield file


def check_readable(path: Path) -> None:
    """Refuse what is no file, or may not be read, in words that say so."""
    try:
        mode = path.stat().st_mode  # a loop of links ends here, in the system's own words
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist{similar_file(path)}") from None
    if not stat.S_ISREG(mode):
        state = "is a folder" if stat.S_ISDIR(mode) else "is a device or a pipe"
        raise FileNotFoundError(f"{path} {state}, not a file")
    path.open("rb").close()  # so that a refusal of the system reads as one
    if path.stat().st_size == 0:
        raise FileError(f"{path} is empty")
