"""What a folder of outputs was made of: only the same work goes on in it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _json
from calibrant._errors import FileError
from calibrant._files import write_text
from calibrant._parts import to_state
from calibrant.calibrators import Calibrator

if TYPE_CHECKING:
    from calibrant.streams._stream import ScoreStream

NAME = "_calibrant.json"
FORMAT = "calibrant-outputs-1"


@dataclass(frozen=True)
class Manifest:
    """The calibrator, the options, the inputs and the shards of a folder of outputs."""

    calibrator: str
    options: dict[str, Any]
    inputs: list[dict[str, Any]]
    shards: list[str]  # the names of all files, once it is finished

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps({"format": FORMAT, **vars(self)}, indent=1) + "\n"

    def missing(self, folder: Path) -> list[str]:
        """The files that are not there yet."""
        return [name for name in self.shards if not (folder / name).is_file()]

    def enter(self, folder: Path) -> None:
        """Begin or go on in a folder; one that holds the outputs of other work is refused."""
        folder.mkdir(exist_ok=True)
        before = read_manifest(folder)
        if before is None:
            if any(path.name[0] != "." for path in folder.iterdir()):
                raise FileError(
                    f"{folder} holds files that no earlier run wrote: give a new folder"
                )
            write_text(folder / NAME, self.to_json())
            return
        for what in ("calibrator", "options", "inputs", "shards"):
            if getattr(before, what) != getattr(self, what):
                raise FileError(
                    f"{folder} holds outputs of other {_WORDS[what]}: "
                    "give a new folder, or delete it"
                )
        sweep(folder)


_WORDS = {
    "calibrator": "calibrators",
    "options": "options",
    "inputs": "inputs, or of ones that have changed since",
    "shards": "shards",
}


def sweep(folder: Path) -> None:
    """Remove what a run that was killed had begun."""
    for left in folder.glob(".calibrant-*.tmp"):
        left.unlink(missing_ok=True)


def read_manifest(folder: Path) -> Manifest | None:
    """That of a folder; None where there is none."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        document = _json.loads(path.read_text())
        if document.pop("format") != FORMAT:
            raise ValueError("its format is not known")
        found = Manifest(**document)
        _check(found)
        return found
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileError(f"{path} cannot be read as what apply wrote: {error}") from None


_KINDS = {"calibrator": str, "options": dict, "inputs": list, "shards": list}
_IN_JSON = {str: "text", dict: "an object", list: "a list"}


def _check(manifest: Manifest) -> None:
    """Refuse values of other kinds, and shards that would be looked for outside the folder."""
    for name, kind in _KINDS.items():
        value = getattr(manifest, name)
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be {_IN_JSON[kind]}, got {shown(value)}")
    for shard in manifest.shards:
        if not isinstance(shard, str) or shard in ("", "..") or shard != Path(shard).name:
            raise ValueError(f"shards must be names of files in the folder, got {shown(shard)}")


def check_finished(folder: Path) -> None:
    """Refuse outputs of which shards are missing: they would be judged by some of their rows."""
    manifest = read_manifest(folder)
    missing = [] if manifest is None else manifest.missing(folder)
    if manifest is not None and missing:
        raise FileError(
            f"{folder} is not finished: {len(missing)} of {len(manifest.shards)} files are missing "
            f"({missing[0]}): run apply again, and it goes on there"
        )


def digest_of(calibrator: Calibrator) -> str:
    """A SHA-256 of all that a calibrator's outputs depend on."""
    document, arrays = to_state(calibrator.formula_)
    digest = hashlib.sha256(json.dumps([document, calibrator.input_], sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def inputs_of(stream: ScoreStream) -> list[dict[str, Any]]:
    """The files of a stream, and what changes when they do."""
    found = [(path, path.stat()) for source in stream.sources for path in source.files]
    return [
        {"name": path.name, "size": known.st_size, "modified": known.st_mtime_ns}
        for path, known in found
    ]
