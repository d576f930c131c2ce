"""Applying a calibrator to a stream, shard by shard: what is finished stays finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.common.arrays import to_numpy
from calibrant.common.extras import need
from calibrant.common.files import FilePath
from calibrant.common.progress import reporter
from calibrant.common.types import Progress
from calibrant.data.scorefiles._passing import (
    Column,
    Passing,
    as_arrow,
    passing_columns,
)
from calibrant.scale.streams._batch import Batch
from calibrant.scale.streams._manifest import (
    Manifest,
    ShardRecord,
    digest_of,
    planned_record,
    read_record,
    shard_input,
)
from calibrant.scale.streams._shard_files import ShardFormat, writing
from calibrant.scale.streams._stream import Piece, ScoreSource, ScoreStream

Only = Literal["confidence"]
SHARD_BYTES = 2**28  # of scores in one shard, about
LABEL = "label"  # what labels are called in the outputs, whatever their name was


@dataclass(frozen=True)
class AppliedShards:
    """What ``apply_stream`` did.

    Parameters
    ----------
    folder : Path
        Where the shards are.
    n_rows : int
        The rows that were written in this run.
    n_shards : int
        The number of shards, finished all of them.
    skipped : int
        How many of them an earlier run had finished.
    columns : list of str
        What was written: the outputs, then what was copied from the inputs.
    left_out : dict of str to str
        Columns of the inputs that were not copied, and why.
    """

    folder: Path
    n_rows: int
    n_shards: int
    skipped: int
    columns: list[str]
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shard:
    """The outputs of some rows: where they come from and where they go."""

    piece: Piece
    stem: Path
    outputs: tuple[str, ...]
    format: ShardFormat
    passing: Passing
    types: Mapping[str, Any]  # the Arrow types of copies; a column that is absent here is null
    planned: ShardRecord

    def write(self, stream: ScoreStream, calibrator: Calibrator) -> Iterator[int]:
        """Read, calibrate and write; yields the rows as they are done."""
        n_rows, left_out = 0, dict(self.passing.left_out)
        with writing(self.stem, self.format) as writer:
            for batch in stream.read(self.piece, all_columns=True):
                with batch.blamed():
                    outputs = outputs_of(calibrator, batch)
                    copies = self._copies(batch)
                    writer.write({name: outputs(name) for name in self.outputs}, copies)
                n_rows, left_out = n_rows + len(batch), {**batch.left_out, **left_out}
                yield len(batch)
        folder = self.stem.parent
        record = replace(
            self.planned,
            n_rows=n_rows,
            columns=writer.columns,
            left_out={**left_out, **writer.left_out},
            files={path.name: path.stat().st_size for path in writer.files},
        )
        record.write(folder, self.stem.name)

    def _copies(self, batch: Batch) -> dict[str, Column]:
        """The other columns of some rows, by the names that they get."""
        copies = {
            new: batch.others[name]
            for name, new in self.passing.renamed.items()
            if name in batch.others
        }
        if self.format == "npy":
            return copies
        return {
            name: _stored(name, copies.get(name), self.types.get(name), len(batch))
            for name in dict.fromkeys([*self.types, *copies])
        }


@dataclass(frozen=True)
class Job:
    """All shards of a stream, in a folder that was made for them."""

    folder: Path
    shards: list[Shard]
    left: list[Shard]

    def done(self, n_rows: int) -> AppliedShards:
        """The end of it."""
        records = [read_record(self.folder, shard.stem.name) for shard in self.shards]
        columns = {name: None for one in records if one for name in one.columns}
        left_out = {name: why for one in records if one for name, why in one.left_out.items()}
        skipped = len(self.shards) - len(self.left)
        return AppliedShards(
            self.folder, n_rows, len(self.shards), skipped, list(columns), left_out
        )


def apply_stream(
    calibrator: Calibrator,
    stream: ScoreStream,
    folder: FilePath,
    *,
    only: Only | None = None,
    format: ShardFormat = "parquet",  # noqa: A002
    progress: Progress = False,
) -> AppliedShards:
    """Write the calibrated probabilities of a stream to a folder, in bounded memory.

    A file, or about 256 MB of a larger one, is a shard. Each appears under its name when it is
    whole; where a run is killed, the next one with the same arguments goes on behind the shards
    that are finished. Two runs at once must not share a folder.

    All columns but the scores are copied, labels as ``label``. They may be of any type, and labels
    may be missing. Where only some files have a column, it is null in the other shards. A column
    that has the name of an output is replaced, and other columns of scores under a usual name
    (logits, probs) are left out: ``left_out`` of the result names them.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator.
    stream : ScoreStream
        The scores, see ``open_stream`` (with ``need_labels=False`` where they have no labels).
    folder : path-like
        Where to write: a new or empty folder, or that of an earlier run of the same work.
    only : {"confidence"}, optional
        Leave out the probabilities of all classes, ``probs``.
    format : {"parquet", "npy"}, default "parquet"
        Tables, or an array per column such as ``a.probs.npy``.
    progress : bool or callable, default False
        True shows a bar on standard error; a callable is called as ``progress(done, total)`` with
        rows, the total being 0 where it is not known.

    Returns
    -------
    AppliedShards
        How much was written. The columns are ``probs``, ``prediction``, ``confidence``, where there
        are labels ``label``, and the other columns of the inputs.

    Raises
    ------
    FileError
        Where an input is damaged, or the folder holds other things or the outputs of other work:
        another calibrator, other options, other files, other columns read, or changed content.
    ValueError
        Where rows are refused (a note names the file) or an option is not known.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import calibrant
    >>> from calibrant.streams import open_stream
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "a.logits.npy", np.eye(4))
    >>> ts = calibrant.TS().fit([[4.0, 0, 0, 0], [0, 3.0, 0, 0], [5.0, 0, 0, 0]], [0, 1, 1])
    >>> stream = open_stream(folder, need_labels=False)
    >>> done = apply_stream(ts, stream, folder / "out", format="npy")
    >>> done.n_rows, done.columns
    (4, ['probs', 'prediction', 'confidence'])
    >>> np.load(folder / "out" / "a.probs.npy").shape
    (4, 4)
    """
    job = prepared(calibrator, stream, folder, only, format)
    rows_left = sum(shard.piece.stop - shard.piece.start for shard in job.left)
    total = 0 if stream.n_rows is None else rows_left
    done = 0
    with reporter("calibrating", progress) as report:
        for shard in job.left:
            for rows in shard.write(stream, calibrator):
                done += rows
                report(done, total)
    return job.done(done)


def prepared(
    calibrator: Calibrator,
    stream: ScoreStream,
    folder: FilePath,
    only: Only | None,
    format: ShardFormat,  # noqa: A002
) -> Job:
    """Check everything that can be checked before the work, and enter the folder."""
    check_is_calibrator(calibrator)
    if only not in (None, *get_args(Only)):
        raise ValueError(f'only must be "confidence" or None, got {only!r}')
    if format not in get_args(ShardFormat):
        raise ValueError(f'format must be "parquet" or "npy", got {format!r}')
    if stream.input != calibrator.input_:
        raise ValueError(f"the calibrator takes {calibrator.input_}, got {stream.input}")
    if stream.n_rows == 0:
        raise ValueError("the stream has no rows")
    outputs = (*(() if only else ("probs",)), "prediction", "confidence")
    folder = Path(folder)
    passing = [_passing(source, outputs) for source in stream.sources]
    types = _types(stream, passing) if format == "parquet" else {}
    known = [shard_input(source) for source in stream.sources]
    shards = [
        Shard(
            piece,
            folder / stem,
            outputs,
            format,
            passing[piece.source],
            types,
            planned_record(*known[piece.source], piece),
        )
        for piece, stem in zip(*_stems(stream), strict=True)
    ]
    manifest = Manifest(
        calibrator=digest_of(calibrator),
        options={"only": only, "format": format},
        shards=[shard.stem.name for shard in shards],
        columns={name: str(types.get(name, "as it is")) for name in _copied_names(passing)},
    )
    return Job(folder, shards, _left(folder, shards, manifest))


def _left(folder: Path, shards: list[Shard], manifest: Manifest) -> list[Shard]:
    """Enter a folder; the shards that are not finished there. Those that are must be of this work.

    What a single shard was made of is compared first: it says more than the sum of all.
    """
    left = []
    for shard in shards:
        name = shard.stem.name
        record = read_record(folder, name)
        if record is not None:
            shard.planned.check_same_work(record, folder, name)
        if record is None or not record.is_whole(folder):
            left.append(shard)
    manifest.enter(folder)
    return left


def _passing(source: ScoreSource, outputs: tuple[str, ...]) -> Passing:
    """What is copied of a file."""
    names, labels = source.others, source.names.labels
    return passing_columns(names, source.names.scores, labels, LABEL, outputs)


def _copied_names(passing: list[Passing]) -> list[str]:
    """The names of all copies, labels before the others."""
    names = dict.fromkeys(new for one in passing for new in one.renamed.values())
    return sorted(names, key=lambda name: name != LABEL)


def _types(stream: ScoreStream, passing: list[Passing]) -> dict[str, Any]:
    """The Arrow types of the copies that files tell beforehand, and agree on."""
    found: dict[str, list[Any]] = {name: [] for name in _copied_names(passing)}
    for source, one in zip(stream.sources, passing, strict=True):
        for name, new in one.renamed.items():
            none = source.others[name]
            if none is not None:
                found[new].append(as_arrow(none).type)
    agreed = {name: _agreed(kinds, name == LABEL) for name, kinds in found.items()}
    return {name: kind for name, kind in agreed.items() if kind is not None}


def _agreed(kinds: list[Any], labels: bool) -> Any:
    """The one type of a column in all files; None where there is none.

    Labels that are numbers have one in any case: whole numbers unless some file has floats.
    """
    arrow, types = import_module("pyarrow"), import_module("pyarrow.types")
    kinds = [kind for kind in kinds if not types.is_null(kind)]
    for widest in (arrow.int64(), arrow.float64()) if labels else ():
        if all(_widens(kind, widest) for kind in kinds):
            return widest
    return kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else None


def _widens(kind: Any, widest: Any) -> bool:
    """Whether labels of a type are stored as int64 or float64 without a loss."""
    arrow, types = import_module("pyarrow"), import_module("pyarrow.types")
    whole = types.is_integer(kind) and kind != arrow.uint64()
    return whole or (types.is_floating(kind) and types.is_floating(widest))


def _stored(name: str, column: Column | None, kind: Any, n_rows: int) -> Any:
    """A copy as it is stored: null where it is absent, of the type that all shards have.

    Files that do not tell their types beforehand may have others. Those stay as they are: whether a
    cast succeeds would depend on the rows of a batch.
    """
    arrow, types = import_module("pyarrow"), import_module("pyarrow.types")
    if column is None:
        return arrow.nulls(n_rows, kind)
    array = as_arrow(column)
    if kind is None or array.type == kind:
        return array
    widened = name == LABEL and types.is_primitive(kind) and _widens(array.type, kind)
    return array.cast(kind) if types.is_null(array.type) or widened else array


def _stems(stream: ScoreStream) -> tuple[list[Piece], list[str]]:
    """The pieces that become shards, and their names: those of the files, with numbers if cut."""
    pieces = stream.pieces(SHARD_BYTES)
    parts = Counter(piece.source for piece in pieces)
    names = [_plain_stem(source.path) for source in stream.sources]
    hidden = any(name[0] in "._" for name in names)  # to readers of the outputs
    if hidden or len({*names}) < len(names):  # of several folders, or formats
        names = [f"{index:05d}-{name}" for index, name in enumerate(names)]
    seen: Counter[int] = Counter()
    stems = []
    for piece in pieces:
        number, of = seen[piece.source], parts[piece.source]
        seen[piece.source] += 1
        cut = f"-{number:05d}-of-{of:05d}" if of > 1 else ""
        stems.append(f"{names[piece.source]}{cut}")
    return pieces, stems


def _plain_stem(path: Path) -> str:
    """``a`` of ``a.parquet`` and of ``a.logits.npy``."""
    stem = path.stem.rpartition(".")[0] if path.suffix.lower() == ".npy" else path.stem
    return stem or path.stem


def outputs_of(
    calibrator: Calibrator, batch: Batch, device: str | None = None
) -> Callable[[str], NDArray[Any]]:
    """A function from the name of a column to its values for these rows.

    They are computed in main memory, or by PyTorch on a device.
    """
    return _Outputs(calibrator, batch, device).column


class _Outputs:
    def __init__(self, calibrator: Calibrator, batch: Batch, device: str | None) -> None:
        self.calibrator, self.batch = calibrator, batch
        self.scores: Any = batch.scores
        if device is not None:
            torch = need("torch", "torch", "workers with GPUs need")
            self.scores = torch.as_tensor(batch.scores, device=device)
        self.columns: dict[str, NDArray[Any]] = {}

    def column(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            self._compute(name)
        return self.columns[name]

    def _compute(self, name: str) -> None:
        if name == "probs":
            self._compute_all()
        else:
            label, probability, _ = self.calibrator.predict_confidence(self.scores)
            self.columns["prediction"] = to_numpy(label)
            self.columns["confidence"] = to_numpy(probability)

    def _compute_all(self) -> None:
        probs = to_numpy(self.calibrator.predict_proba(self.scores))
        if self.calibrator.accuracy_preserving:  # ties after rounding are those of the scores
            label = to_numpy(self.calibrator.predict(self.scores))
        else:
            label = probs.argmax(axis=1)
        confidence = np.take_along_axis(probs, label[:, None], axis=1)[:, 0]
        self.columns |= {"probs": probs, "prediction": label, "confidence": confidence}
