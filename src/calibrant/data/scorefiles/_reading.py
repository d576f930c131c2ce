"""Reading scores, labels and weights from a file of any format."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.errors import FileError
from calibrant.common.files import FilePath
from calibrant.common.types import InputKind
from calibrant.common.untrusted_files import Expansion, parsing, similar_file
from calibrant.data.scorefiles._choosing import (
    choose_column,
    choose_labels,
    choose_scores,
    kind_in_name,
    refuse_key,
)
from calibrant.data.scorefiles._contents import NAMELESS, Source
from calibrant.data.scorefiles._formats import Format, format_of
from calibrant.data.scorefiles._passing import NOT_ROWS
from calibrant.data.scorefiles._unlabelled import has_label, no_labels


@dataclass(frozen=True)
class ScoreFile:
    """What was read from a file of scores.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes) or (n_rows,)
        The scores; 1-D for class 1 of two.
    labels : ndarray or None
        Their labels, as they stand in the file; None where there are none.
    weights : ndarray or None
        The weight of each row, as it stands in the file; None where no name was given.
    input : {"logits", "probs"}
        What the scores are.
    scores_name : str
        The name of the scores in the file; empty where it has none.
    labels_name : str or None
        The name of the labels; None where there are none.
    segments : ndarray or None
        The segment of each row, as it stands in the file; None where no name was given.
    others : dict of str to array
        All other columns that have a value for each row, as they stand in the file (those of a
        Parquet table as Arrow arrays), if they were asked for. The labels are among them.
    left_out : dict of str to str
        The other columns that could not be read that way, and why.
    """

    scores: NDArray[Any]
    labels: NDArray[Any] | None
    weights: NDArray[Any] | None
    input: InputKind
    scores_name: str
    labels_name: str | None
    segments: NDArray[Any] | None = None
    others: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def labelled(self) -> tuple[ScoreFile, int]:
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
        >>> import numpy as np
        >>> labels = np.array([1.0, np.nan])
        >>> data = ScoreFile(np.eye(2), labels, None, "probs", "probs", "label")
        >>> rows, unlabelled = data.labelled()
        >>> rows.labels, unlabelled
        (array([1.]), 1)
        """
        if self.labels is None or self.labels.ndim == 0 or len(self.labels) != len(self.scores):
            return self, 0  # refused where labels are checked
        known = has_label(self.labels)
        if known.all():
            return self, 0
        if not known.any():
            raise ValueError(no_labels(len(known)))
        columns = {
            name: None if column is None else column[known]
            for name, column in (
                ("scores", self.scores),
                ("labels", self.labels),
                ("weights", self.weights),
                ("segments", self.segments),
            )
        }
        return replace(self, **columns), int(np.count_nonzero(~known))  # type: ignore[arg-type]


def read_scores(
    path: FilePath,
    *,
    scores_key: str | None = None,
    labels_key: str | None = None,
    weights_key: str | None = None,
    segments_key: str | None = None,
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
    with opened(path, max_size) as source:
        scores_name = choose_scores(source, scores_key, input or default_input)
        found = kind_of(source, scores_name, input, default_input)
        labels_name = None
        if labels_path is None:
            labels_name = choose_labels(source, labels_key, need_labels and not all_columns)
        weights_name = choose_column(source, weights_key)
        segments_name = choose_column(source, segments_key)
        names = (None if all_columns else labels_name, weights_name, segments_name)
        beside = list(dict.fromkeys(name for name in names if name is not None))
        wanted = [source.columns(scores_name), *([name] for name in beside)]
        scores, *rest = source.fetch(wanted, None if all_columns else labels_name)
        others: dict[str, Any] = {}
        rows = [name for name in source.names if name not in wanted[0]] if all_columns else []
        if rows:
            others = source.copied(rows, len(scores))
    columns: dict[str | None, NDArray[Any]] = dict(zip(beside, rest, strict=True))
    labels = None if all_columns else columns.get(labels_name)
    if labels_path is not None:
        labels, labels_name = _read_labels(labels_path, labels_key, max_size)
    return ScoreFile(
        scores,
        labels,
        columns.get(weights_name),
        found,
        scores_name,
        labels_name,
        columns.get(segments_name),
        others,
        {name: NOT_ROWS for name in rows if name not in others},
    )


def kind_of(
    source: Source, name: str, kind: InputKind | None, default: InputKind | None
) -> InputKind:
    """What the scores are: as the caller says, as their name says, or else the default."""
    found = kind or kind_in_name(name) or default
    if found is None:
        where = f"{name!r} of {source.path}" if name else source.path
        hint = "" if name else "; if it holds labels, give it with labels_path"
        raise FileError(
            f'{where} may be logits or probs: say input="logits" or input="probs"{hint}'
        )
    return found


def _read_labels(path: FilePath, key: str | None, max_size: int | None) -> tuple[NDArray[Any], str]:
    """The labels of a file of their own, and their name."""
    with opened(path, max_size) as source:
        name = NAMELESS
        if source.nameless:
            refuse_key(source, key)
        else:
            name = choose_labels(source, key, needed=True) or NAMELESS
        return source.fetch([[name]], name)[0], name


def opened(path: FilePath, max_size: int | None) -> AbstractContextManager[Source]:
    """A file that is there and may be read, whatever its format; its faults become a FileError."""
    path = Path(path)
    allowed = Expansion(path, max_size)
    chosen = format_of(path)
    check_readable(path)
    return _parsed(path, allowed, chosen)


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


@contextmanager
def _parsed(path: Path, allowed: Expansion, chosen: Format) -> Iterator[Source]:
    with parsing(path, chosen.what), chosen.open(path, allowed) as source:
        yield source
