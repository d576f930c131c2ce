"""Which of the names in a file are the scores and the labels, and what a name says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from calibrant.common.errors import FileError, did_you_mean
from calibrant.common.types import InputKind
from calibrant.data.scorefiles._contents import NAMELESS, Source

SCORE_NAMES: dict[str, InputKind] = {
    "logits": "logits",
    "logit": "logits",
    "probs": "probs",
    "prob": "probs",
}
LABEL_NAMES = ("label", "labels")


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


def choose_scores(source: Source, key: str | None, kind: InputKind | None) -> str:
    """The name of the scores: the key, or the one usual name; ``kind`` decides between two."""
    refuse_key(source, key)
    if source.nameless:
        return NAMELESS
    present = [*source.names, *source.flat]
    if key is not None:
        name = _named(source, key if key in present else key.rstrip("_"), present)
    else:
        candidates = list(dict.fromkeys(name for name in present if name in SCORE_NAMES))
        if len(candidates) > 1:
            candidates = [one for one in candidates if SCORE_NAMES[one] == kind] or candidates
        remedy = "say which with scores_key"
        if source.is_table and not source.flat:
            stem = kind or "logits"
            remedy += f", or name the columns {stem}_0, {stem}_1, .., one for each class"
        name = _only(source, candidates, "scores (logits, probs)", "scores_key", remedy)
    if name in source.names and name in source.flat:
        raise FileError(f"{source.path} has a column {name} and columns {name}_0, ..: drop one")
    return name


_LABELS_REMEDY = "say which with labels_key, or give a file of labels with labels_path"


def choose_labels(source: Source, key: str | None, needed: bool) -> str | None:
    """The name of the labels that lie beside scores; None where they may be missing, and are."""
    if source.nameless:
        if needed or key is not None:
            raise FileError(
                f"{source.path} is one array, which is read as scores: give its labels in a file "
                "of their own with labels_path"
            )
        return None
    if key is not None:
        return _named(source, key, source.names)
    candidates = [name for name in source.names if name in LABEL_NAMES]
    if len(candidates) != 1 and not needed:
        return None
    return _only(source, candidates, "labels (label, labels)", "labels_key", _LABELS_REMEDY)


def labels_if_any(source: Source, key: str | None, needed: bool) -> str | None:
    """The name of the labels in one of many files, which may lack them.

    Two names that could be theirs are refused where labels are needed.
    """
    if source.nameless:
        return None
    candidates = [name for name in source.names if name == key or (not key and name in LABEL_NAMES)]
    if not candidates or (len(candidates) > 1 and not needed):
        return None
    return _only(source, candidates, "labels (label, labels)", "labels_key", _LABELS_REMEDY)


def choose_column(source: Source, key: str | None) -> str | None:
    """The name of weights or segments; None without a key: no name is theirs by itself."""
    refuse_key(source, key)
    return None if key is None else _named(source, key, source.names)


def refuse_key(source: Source, key: str | None) -> None:
    """Refuse a key for a file whose one array has no name."""
    if source.nameless and key is not None:
        raise FileError(f"{source.path} is one array without a name: leave out the key {key!r}")


def _only(source: Source, candidates: list[str], what: str, argument: str, remedy: str) -> str:
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise FileError(f"{source.path} has {' and '.join(candidates)}: say which with {argument}")
    raise FileError(f"{source.path} has no {what}; it has {source.listing()}: {remedy}")


def _named(source: Source, key: str, present: Sequence[str]) -> str:
    if key not in present:
        hint = did_you_mean(key, present)
        raise FileError(f"{source.path} has no {key!r}; it has {source.listing()}{hint}")
    return key
