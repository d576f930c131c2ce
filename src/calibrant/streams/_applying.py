"""Applying a calibrator to a stream, shard by shard: what is finished stays finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import as_numpy, to_numpy
from calibrant._extras import need
from calibrant._files import FilePath
from calibrant._progress import reporter
from calibrant._types import Progress
from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.streams._batch import Batch
from calibrant.streams._manifest import Manifest, digest_of, inputs_of
from calibrant.streams._shard_files import ShardFormat, shard_paths, writing
from calibrant.streams._stream import Piece, ScoreStream

Only = Literal["confidence"]
SHARD_BYTES = 2**28  # of scores in one shard, about


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
        What was written of each row.
    """

    folder: Path
    n_rows: int
    n_shards: int
    skipped: int
    columns: list[str]


@dataclass(frozen=True)
class Shard:
    """The outputs of some rows: where they come from and where they go."""

    piece: Piece
    stem: Path
    columns: tuple[str, ...]
    format: ShardFormat

    @property
    def paths(self) -> list[Path]:
        """Its files."""
        return shard_paths(self.stem, list(self.columns), self.format)

    @property
    def is_finished(self) -> bool:
        """Whether all of its files are there; each of them appears whole."""
        return all(path.is_file() for path in self.paths)

    def write(self, stream: ScoreStream, calibrator: Calibrator) -> Iterator[int]:
        """Read, calibrate and write; yields the rows as they are done."""
        with writing(self.stem, list(self.columns), self.format) as writer:
            for batch in stream.read(self.piece):
                with batch.blamed():
                    outputs = outputs_of(calibrator, batch)
                    writer.write({name: outputs(name) for name in self.columns})
                yield len(batch)


@dataclass(frozen=True)
class Job:
    """All shards of a stream, in a folder that was made for them."""

    stream: ScoreStream
    calibrator: Calibrator
    folder: Path
    shards: list[Shard]
    left: list[Shard]

    @property
    def columns(self) -> list[str]:
        """What is written of each row."""
        return list(self.shards[0].columns)

    def done(self, n_rows: int) -> AppliedShards:
        """The end of it."""
        skipped = len(self.shards) - len(self.left)
        return AppliedShards(self.folder, n_rows, len(self.shards), skipped, self.columns)


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
        How much was written. The columns are ``probs``, ``prediction``, ``confidence`` and, where
        there are labels, ``label``.

    Raises
    ------
    FileError
        Where an input is damaged, or the folder holds other things.
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
    labelled = stream.sources[0].names.labels is not None
    columns = (
        *(() if only else ("probs",)),
        *("prediction", "confidence"),
        *(("label",) if labelled else ()),
    )
    folder = Path(folder)
    shards = [
        Shard(piece, folder / stem, columns, format)
        for piece, stem in zip(*_stems(stream), strict=True)
    ]
    manifest = Manifest(
        calibrator=digest_of(calibrator),
        options={"columns": list(columns), "format": format},
        inputs=inputs_of(stream),
        shards=[path.name for shard in shards for path in shard.paths],
    )
    manifest.enter(folder)
    return Job(stream, calibrator, folder, shards, [one for one in shards if not one.is_finished])


def _stems(stream: ScoreStream) -> tuple[list[Piece], list[str]]:
    """The pieces that become shards, and their names: those of the files, with numbers if cut."""
    pieces = stream.pieces(SHARD_BYTES)
    parts = Counter(piece.source for piece in pieces)
    names = [_plain_stem(source.path) for source in stream.sources]
    if len({*names}) < len(names):  # of several folders, or formats
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
        if name == "label":
            self.columns[name] = _as_classes(self.batch)
        elif name == "probs":
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


def _as_classes(batch: Batch) -> NDArray[np.int64]:
    """Labels are copied: -100 for rows to be left out is a label, too."""
    labels = as_numpy(batch.labels)
    if labels.shape != (len(batch),) or labels.dtype.kind not in "iuf":
        raise ValueError(f"labels must be one class per row, got shape {labels.shape}")
    whole = labels.astype(np.int64)
    if labels.dtype.kind == "f" and not np.array_equal(whole, labels):
        raise ValueError("labels must be whole numbers")
    return whole
