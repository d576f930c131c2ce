"""Which columns of a file are read: the scores, the labels, and what belongs to each row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from calibrant.common.errors import FileError, did_you_mean
from calibrant.common.types import InputKind
from calibrant.data.rows import Rows

Arrays = Mapping[str, Any]  # NumPy arrays by name
#: What the scores of a file are; "confidence" is that of the prediction beside it, and no more.
StreamKind = InputKind | Literal["confidence"]

NAMELESS = ""  # the name of the one array of a .npy file, or of a .pt file of a single tensor
NAMES_SHOWN = 12
SCORE_NAMES: dict[str, InputKind] = {
    "logits": "logits",
    "logit": "logits",
    "probs": "probs",
    "prob": "probs",
}
LABEL_NAMES = ("label", "labels")
CONFIDENCE, PREDICTION = "confidence", "prediction"


@dataclass(frozen=True)
class OpenFile:
    """An open file: the names in it, and ways to read them.

    ``fetch`` gives an array of numbers for each list of columns; its second argument names the
    column of labels, which may be missing for some rows. ``copied`` gives those of some columns
    that have as many rows as the scores, as they stand in the file, whatever their type.
    """

    path: Path
    names: list[str]
    fetch: Callable[[list[list[str]], str | None], list[NDArray[Any]]] = lambda wanted, labels: []
    flat: dict[str, list[str]] = field(default_factory=dict)  # prefix -> columns, in a table
    copied: Callable[[list[str], int], dict[str, Any]] = lambda names, n_rows: {}
    is_table: bool = False  # has columns of numbers, and no arrays of several columns

    @property
    def nameless(self) -> bool:
        """Is the file one array, without a name?"""
        return self.names == [NAMELESS]

    def listing(self) -> str:
        """The names in the file; columns that belong together as ``logits_0..logits_9``."""
        grouped = {column for columns in self.flat.values() for column in columns}
        names = [f"{columns[0]}..{columns[-1]}" for columns in self.flat.values()]
        names += [name for name in self.names if name not in grouped]
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        return (", ".join(names[:NAMES_SHOWN]) or "nothing") + more

    def named(self, key: str | None, present: Sequence[str] | None = None) -> str | None:
        """The column of a key, which must be there; None without a key."""
        if key is None:
            return None
        if self.nameless:
            raise FileError(f"{self.path} is one array without a name: leave out the key {key!r}")
        present = self.names if present is None else present
        if key not in present:
            hint = did_you_mean(key, present)
            raise FileError(f"{self.path} has no {key!r}; it has {self.listing()}{hint}")
        return key

    def only(self, candidates: list[str], what: str, argument: str, remedy: str) -> str:
        """The one candidate; where there are none or several, the caller must say which."""
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            names = " and ".join(candidates)
            raise FileError(f"{self.path} has {names}: say which with {argument}")
        raise FileError(f"{self.path} has no {what}; it has {self.listing()}: {remedy}")


@dataclass(frozen=True)
class ReadOptions:
    """What the caller said about files, see ``read_scores`` and ``open_stream``."""

    scores_key: str | None = None
    labels_key: str | None = None
    weights_key: str | None = None
    segments_key: str | None = None
    covariates: tuple[str, ...] = ()
    labels_path: Path | None = None
    input: InputKind | None = None
    default_input: InputKind | None = None
    need_labels: bool = True
    max_size: int | None = None
    may_lack_labels: bool = False  # one of many files: the rows of some may be unlabelled
    confidences: bool = True  # whether confidences beside predictions may serve as scores


@dataclass(frozen=True)
class ColumnNames:
    """The columns of one file: several for scores that lie in numbered ones."""

    kind: StreamKind
    scores_name: str
    scores: tuple[str, ...]
    labels: str | None = None
    weights: str | None = None
    segments: str | None = None
    predictions: str | None = None
    covariates: tuple[str, ...] = ()

    @property
    def beside(self) -> list[str]:
        """All but the scores, each once."""
        single = (self.labels, self.weights, self.segments, self.predictions)
        named = [name for name in (*single, *self.covariates) if name is not None]
        return list(dict.fromkeys(named))

    @property
    def columns(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*self.scores, *self.beside]))

    def rows(self, path: Path, scores: NDArray[Any], columns: Arrays) -> Rows:
        """Rows as they stand in a file; of them only the covariates are looked at."""
        for name in self.covariates:
            column = columns[name]
            if column.dtype.kind not in "biuf" or column.shape != scores.shape[:1]:
                raise FileError(
                    f"{path}, column {name!r}: a covariate must have one number per row, got "
                    f"{column.dtype} of shape {column.shape} for {len(scores)} rows"
                )
        label, weight, segment = (
            None if name is None else columns.get(name)
            for name in (self.labels, self.weights, self.segments)
        )
        return Rows(
            scores,
            label,  # type: ignore[arg-type]
            weight,
            input="probs" if self.kind == "confidence" else self.kind,
            segments=segment,
            covariates={name: columns[name] for name in self.covariates} or None,
        )


def choose_names(file: OpenFile, options: ReadOptions) -> ColumnNames:
    """The columns that a caller wants of a file; one that is missing is refused."""
    present = {*file.names, *file.flat}
    predictions = None
    if (
        options.confidences
        and options.scores_key is None
        and {CONFIDENCE, PREDICTION} <= present
        and not {*SCORE_NAMES} & present
    ):
        name, predictions = CONFIDENCE, PREDICTION
        kind: StreamKind = "confidence"
    else:
        name = _scores_name(file, options)
        found = options.input or kind_in_name(name) or options.default_input
        if found is None:
            where = f"{name!r} of {file.path}" if name else file.path
            hint = "" if name else "; if it holds labels, give it with labels_path"
            raise FileError(
                f'{where} may be logits or probs: say input="logits" or input="probs"{hint}'
            )
        kind = found
    labels = None
    if options.labels_path is None:
        labels = labels_name(file, options.labels_key, options.need_labels, options.may_lack_labels)
    for key in options.covariates:
        file.named(key)
    return ColumnNames(
        kind,
        name,
        tuple(file.flat.get(name, [name])),
        labels,
        file.named(options.weights_key),
        file.named(options.segments_key),
        predictions,
        options.covariates,
    )


def _scores_name(file: OpenFile, options: ReadOptions) -> str:
    """The name of the scores: the key, or the one usual name; their kind decides between two."""
    key, kind = options.scores_key, options.input or options.default_input
    if file.nameless:
        file.named(key)
        return NAMELESS
    present = [*file.names, *file.flat]
    if key is not None:
        key = key if key in present else key.rstrip("_")
        name = file.named(key, present) or key
    else:
        candidates = list(dict.fromkeys(name for name in present if name in SCORE_NAMES))
        if len(candidates) > 1:
            candidates = [one for one in candidates if SCORE_NAMES[one] == kind] or candidates
        remedy = "say which with scores_key"
        if file.is_table and not file.flat:
            stem = kind or "logits"
            remedy += f", or name the columns {stem}_0, {stem}_1, .., one for each class"
        name = file.only(candidates, "scores (logits, probs)", "scores_key", remedy)
    if name in file.names and name in file.flat:
        raise FileError(f"{file.path} has a column {name} and columns {name}_0, ..: drop one")
    return name


def labels_name(
    file: OpenFile, key: str | None, needed: bool, may_lack: bool = False
) -> str | None:
    """The name of the labels that lie beside scores; None where they may be missing, and are.

    One of many files ``may_lack`` them even where they are needed. Two names that could be theirs
    are refused where labels are needed.
    """
    if file.nameless:
        if may_lack or (not needed and key is None):
            return None
        raise FileError(
            f"{file.path} is one array, which is read as scores: give its labels in a file "
            "of their own with labels_path"
        )
    if key is not None:
        return None if may_lack and key not in file.names else file.named(key)
    candidates = [name for name in file.names if name in LABEL_NAMES]
    if len(candidates) != 1 and not (needed and (candidates or not may_lack)):
        return None
    remedy = "say which with labels_key, or give a file of labels with labels_path"
    return file.only(candidates, "labels (label, labels)", "labels_key", remedy)


def kind_in_name(name: str) -> InputKind | None:
    """What a name says that an array holds.

    Parameters
    ----------
    name : str
        The name of an array, or of a column without its number.

    Returns
    -------
    {"logits", "probs"} or None
        What it says; None where it says nothing, or two things.

    Examples
    --------
    >>> kind_in_name("val_logits"), kind_in_name("probs"), kind_in_name("scores")
    ('logits', 'probs', None)
    """
    words = re.split(r"[^a-z]+", name.lower())
    kinds = {SCORE_NAMES[word] for word in words if word in SCORE_NAMES}
    if len(kinds) != 1 or "log" in words:  # log_probs are neither
        return None
    return kinds.pop()


def flat_columns(path: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Columns ``prefix_0``, ``prefix_1``, .. by their prefix, in the order of their numbers."""
    numbered: dict[str, dict[int, str]] = {}
    for name, count in Counter(names).items():
        if count > 1:
            raise FileError(f"{path} has {count} columns by the name of {name!r}")
        match = re.fullmatch(r"(.+)_(0|[1-9]\d*)", name)
        if match:
            numbered.setdefault(match[1], {})[int(match[2])] = name
    return {
        prefix: [columns[number] for number in sorted(columns)]
        for prefix, columns in numbered.items()
        if len(columns) > 1
    }


def check_numbers(path: Path, wanted: list[list[str]]) -> None:
    """Refuse ``logits_0, logits_2``: a class is missing."""
    for columns in wanted:
        prefix = columns[0].rpartition("_")[0]
        for number, column in enumerate(columns if len(columns) > 1 else []):
            if column != f"{prefix}_{number}":
                raise FileError(
                    f"{path} has a column {columns[-1]}, but no {prefix}_{number}: the columns of "
                    "the classes are numbered from 0, without a gap"
                )
