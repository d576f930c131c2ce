"""Files of scores and labels: one door for every format, none of which can run code.

A file holds named arrays (``logits`` or ``probs``, ``label`` or ``labels``) or, as a table, columns
(``logits_0``, ``logits_1``, .. beside ``label``). What the scores are is told by their name or by
the caller, never by their values. Messages speak of the options of the command line, which is this
module's main user.
"""

from __future__ import annotations

import csv
import json
import os
import pickle
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import InputKind, as_labels, row_tiles, to_numpy
from calibrant._errors import FileError

FilePath = str | os.PathLike[str]

SCORE_NAMES: dict[str, InputKind] = {
    "logits": "logits",
    "logit": "logits",
    "probs": "probs",
    "prob": "probs",
}
LABEL_NAMES = ("label", "labels")
NAMELESS = ""  # the name of the one array of a .npy file, or of a .pt file of a single tensor
NAMES_SHOWN = 12


@dataclass(frozen=True)
class ScoreFile:
    """What was read: the scores, what they are, their labels, and the names that they had."""

    scores: NDArray[Any]
    labels: NDArray[Any] | None
    kind: InputKind
    scores_name: str
    labels_name: str | None


@dataclass(frozen=True)
class _Source:
    """An open file: the names in it, and a way to fetch an array for each list of columns."""

    path: Path
    names: list[str]
    fetch: Callable[[list[list[str]]], list[NDArray[Any]]]
    flat: dict[str, list[str]] = field(default_factory=dict)  # prefix -> columns, in a table

    @property
    def nameless(self) -> bool:
        return self.names == [NAMELESS]

    def columns(self, name: str) -> list[str]:
        return self.flat.get(name, [name])

    def listing(self) -> str:
        """The names in the file; columns that belong together as ``logits_0..logits_9``."""
        grouped = {column for columns in self.flat.values() for column in columns}
        names = [f"{columns[0]}..{columns[-1]}" for columns in self.flat.values()]
        names += [name for name in self.names if name not in grouped]
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        return (", ".join(names[:NAMES_SHOWN]) or "nothing") + more


# --- reading ----------------------------------------------------------------------------------


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
        name = _choose_scores(source, scores_key, kind or default_kind)
        found = kind or kind_in_name(name) or default_kind
        if found is None:
            where = f"{name!r} of {source.path}" if name else source.path
            raise FileError(f"{where} may be logits or probs: say --input logits or --input probs")
        label_name = None
        if labels_path is None:
            label_name = _choose_labels(source, labels_key, need_labels)
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
            _refuse_key(source, key)
        else:
            name = _choose_labels(source, key, needed=True) or NAMELESS
        return source.fetch([[name]])[0], name


def kind_in_name(name: str) -> InputKind | None:
    """What a name says that an array holds; None where it says nothing.

    >>> kind_in_name("val_logits"), kind_in_name("probs"), kind_in_name("scores")
    ('logits', 'probs', None)
    """
    words = re.split(r"[^a-z]+", name.lower())
    kinds = {SCORE_NAMES[word] for word in words if word in SCORE_NAMES}
    if len(kinds) != 1 or "log" in words:  # log_probs are neither
        return None
    return kinds.pop()


def _choose_scores(source: _Source, key: str | None, kind: InputKind | None) -> str:
    if source.nameless:
        _refuse_key(source, key)
        return NAMELESS
    present = [*source.names, *source.flat]
    if key is not None:
        name = _named(source, key if key in present else key.rstrip("_"), present)
    else:
        candidates = list(dict.fromkeys(name for name in present if name in SCORE_NAMES))
        if len(candidates) > 1:
            candidates = [one for one in candidates if SCORE_NAMES[one] == kind] or candidates
        name = _only(source, candidates, "scores (logits, probs)", "--scores-key")
    if name in source.names and name in source.flat:
        raise FileError(f"{source.path} has a column {name} and columns {name}_0, ..: drop one")
    return name


def _choose_labels(source: _Source, key: str | None, needed: bool) -> str | None:
    if source.nameless:
        if needed or key is not None:
            raise FileError(f"{source.path} is one array, of scores: name a file with --labels")
        return None
    if key is not None:
        return _named(source, key, source.names)
    candidates = [name for name in source.names if name in LABEL_NAMES]
    if len(candidates) != 1 and not needed:
        return None
    return _only(source, candidates, "labels (label, labels)", "--labels-key")


def _only(source: _Source, candidates: list[str], what: str, option: str) -> str:
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise FileError(f"{source.path} has {' and '.join(candidates)}: choose with {option}")
    raise FileError(
        f"{source.path} has no {what}; it has {source.listing()}: name them with {option}"
    )


def _named(source: _Source, key: str, present: Sequence[str]) -> str:
    if key not in present:
        raise FileError(f"{source.path} has no {key!r}; it has {source.listing()}")
    return key


def _refuse_key(source: _Source, key: str | None) -> None:
    if key is not None:
        raise FileError(f"{source.path} is one array without a name: leave out the key {key!r}")


def _opened(path: FilePath) -> AbstractContextManager[_Source]:
    path = Path(path)
    opener, what = _by_suffix(path, _READERS)
    if not path.is_file():
        state = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{path} {state}")
    path.open("rb").close()  # so that a refusal of the system reads as one
    return _parsed(path, opener, what)


@contextmanager
def _parsed(
    path: Path, opener: Callable[[Path], AbstractContextManager[_Source]], what: str
) -> Iterator[_Source]:
    """Open a file; whatever its parser raises becomes one clear line.

    Damaged files make the parsers of other packages raise nearly anything.
    """
    try:
        with opener(path) as source:
            yield source
    except (FileError, ImportError, MemoryError):
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
        if isinstance(error, pickle.UnpicklingError) or "pickle" in str(error):
            reason = "it is damaged or holds pickled objects, which are never loaded"
        raise FileError(f"{path} cannot be read as {what}: {reason}") from None


def _by_suffix(path: Path, table: Mapping[str, Any]) -> Any:
    try:
        return table[path.suffix.lower()]
    except KeyError:
        rule = f"the file's name must end in one of {', '.join(table)}"
        raise ValueError(f"{rule}, got {os.fspath(path)!r}") from None


# --- one opener a format ----------------------------------------------------------------------


@contextmanager
def _open_npz(path: Path) -> Iterator[_Source]:
    with path.open("rb") as file:  # ours to close: np.load leaves a damaged file open
        arrays = np.load(file, allow_pickle=False)
        if isinstance(arrays, np.ndarray):
            raise FileError(f"{path} is a single array, not an archive: call it .npy")
        yield _Source(path, arrays.files, lambda wanted: [arrays[name] for (name,) in wanted])


@contextmanager
def _open_npy(path: Path) -> Iterator[_Source]:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        array.close()
        raise FileError(f"{path} is an archive of arrays: call it .npz")
    yield _Source(path, [NAMELESS], lambda wanted: [array])


@contextmanager
def _open_safetensors(path: Path) -> Iterator[_Source]:
    from safetensors import safe_open

    with safe_open(os.fspath(path), framework="numpy") as file:

        def fetch(wanted: list[list[str]]) -> list[NDArray[Any]]:
            return [_tensor(file, path, name) for (name,) in wanted]

        yield _Source(path, list(file.keys()), fetch)


def _tensor(file: Any, path: Path, name: str) -> NDArray[Any]:
    if file.get_slice(name).get_dtype() != "BF16":
        return np.asarray(file.get_tensor(name))
    # NumPy has no bfloat16: read its bits, which are the upper half of a float32's
    with path.open("rb") as raw:
        header_size = int.from_bytes(raw.read(8), "little")
        entry = json.loads(raw.read(header_size))[name]
        first, last = entry["data_offsets"]
        raw.seek(8 + header_size + first)
        bits = np.frombuffer(raw.read(last - first), "<u2").astype(np.uint32)
    return (bits << 16).view(np.float32).reshape(entry["shape"])


@contextmanager
def _open_torch(path: Path) -> Iterator[_Source]:
    torch = _optional("torch", "torch", path.suffix)
    content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, torch.Tensor):
        content = {NAMELESS: content}
    if not isinstance(content, Mapping):
        kind = type(content).__name__
        raise FileError(f"{path} must hold a tensor or a dictionary of tensors, got a {kind}")
    tensors = {str(name): value for name, value in content.items() if torch.is_tensor(value)}
    yield _Source(
        path, list(tensors), lambda wanted: [to_numpy(tensors[name]) for (name,) in wanted]
    )


@contextmanager
def _open_csv(path: Path) -> Iterator[_Source]:
    with _csv_text(path) as file:
        header = [name.strip() for name in next(csv.reader(file), [])]
    if not header:
        raise FileError(f"{path} must have a header row, its first line is empty")
    if all(_is_number(name) for name in header):
        raise FileError(f"{path} must have a header row, its first line is all numbers")
    flat = _flat_columns(path, header)
    yield _Source(path, header, lambda wanted: _fetch_csv(path, header, wanted), flat)


@contextmanager
def _open_parquet(path: Path) -> Iterator[_Source]:
    parquet = _optional("pyarrow.parquet", "parquet", ".parquet")
    with parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        flat = _flat_columns(path, names)
        yield _Source(path, names, lambda wanted: _fetch_parquet(path, file, wanted), flat)


def _optional(module: str, extra: str, suffix: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise ImportError(
            f'{suffix} files need {package}: pip install "calibrant[{extra}]"'
        ) from None


# --- tables -----------------------------------------------------------------------------------


def _flat_columns(path: Path, names: Sequence[str]) -> dict[str, list[str]]:
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


def _check_numbers(path: Path, wanted: list[list[str]]) -> None:
    """Refuse ``logits_0, logits_2``: a class is missing."""
    for columns in wanted:
        prefix = columns[0].rpartition("_")[0]
        for number, column in enumerate(columns if len(columns) > 1 else []):
            if column != f"{prefix}_{number}":
                raise FileError(f"{path} has a column {columns[-1]}, but no {prefix}_{number}")


def _fetch_csv(path: Path, header: list[str], wanted: list[list[str]]) -> list[NDArray[Any]]:
    """The wanted columns in one pass over the text."""
    _check_numbers(path, wanted)
    place = {name: index for index, name in enumerate(header)}
    columns = [place[name] for names in wanted for name in names]
    try:
        with _csv_text(path) as file:
            lines = _csv_lines(path, file, len(header))
            values = np.loadtxt(
                lines, delimiter=",", quotechar='"', comments=None, usecols=columns, ndmin=2
            )
    except FileError:
        raise
    except ValueError:
        _tell_bad_cell(path, header, columns)
        raise
    result, start = [], 0
    for names in wanted:
        stop = start + len(names)
        result.append(values[:, start:stop] if len(names) > 1 else values[:, start])
        start = stop
    return result


def _csv_text(path: Path) -> IO[str]:
    return path.open(encoding="utf-8-sig")  # spreadsheets like to put a mark in front


def _csv_lines(path: Path, file: IO[str], width: int) -> Iterator[str]:
    """The lines below the header, each of them as wide as that; empty ones are left out."""
    reader = csv.reader(file)
    next(reader)
    empty = True
    for number, line in enumerate(file, start=reader.line_num + 1):
        if line.isspace():
            continue
        empty = False
        cells = len(next(csv.reader([line]))) if '"' in line else line.count(",") + 1
        if cells != width:
            raise FileError(f"{path}, line {number}: {cells} cells under a header of {width}")
        yield line
    if empty:
        raise FileError(f"{path} has no rows below its header")


def _tell_bad_cell(path: Path, header: list[str], columns: list[int]) -> None:
    """Raise for the first cell that is no number: a second, slow pass, once it is known bad."""
    with _csv_text(path) as file:
        reader = csv.reader(file)
        next(reader)
        for cells in reader:
            for column in columns if cells else []:
                if not _is_number(cells[column]):
                    raise FileError(
                        f"{path}, line {reader.line_num}, column {header[column]!r}: "
                        f"must be a number, got {cells[column]!r}"
                    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # 1_000 is a number to Python alone


def _fetch_parquet(path: Path, file: Any, wanted: list[list[str]]) -> list[NDArray[Any]]:
    _check_numbers(path, wanted)
    if file.metadata.num_rows == 0:
        raise FileError(f"{path} has no rows")
    table = file.read(columns=[name for names in wanted for name in names])
    result = []
    for names in wanted:
        arrays = [_parquet_column(path, name, table.column(name)) for name in names]
        result.append(np.stack(arrays, axis=1) if len(arrays) > 1 else arrays[0])
    return result


def _parquet_column(path: Path, name: str, column: Any) -> NDArray[Any]:
    """A column as an array: (rows,) of numbers, (rows, length) of lists of one length."""
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise FileError(f"{path}, column {name!r}: row {row} is null")
    if not hasattr(column.type, "value_type"):
        return np.asarray(column.to_numpy())
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    lengths = np.concatenate([_list_lengths(chunk) for chunk in chunks])
    odd = np.flatnonzero(lengths != lengths[0])
    if odd.size:
        raise FileError(
            f"{path}, column {name!r}: lists must have one length, row 0 has {lengths[0]} values "
            f"and row {odd[0]} has {lengths[odd[0]]}"
        )
    values = [chunk.flatten() for chunk in chunks]
    if any(part.null_count for part in values):
        raise FileError(f"{path}, column {name!r}: a list holds a null")
    flat = np.concatenate([part.to_numpy(zero_copy_only=False) for part in values])
    return flat.reshape(len(lengths), -1)


def _list_lengths(chunk: Any) -> NDArray[Any]:
    compute = import_module("pyarrow.compute")
    return np.asarray(compute.list_value_length(chunk).to_numpy(zero_copy_only=False))


_READERS: dict[str, tuple[Callable[[Path], AbstractContextManager[_Source]], str]] = {
    ".npz": (_open_npz, "a NumPy archive"),
    ".npy": (_open_npy, "a NumPy array"),
    ".csv": (_open_csv, "a table of text"),
    ".parquet": (_open_parquet, "a parquet table"),
    ".pt": (_open_torch, "a file of torch tensors"),
    ".pth": (_open_torch, "a file of torch tensors"),
    ".safetensors": (_open_safetensors, "a safetensors file"),
}


# --- writing ----------------------------------------------------------------------------------


def write_probs(path: FilePath, probs: Any, labels: Any = None, *, temperature: Any = None) -> None:
    """Write probabilities as ``probs``, with ``labels`` and ``temperature`` where given.

    The suffix chooses the format. The file appears whole or not at all.
    """
    path = Path(path)
    check_can_write(path)
    arrays = {"probs": np.ascontiguousarray(to_numpy(probs))}
    if labels is not None:
        arrays["labels"] = as_labels(labels, *arrays["probs"].shape)
    if temperature is not None:
        arrays["temperature"] = np.ascontiguousarray(to_numpy(temperature))
    writer = _by_suffix(path, _WRITERS)
    if writer is _write_npy and len(arrays) > 1:
        raise ValueError(f"a .npy file holds one array, got {' and '.join(arrays)} for {path}")
    with _replacing(path) as file:
        writer(file, arrays)


def check_can_write(path: FilePath) -> None:
    """Refuse a name that ``write_probs`` could not write to, before the work is done."""
    _by_suffix(Path(path), _WRITERS)
    check_folder(path)


def check_folder(path: FilePath) -> None:
    """Refuse a file whose folder is not there."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} to write {Path(path).name} to")


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file under a temporary name that takes the place of ``path`` once it is whole."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp's own mode keeps everybody else out
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


Arrays = Mapping[str, Any]  # NumPy arrays by name


def _write_npz(file: IO[bytes], arrays: Arrays) -> None:
    np.savez(file, **arrays)


def _write_npy(file: IO[bytes], arrays: Arrays) -> None:
    np.save(file, arrays["probs"])


def _write_safetensors(file: IO[bytes], arrays: Arrays) -> None:
    from safetensors.numpy import save

    file.write(save(dict(arrays)))


def _write_torch(file: IO[bytes], arrays: Arrays) -> None:
    torch = _optional("torch", "torch", ".pt")
    torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, file)


def _write_csv(file: IO[bytes], arrays: Arrays) -> None:
    probs = arrays["probs"]
    extra = [name for name in arrays if name != "probs"]
    digits = "%.9g" if probs.dtype.itemsize <= 4 else "%.17g"  # enough to read the same number
    formats = [digits] * probs.shape[1] + ["%d" if name == "labels" else digits for name in extra]
    names = [f"probs_{index}" for index in range(probs.shape[1])] + extra
    file.write((",".join(names) + "\n").encode())
    for rows in row_tiles(probs):
        block = np.column_stack([probs[rows], *(arrays[name][rows] for name in extra)])
        np.savetxt(file, block, fmt=formats, delimiter=",")


def _write_parquet(file: IO[bytes], arrays: Arrays) -> None:
    parquet = _optional("pyarrow.parquet", "parquet", ".parquet")
    arrow = import_module("pyarrow")
    probs = arrays["probs"]
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(probs.ravel()), probs.shape[1])
    columns = {name: arrow.array(array) for name, array in arrays.items() if name != "probs"}
    parquet.write_table(arrow.table({"probs": lists, **columns}), file)


_WRITERS: dict[str, Callable[[IO[bytes], Arrays], None]] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".pt": _write_torch,
    ".pth": _write_torch,
    ".safetensors": _write_safetensors,
}
