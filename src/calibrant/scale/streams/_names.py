"""Which columns of a file a stream reads, and what they say that the scores are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrant.common.types import InputKind
from calibrant.data.scorefiles._choosing import (
    SCORE_NAMES,
    choose_column,
    choose_labels,
    choose_scores,
    labels_if_any,
)
from calibrant.data.scorefiles._contents import Source
from calibrant.data.scorefiles._reading import kind_of
from calibrant.scale.streams._batch import StreamKind

CONFIDENCE, PREDICTION = "confidence", "prediction"


@dataclass(frozen=True)
class Wishes:
    """What the caller said about the files, see ``open_stream``."""

    scores_key: str | None = None
    labels_key: str | None = None
    weights_key: str | None = None
    labels_path: Path | None = None
    input: InputKind | None = None
    default_input: InputKind | None = None
    need_labels: bool = True
    max_size: int | None = None
    may_lack_labels: bool = False  # one of many files: the rows of some may be unlabelled


@dataclass(frozen=True)
class Names:
    """The columns of one file: several for scores that lie in numbered ones."""

    kind: StreamKind
    scores: tuple[str, ...]
    labels: str | None
    weights: str | None
    predictions: str | None = None

    @property
    def columns(self) -> list[str]:
        """All of them, each once."""
        others = (self.labels, self.weights, self.predictions)
        return list(dict.fromkeys([*self.scores, *(name for name in others if name is not None)]))


def names_in(source: Source, wishes: Wishes) -> Names:
    """What a file has for a caller who wishes so."""
    labels = None
    if wishes.labels_path is None:
        choose = labels_if_any if wishes.may_lack_labels else choose_labels
        labels = choose(source, wishes.labels_key, wishes.need_labels)
    weights = choose_column(source, wishes.weights_key)
    if wishes.scores_key is None and _has_confidence_alone([*source.names, *source.flat]):
        return Names("confidence", (CONFIDENCE,), labels, weights, PREDICTION)
    name = choose_scores(source, wishes.scores_key, wishes.input or wishes.default_input)
    kind = kind_of(source, name, wishes.input, wishes.default_input)
    return Names(kind, tuple(source.columns(name)), labels, weights)


def _has_confidence_alone(names: Sequence[str]) -> bool:
    return {CONFIDENCE, PREDICTION} <= {*names} and not {*SCORE_NAMES} & {*names}
