"""What a folder of outputs was made of: only the same work goes on in it.

``_calibrant.json`` says what belongs to the whole folder: the calibrator, the options, the names of
the shards and the types of their columns. Each finished shard has a record of its own,
``_NAME.shard.json``, that says which rows of which files it was made of, how they were read, and
which files it consists of; it is written last, so that a shard with a record is whole. Readers of
data sets (Arrow, Spark, Ray) skip names that begin with ``_``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.common import json as _json
from calibrant.common.errors import FileError
from calibrant.common.files import write_text
from calibrant.formulas._serialization import to_state

if TYPE_CHECKING:
    from calibrant.scale.streams._sources import ScoreSource

NAME, _RECORD = "_calibrant.json", "_{}.shard.json"
FORMAT = "calibrant-outputs-2"
OLD_FORMAT = "calibrant-outputs-1"
SHARD_FORMAT = "calibrant-shard-1"
_WHAT_NOW = "write to another folder, or delete this one to start again"

_ENDS = 2**16  # bytes at either end of a file that its digest reads ..
_BETWEEN, _BLOCK = 14, 2**12  # .. and so many blocks of so many bytes between them

Document = dict[str, Any]
T = TypeVar("T", "Manifest", "ShardRecord")


# --- the folder -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Manifest:
    """What belongs to a whole folder of outputs."""

    calibrator: str  # a digest
    options: Document
    shards: list[str]
    columns: Document  # what is copied from the inputs, and its type where it is known beforehand

    def enter(self, folder: Path) -> None:
        """Begin or go on in a folder; one that holds the outputs of other work is refused."""
        folder.mkdir(exist_ok=True)
        before = read_manifest(folder)
        if before is None:
            if any(path.name[0] != "." for path in folder.iterdir()):
                raise FileError(
                    f"{folder} holds files that no earlier run wrote: give a new folder"
                )
            _write(folder / NAME, FORMAT, self)
            return
        difference = self._difference(before)
        if difference:
            raise _other_work(folder, difference)
        sweep(folder)

    def _difference(self, before: Manifest) -> str:
        """What is not as it was, in words."""
        if before.calibrator != self.calibrator:
            return "the calibrator is another one"
        for name, value in self.options.items():
            if before.options.get(name) != value:
                return f"{name} was {before.options.get(name)!r}, now it is {value!r}"
        if before.shards != self.shards:
            gone = [name for name in before.shards if name not in {*self.shards}]
            new = [name for name in self.shards if name not in {*before.shards}]
            parts = [f"shard {gone[0]!r} is no longer among the inputs"] if gone else []
            parts += [f"shard {new[0]!r} is new"] if new else []
            return " and ".join(parts) or "the shards have another order"
        for name in dict.fromkeys([*before.columns, *self.columns]):
            was, now = before.columns.get(name, "absent"), self.columns.get(name, "absent")
            if was != now:
                return f"the column {name!r} of the inputs was {was}, now it is {now}"
        return ""


def read_manifest(folder: Path) -> Manifest | None:
    """That of a folder; None where there is none."""
    return _read(folder / NAME, FORMAT, Manifest, "shards")


def check_finished(folder: Path) -> None:
    """Refuse outputs of which shards are missing: they would be judged by some of their rows."""
    manifest = read_manifest(folder)
    if manifest is None:
        return
    records = {name: read_record(folder, name) for name in manifest.shards}
    missing = [name for name, one in records.items() if one is None or not one.is_whole(folder)]
    if missing:
        raise FileError(
            f"{folder} is not finished: {len(missing)} of {len(manifest.shards)} shards are "
            f"missing ({missing[0]}): run apply again, and it goes on there"
        )


def sweep(folder: Path) -> None:
    """Remove what a run that was killed had begun."""
    for left in folder.glob(".calibrant-*.tmp"):
        left.unlink(missing_ok=True)


def _other_work(folder: Path, difference: str) -> FileError:
    return FileError(f"{folder} holds outputs of other work: {difference}. To proceed, {_WHAT_NOW}")


# --- one shard --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShardRecord:
    """What a shard was made of and, once it is finished, what it consists of."""

    inputs: list[Document]  # path, size, modified and digest of each file
    reads: Document  # what the scores are, and the columns of scores and labels
    rows: list[int]  # the first and the one behind the last; two zeros stand for all
    n_rows: int = 0
    columns: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)  # sizes by name

    def write(self, folder: Path, shard: str) -> None:
        """Store it: the shard is finished."""
        _write(folder / _RECORD.format(shard), SHARD_FORMAT, self)

    def is_whole(self, folder: Path) -> bool:
        """Whether all files are there that it consists of."""
        sizes = ((folder / name, size) for name, size in self.files.items())
        return all(path.is_file() and path.stat().st_size == size for path, size in sizes)

    def check_same_work(self, before: ShardRecord, folder: Path, shard: str) -> None:
        """Refuse to go on beside a shard that was made of other rows, or that read others."""
        difference = self._difference(before)
        if difference:
            raise _other_work(folder, f"of the shard {shard!r}, {difference}")

    def _difference(self, before: ShardRecord) -> str:
        """What is not as it was, in words."""
        for name, word in _READS.items():
            was, now = before.reads.get(name), self.reads[name]
            if was != now:
                return f"{word} {_in_words(was)}, now {_in_words(now)}"
        was, now = ([str(one.get("path")) for one in file.inputs] for file in (before, self))
        if was != now:
            return f"the input was {', '.join(was)}, now it is {', '.join(now)}"
        for old, new in zip(before.inputs, self.inputs, strict=True):
            if (old.get("size"), old.get("digest")) != (new["size"], new["digest"]):
                return f"the content of {new['path']} has changed since"
            if old.get("modified") != new["modified"]:
                return f"{new['path']} has been modified since"
        if before.rows != self.rows:
            return f"the rows were {before.rows}, now they are {self.rows}"
        return ""


_READS = {
    "kind": "the scores were",
    "scores": "the scores were read from",
    "labels": "the labels were read from",
}


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        names = value if len(value) < 3 else [value[0], "..", value[-1]]
        return " ".join(map(str, names)) or "an array without a name"
    return "no column" if value is None else str(value)


def read_record(folder: Path, shard: str) -> ShardRecord | None:
    """That of a shard; None where it is not finished."""
    return _read(folder / _RECORD.format(shard), SHARD_FORMAT, ShardRecord, "files")


def shard_input(source: ScoreSource) -> tuple[list[Document], Document]:
    """What identifies the files of a source, and how they are read."""
    names = source.names
    reads = {"kind": names.kind, "scores": list(names.scores), "labels": names.labels}
    inputs = []
    for path in source.files:
        known = path.stat()
        inputs.append(
            {
                "path": os.path.realpath(path),
                "size": known.st_size,
                "modified": known.st_mtime_ns,
                "digest": digest_of_file(path),
            }
        )
    return inputs, reads


# --- digests ----------------------------------------------------------------------------------


def digest_of_file(path: Path) -> str:
    """A SHA-256 of the size, both ends and a few blocks between: large files are not read whole.

    The ends hold the footer of a Parquet table and the directory of an archive, checksums included.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest = hashlib.sha256(str(size).encode())
        blocks = [(0, 2 * _ENDS)]
        if size > 2 * _ENDS:
            inner = np.linspace(_ENDS, size - _ENDS, _BETWEEN + 2, dtype=np.int64)[1:-1]
            blocks = [(0, _ENDS), *((int(at), _BLOCK) for at in inner), (size - _ENDS, _ENDS)]
        for start, length in blocks:
            file.seek(start)
            digest.update(file.read(length))
    return digest.hexdigest()


def digest_of(calibrator: Calibrator) -> str:
    """A SHA-256 of all that a calibrator's outputs depend on."""
    document, arrays = to_state(calibrator.formula_)
    digest = hashlib.sha256(json.dumps([document, calibrator.input_], sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


# --- files of JSON ----------------------------------------------------------------------------

_IN_JSON = {str: "text", dict: "an object", list: "a list", int: "a whole number"}
_TYPES: Mapping[str, type] = {
    "calibrator": str,
    "options": dict,
    "shards": list,
    "columns": dict,
    "inputs": list,
    "reads": dict,
    "rows": list,
    "n_rows": int,
    "left_out": dict,
    "files": dict,
}


def _write(path: Path, form: str, value: Manifest | ShardRecord) -> None:
    write_text(path, json.dumps({"format": form, **asdict(value)}, indent=1) + "\n")


def _read(path: Path, form: str, kind: type[T], names: str) -> T | None:
    """The values of a file, of the types that they must have; None where there is no file.

    One of them holds the ``names`` of files, which must not be looked for outside the folder.
    """
    if not path.is_file():
        return None
    try:
        fields = _json.loads(path.read_text())
        if not isinstance(fields, dict):
            raise ValueError("it is no object")
        written = fields.pop("format", None)
        if written != form and not (written == OLD_FORMAT and kind is Manifest):
            raise ValueError("its format is not known")
        if written == form:
            return _checked(kind(**fields), names)
    except (ValueError, TypeError) as error:
        raise FileError(f"{path} cannot be read as what apply wrote: {error}") from None
    raise FileError(
        f"{path.parent} was written by an older version of calibrant, which did not record what "
        f"its outputs were made of: {_WHAT_NOW}"
    )


def _checked(found: T, names: str) -> T:
    for name, value in vars(found).items():
        wanted = list if name == "columns" and isinstance(found, ShardRecord) else _TYPES[name]
        if not isinstance(value, wanted):
            raise ValueError(f"{name} must be {_IN_JSON[wanted]}, got {shown(value)}")
    for one in getattr(found, "inputs", []):
        if not isinstance(one, dict):
            raise ValueError(f"inputs must be objects, got {shown(one)}")
    for name in getattr(found, names):
        if not isinstance(name, str) or name in ("", "..") or name != Path(name).name:
            raise ValueError(f"{names} must be names of files in the folder, got {shown(name)}")
    return found
