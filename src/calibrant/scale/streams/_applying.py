"""Applying a calibrator to a stream, shard by shard: what is finished stays finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.common.arrays import to_numpy
from calibrant.common.docstrings import documented
from calibrant.common.extras import need
from calibrant.common.files import FilePath
from calibrant.common.progress import reporter
from calibrant.common.types import Progress
from calibrant.data.scorefiles._copied_columns import (
    Column,
    ColumnsToCopy,
    as_arrow,
    columns_to_copy,
)
from calibrant.scale.streams import _manifest as manifests
from calibrant.scale.streams._shard_files import ShardFormat, writing
from calibrant.scale.streams._sources import Batch
from calibrant.scale.streams._stream import Piece, ScoreStream

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
    copied: ColumnsToCopy
    types: Mapping[str, Any]  # the Arrow types of copies; a column that is absent here is null
    planned: manifests.ShardRecord

    def write(self, stream: ScoreStream, calibrator: Calibrator) -> Iterator[int]:
        """Read, calibrate and write; yields the rows as they are done."""
        n_rows, left_out = 0, dict(self.copied.left_out)
        with writing(self.stem, self.format) as writer:
            for batch in stream.read(self.piece, all_columns=True):
                with batch.blamed():
                    outputs = outputs_of(calibrator, batch, self.outputs)
                    writer.write(outputs, self._copies(batch))
                n_rows, left_out = n_rows + len(batch), {**batch.left_out, **left_out}
                yield len(batch)
        record = replace(
            self.planned,
            n_rows=n_rows,
            columns=writer.columns,
            left_out={**left_out, **writer.left_out},
            files={path.name: path.stat().st_size for path in writer.files},
        )
        record.write(self.stem.parent, self.stem.name)

    def _copies(self, batch: Batch) -> dict[str, Column]:
        """The other columns of some rows, by the names that they get."""
        copies = {
            new: batch.others[name]
            for name, new in self.copied.renamed.items()
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

    stream: ScoreStream  # with the covariates that the calibrator reads
    folder: Path
    shards: list[Shard]
    left: list[Shard]

    @property
    def rows_left(self) -> int:
        """The rows that are still to be done; 0 where that is not known."""
        known = self.stream.n_rows is not None
        return sum(s.piece.stop - s.piece.start for s in self.left) if known else 0

    def done(self, n_rows: int) -> AppliedShards:
        """The end of it."""
        records = [manifests.read_record(self.folder, shard.stem.name) for shard in self.shards]
        columns = {name: None for one in records if one for name in one.columns}
        left_out = {name: why for one in records if one for name, why in one.left_out.items()}
        skipped = len(self.shards) - len(self.left)
        return AppliedShards(
            self.folder, n_rows, len(self.shards), skipped, list(columns), left_out
        )


@documented
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
        A fitted calibrator. The covariates that it reads are columns of the files.
    stream : ScoreStream
        The scores, see ``open_stream`` (with ``need_labels=False`` where they have no labels).
    folder : path-like
        Where to write: a new or empty folder, or that of an earlier run of the same work.
    only : {"confidence"}, optional
        Leave out the probabilities of all classes, ``probs``.
    format : {"parquet", "npy"}, default "parquet"
        Tables, or an array per column such as ``a.probs.npy``.
    {stream_progress}

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
    total, done = job.rows_left, 0
    with reporter("calibrating", progress) as report:
        for shard in job.left:
            for rows in shard.write(job.stream, calibrator):
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
    stream = stream._read_by(calibrator.formula_)
    outputs = (*(() if only else ("probs",)), "prediction", "confidence")
    folder = Path(folder)
    copied = [
        columns_to_copy(one.others, one.names.scores, one.names.labels, LABEL, outputs)
        for one in stream.sources
    ]
    names = {new: None for one in copied for new in one.renamed.values()}
    ordered = sorted(names, key=lambda name: name != LABEL)  # labels before the others
    types = _types(stream, copied, ordered) if format == "parquet" else {}
    known = [manifests.shard_input(source) for source in stream.sources]
    shards, left = [], []
    for piece, stem in zip(*_stems(stream), strict=True):
        planned = manifests.ShardRecord(*known[piece.source], [piece.start, piece.stop])
        shard = Shard(piece, folder / stem, outputs, format, copied[piece.source], types, planned)
        shards.append(shard)
        # what a shard was made of is compared before the folder: it says more than the sum of all
        record = manifests.read_record(folder, stem)
        if record is not None:
            planned.check_same_work(record, folder, stem)
        if record is None or not record.is_whole(folder):
            left.append(shard)
    manifest = manifests.Manifest(
        calibrator=manifests.digest_of(calibrator),
        options={"only": only, "format": format},
        shards=[shard.stem.name for shard in shards],
        columns={name: str(types.get(name, "as it is")) for name in ordered},
    )
    manifest.enter(folder)
    return Job(stream, folder, shards, left)


def _types(stream: ScoreStream, copied: list[ColumnsToCopy], names: list[str]) -> dict[str, Any]:
    """The Arrow types of the copies that files tell beforehand, and agree on."""
    arrow, types = import_module("pyarrow"), import_module("pyarrow.types")
    found: dict[str, list[Any]] = {name: [] for name in names}
    for source, one in zip(stream.sources, copied, strict=True):
        for name, new in one.renamed.items():
            none = source.others[name]
            if none is not None and not types.is_null(as_arrow(none).type):
                found[new].append(as_arrow(none).type)
    agreed = {}
    for name, kinds in found.items():
        # labels that are numbers have one in any case: whole numbers unless some file has floats
        widest = (arrow.int64(), arrow.float64()) if name == LABEL else ()
        wide = [one for one in widest if all(_widens(kind, one) for kind in kinds)]
        if wide or (kinds and all(kind == kinds[0] for kind in kinds)):
            agreed[name] = (*wide, *kinds)[0]
    return agreed


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
    names = []
    for path in (source.path for source in stream.sources):  # a of a.parquet and of a.logits.npy
        stem = path.stem.rpartition(".")[0] if path.suffix.lower() == ".npy" else path.stem
        names.append(stem or path.stem)
    hidden = any(name[0] in "._" for name in names)  # to readers of the outputs
    if hidden or len({*names}) < len(names):  # of several folders, or formats
        names = [f"{index:05d}-{name}" for index, name in enumerate(names)]
    parts = Counter(piece.source for piece in pieces)
    seen: Counter[int] = Counter()
    stems = []
    for piece in pieces:
        number, of = seen[piece.source], parts[piece.source]
        seen[piece.source] += 1
        cut = f"-{number:05d}-of-{of:05d}" if of > 1 else ""
        stems.append(f"{names[piece.source]}{cut}")
    return pieces, stems


def outputs_of(
    calibrator: Calibrator, batch: Batch, names: tuple[str, ...], device: str | None = None
) -> dict[str, NDArray[Any]]:
    """The outputs of some rows by name, computed in main memory, or by PyTorch on a device."""
    scores: Any = batch.scores
    if device is not None:
        torch = need("torch", "torch", "workers with GPUs need")
        scores = torch.as_tensor(batch.scores, device=device)
    used = batch.rows.only(calibrator.formula_.needs).covariates
    if "probs" not in names:
        label, probability, _ = calibrator.predict_confidence(scores, covariates=used)
        return {"prediction": to_numpy(label), "confidence": to_numpy(probability)}
    probs = to_numpy(calibrator.predict_proba(scores, covariates=used))
    if calibrator.accuracy_preserving:  # ties after rounding are those of the scores
        label = to_numpy(calibrator.predict(scores, covariates=used))
    else:
        label = probs.argmax(axis=1)
    confidence = np.take_along_axis(probs, label[:, None], axis=1)[:, 0]
    return {"probs": probs, "prediction": label, "confidence": confidence}
