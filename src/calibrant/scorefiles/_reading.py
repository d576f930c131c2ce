"""Reading scores and labels from a file of any format."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from calibrant._errors import FileError
from calibrant._types import InputKind
from calibrant.scorefiles._choosing import choose_labels, choose_scores, kind_in_name, refuse_key
from calibrant.scorefiles._contents import NAMELESS, Source
from calibrant.scorefiles._formats import FilePath, Format, format_of


@dataclass(frozen=True)
class ScoreFile:
    """What was read: the scores, what they are, their labels, and the names that they had."""

    scores: NDArray[Any]
    labels: NDArray[Any] | None
    kind: InputKind
    scores_name: str
    labels_name: str | None


def read_scores(
    path: FilePath,
    *,
    scores_key: str | None = None,
    labels_key: str | None = None,
    labels_path: FilePath | None = None,
    kind: InputKind | None = None,
    default_kind: InputKind | None = None,
    need_labels: bool = True,
) -> ScoreFile:
    """Read scores and labels from a file, or the labels from a second one.

    ``scores_key`` and ``labels_key`` name arrays or columns (for the columns ``val_0``, ``val_1``,
    .. the key is ``val``). ``kind`` says what the scores are, whatever their name; ``default_kind``
    says it only where the names leave it open. A ``.npy`` file stays on the disk (memory-mapped).
    """
    with _opened(path) as source:
        name = choose_scores(source, scores_key, kind or default_kind)
        found = kind or kind_in_name(name) or default_kind
        if found is None:
            where = f"{name!r} of {source.path}" if name else source.path
            raise FileError(f"{where} may be logits or probs: say --input logits or --input probs")
        label_name = None
        if labels_path is None:
            label_name = choose_labels(source, labels_key, need_labels)
        wanted = [source.columns(name), *([[label_name]] if label_name else [])]
        scores, *rest = source.fetch(wanted)
    labels = rest[0] if rest else None
    if labels_path is not None:
        labels, label_name = _read_labels(labels_path, labels_key)
    return ScoreFile(scores, labels, found, name, label_name)


def _read_labels(path: FilePath, key: str | None) -> tuple[NDArray[Any], str]:
    with _opened(path) as source:
        name = NAMELESS
        if source.nameless:
            refuse_key(source, key)
        else:
            name = choose_labels(source, key, needed=True) or NAMELESS
        return source.fetch([[name]])[0], name


def _opened(path: FilePath) -> AbstractContextManager[Source]:
    path = Path(path)
    chosen = format_of(path)
    if not path.is_file():
        state = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{path} {state}")
    path.open("rb").close()  # so that a refusal of the system reads as one
    return _parsed(path, chosen)


@contextmanager
def _parsed(path: Path, chosen: Format) -> Iterator[Source]:
    """Open a file; whatever its parser raises becomes one clear line.

    Damaged files make the parsers of other packages raise nearly anything.
    """
    try:
        with chosen.open(path) as source:
            yield source
    except (FileError, ImportError, MemoryError):
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
        if isinstance(error, pickle.UnpicklingError) or "pickle" in str(error):
            reason = "it is damaged or holds pickled objects, which are never loaded"
        raise FileError(f"{path} cannot be read as {chosen.what}: {reason}") from None
