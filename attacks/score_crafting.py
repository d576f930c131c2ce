"""Hostile files of scores, one function per kind of attack and format.

Every function takes a random generator and gives the bytes of a file; ``KINDS`` lists them all.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from numpy.random import Generator
from safetensors.numpy import save as safetensors_bytes

Maker = Callable[[Generator], bytes]
Arrays = dict[str, np.ndarray]

ROWS, CLASSES = 30, 3
NAMES = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m",
    "a\rb",
    "two\nlines",
    "\x7f\x08\x08",
    "gpj\u202eexe",
    "\u2066iso\u2069",
    "\u2028line",
    "[red]markup[/red]",
    "[/]",
    "[link=file:///etc/passwd]x[/link]",
    "%s{}{0}",
    "\ud83d",
    "x" * 300,
    "",
    "../../up",
    "logits\x00",
)


# --- plain files ------------------------------------------------------------------------------


def sample() -> Arrays:
    """Labelled logits."""
    rng = np.random.default_rng(7)
    logits = 3.0 * rng.normal(size=(ROWS, CLASSES))
    labels = (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return {"logits": logits, "labels": labels}


def written(suffix: str, arrays: Arrays) -> bytes:
    """A file of arrays, as the packages themselves write it."""
    file = io.BytesIO()
    if suffix == ".npz":
        return archive({name: npy_bytes(array) for name, array in arrays.items()})
    if suffix == ".npy":
        return npy_bytes(arrays["logits"])
    if suffix == ".csv":
        return table_text(arrays).encode("utf-8", "surrogatepass")
    if suffix == ".safetensors":
        return safetensors_bytes({name: np.ascontiguousarray(a) for name, a in arrays.items()})
    if suffix == ".parquet":
        columns = {name: list(array) for name, array in arrays.items()}
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
    else:
        torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, file)
    return file.getvalue()


def npy_bytes(array: np.ndarray, *, pickled: bool = False) -> bytes:
    """A single array."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=pickled)
    return file.getvalue()


def archive(
    members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED, end: str = ".npy"
) -> bytes:
    """A zip file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression, compresslevel=1) as zipped:
        for name, content in members.items():
            zipped.writestr(name + end, content)
    return file.getvalue()


def table_text(arrays: Arrays) -> str:
    """A table of text with a column per class."""
    lines = [",".join([*(f"logits_{i}" for i in range(CLASSES)), "labels"])]
    logits, labels = arrays["logits"], arrays["labels"]
    lines += [",".join(map(str, [*row, label])) for row, label in zip(logits, labels, strict=True)]
    return "\n".join(lines) + "\n"


@cache
def plain(suffix: str) -> bytes:
    """A file that is as it should be."""
    return written(suffix, sample())


# --- damage -----------------------------------------------------------------------------------


def cut(suffix: str) -> Maker:
    """A file that ends too early."""
    return lambda rng: plain(suffix)[: rng.integers(len(plain(suffix)))]


def flipped(suffix: str) -> Maker:
    """A file with a few other bits, half of the time in its first or last bytes."""

    def make(rng: Generator) -> bytes:
        content = bytearray(plain(suffix))
        size = len(content)
        for _ in range(rng.integers(1, 9)):
            place = int(rng.integers(size))
            if rng.random() < 0.5:
                near = int(rng.integers(min(300, size)))
                place = near if rng.random() < 0.5 else size - 1 - near
            content[place] ^= 1 << rng.integers(8)
        return bytes(content)

    return make


def spliced(suffix: str) -> Maker:
    """A file with a part repeated, removed, or replaced by noise or by another format's bytes."""

    def make(rng: Generator) -> bytes:
        content = plain(suffix)
        start, stop = sorted(rng.integers(0, len(content) + 1, 2).tolist())
        other = plain(SUFFIXES[rng.integers(len(SUFFIXES))])
        part = [content[start:stop] * 2, b"", rng.bytes(stop - start), other][rng.integers(4)]
        return content[:start] + part + content[stop:]

    return make


# --- lies -------------------------------------------------------------------------------------


def npy_lie(rng: Generator) -> bytes:
    """An array whose header claims another shape, dtype or order."""
    shapes = (
        "(30, 30000000)",
        "(10000000000000000000, 3)",
        "(-30, -3)",
        "(30,)",
        "(30, 2)",
        "()",
        "(0, 3)",
        "(True, 3)",
        "(3.0, 3)",
        "[30, 3]",
        "(" + "1, " * 70 + ")",
        "(2**40, 3)",
    )
    kinds = ("'<f8'", "'<f4'", "'|O'", "'<U100000000'", "'<c16'", "'<M8[s]'", "'|V0'", "''", "7")
    order = ("False", "True", "None")
    shape = shapes[rng.integers(len(shapes))] if rng.random() < 0.7 else "(30, 3)"
    kind = kinds[rng.integers(len(kinds))] if rng.random() < 0.4 else kinds[0]
    text = f"{{'descr': {kind}, 'fortran_order': {order[rng.integers(3)]}, 'shape': {shape}, }}"
    if rng.random() < 0.1:
        text = text + " " * int(rng.integers(1, 70_000))
    if rng.random() < 0.1:
        text = "(" * int(rng.integers(1, 9000)) + text
    header = text.encode() + b"\n"
    version, form = ((1, "<H"), (2, "<I"), (3, "<I"), (9, "<I"))[rng.integers(4)]
    size = len(header) if rng.random() < 0.8 else int(rng.integers(2**16))
    start = b"\x93NUMPY" + bytes([version, 0]) + struct.pack(form, min(size, 2**16 - 1))
    return start + header + sample()["logits"].tobytes()


def npz_lie(rng: Generator) -> bytes:
    """An archive of such arrays, or one whose directory lies."""
    members = {"logits": npy_bytes(sample()["logits"]), "labels": npy_bytes(sample()["labels"])}
    if rng.random() < 0.4:
        members["logits"] = npy_lie(rng)
        return archive(members)
    content = bytearray(archive(members))
    # fields of a member's entry in the directory: flags, method, CRC, sizes, name, offset
    fields = ((8, "<H"), (10, "<H"), (16, "<I"), (20, "<I"), (24, "<I"), (28, "<H"), (42, "<I"))
    offset, form = fields[rng.integers(len(fields))]
    place = content.index(b"PK\x01\x02") + offset
    values = (0, 1, 100, 2**16 - 1, 2**31, 2**32 - 1)
    value = min(values[rng.integers(len(values))], 2**16 - 1 if form == "<H" else 2**32 - 1)
    content[place : place + struct.calcsize(form)] = struct.pack(form, value)
    return bytes(content)


def safetensors_lie(rng: Generator) -> bytes:
    """Tensors whose header claims what is not there."""
    content = plain(".safetensors")
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    entry = header["logits"]
    lies: tuple[Callable[[], Any], ...] = (
        lambda: entry.update(shape=[2**40, 2**40]),
        lambda: entry.update(shape=[ROWS, -CLASSES]),
        lambda: entry.update(shape=[10**9, 0]),
        lambda: entry.update(shape=[ROWS, CLASSES + 1]),
        lambda: entry.update(shape="all"),
        lambda: entry.update(data_offsets=[0, 2**62]),
        lambda: entry.update(data_offsets=[720, 0]),
        lambda: entry.update(data_offsets=[-8, 712]),
        lambda: entry.update(dtype="F128"),
        lambda: entry.update(dtype=("BF16", "F16", "I64", "BOOL", "F8_E4M3")[rng.integers(5)]),
        lambda: header.update({"x" * 50: entry}),
        lambda: header.update(__metadata__={"a": 1}),
        lambda: header.pop("labels"),
    )
    lies[rng.integers(len(lies))]()
    text = json.dumps(header).encode()
    if rng.random() < 0.1:
        text = b"[" * 100_000
    claimed = len(text) if rng.random() < 0.8 else int(rng.integers(2**63))
    return struct.pack("<Q", claimed) + text + data


def parquet_lie(rng: Generator) -> bytes:
    """A table whose footer, which holds all claims, has other bytes or another length."""
    content = bytearray(plain(".parquet"))
    size = int.from_bytes(content[-8:-4], "little")
    if rng.random() < 0.2:
        content[-8:-4] = struct.pack("<I", int(rng.integers(2**32)))
        return bytes(content)
    for _ in range(rng.integers(1, 4)):
        content[len(content) - 8 - int(rng.integers(1, size))] = int(rng.integers(256))
    return bytes(content)


def torch_lie(rng: Generator) -> bytes:
    """Tensors whose pickle has other bytes, with every checksum right; or files of old versions."""
    if rng.random() < 0.3:
        file = io.BytesIO()
        tensors = {name: torch.from_numpy(array) for name, array in sample().items()}
        torch.save(tensors, file, _use_new_zipfile_serialization=False)
        content = bytearray(file.getvalue())
        for _ in range(rng.integers(0, 4)):
            content[rng.integers(len(content))] = int(rng.integers(256))
        return bytes(content)
    with zipfile.ZipFile(io.BytesIO(plain(".pt"))) as zipped:
        members = {name: zipped.read(name) for name in zipped.namelist()}
    changed = [name for name in members if name.endswith("data.pkl") or rng.random() < 0.1]
    for name in changed:
        content = bytearray(members[name])
        for _ in range(rng.integers(1, 4)):
            content[rng.integers(len(content))] = int(rng.integers(256))
        members[name] = bytes(content)
    return archive(members, zipfile.ZIP_STORED, end="")


def csv_lie(rng: Generator) -> bytes:
    """A table of text with cells, lines and bytes that do not belong there."""
    lines = table_text(sample()).encode().split(b"\n")
    cells = (
        b"1e999",
        b"nan",
        b"-inf",
        b"0x10",
        b"1_0",
        b"\xd9\xa1",
        b"\x00",
        b"\xff\xfe",
        b'"1',
        b'"1"2"',
        b"=cmd()",
        b"9" * 5000,
        b"1" * 200_000,
        b"\x1b[31m",
        b"",
        b"1,2",
        b"\r1",
        b"1;2",
        b"\xe2\x80\xa8",
    )
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(lines)))
        parts = lines[at].split(b",")
        parts[rng.integers(len(parts))] = cells[rng.integers(len(cells))]
        lines[at] = b",".join(parts)
    end = (b"\n", b"\r\n", b"\r", b"\n\n")[rng.integers(4)]
    return end.join(lines)


# --- bombs ------------------------------------------------------------------------------------


@cache
def _bomb(suffix: str, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """60 MB of zeros in a few kilobytes; less where the way of compression alone is refused."""
    rows = 7500 if compression == zipfile.ZIP_DEFLATED else 100
    if suffix == ".npz":
        labels = npy_bytes(np.zeros(rows, np.int64))
        return archive({"logits": npy_bytes(np.zeros((rows, 1000))), "labels": labels}, compression)
    if suffix == ".parquet":
        file = io.BytesIO()
        column = pyarrow.array(np.zeros(2_000_000))
        names = [f"logits_{i}" for i in range(CLASSES)] + ["labels"]
        pyarrow.parquet.write_table(pyarrow.table(dict.fromkeys(names, column)), file)
        return file.getvalue()
    file = io.BytesIO()
    torch.save({"logits": torch.zeros(rows, 1000, dtype=torch.float64)}, file)
    with zipfile.ZipFile(file) as zipped:
        return archive({name: zipped.read(name) for name in zipped.namelist()}, end="")


def npz_bomb(rng: Generator) -> bytes:
    """An archive that expands, compressed in one of four ways; its directory may not say so."""
    ways = (zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    content = bytearray(_bomb(".npz", ways[rng.integers(4)]))
    if rng.random() < 0.4:
        place = content.index(b"PK\x01\x02") + 24
        content[place : place + 4] = struct.pack("<I", int(rng.integers(2**27)))
    return bytes(content)


def parquet_bomb(rng: Generator) -> bytes:
    """A table of one number, millions of times."""
    return _bomb(".parquet")


def torch_bomb(rng: Generator) -> bytes:
    """Compressed tensors, or one number that strides of 0 make a tensor of any size."""
    if rng.random() < 0.5:
        return _bomb(".pt")
    file = io.BytesIO()
    rows = int(10 ** rng.uniform(5, 15))
    wide = torch.zeros(1).expand(rows, 1000)
    torch.save({"logits": wide, "labels": torch.zeros(1, dtype=torch.int64).expand(rows)}, file)
    return file.getvalue()


# --- pickles, doubles, names, kinds of number -------------------------------------------------


sprung: list[str] = []  # by whom a pickle was loaded


class Trap:
    """Tells when it is unpickled."""

    def __reduce__(self) -> Any:
        return spring, ()


def spring() -> None:
    """What a loaded pickle calls."""
    sprung.append("a pickle was loaded")


def pickled(suffix: str) -> Maker:
    """Python objects where arrays should be."""

    def make(rng: Generator) -> bytes:
        if suffix == ".pt":
            file = io.BytesIO()
            content: Any = {"logits": Trap(), "labels": torch.zeros(3)}
            if rng.random() < 0.3:
                return pickle.dumps(content)
            torch.save(content if rng.random() < 0.5 else Trap(), file)
            return file.getvalue()
        objects = npy_bytes(np.array([Trap()] * ROWS, dtype=object), pickled=True)
        if suffix == ".npy":
            return objects
        return archive({"logits": objects, "labels": npy_bytes(sample()["labels"])})

    return make


def doubled(suffix: str) -> Maker:
    """The same name twice."""

    def make(rng: Generator) -> bytes:
        if suffix == ".npz":
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as zipped:
                entries = [("logits.npy", "logits"), ("labels.npy", "labels")]
                entries.append((("logits.npy", "logits", "labels")[rng.integers(3)], "labels"))
                for name, array in entries:
                    info = zipfile.ZipInfo(name)
                    if name in zipped.NameToInfo:  # zipfile itself warns of it
                        del zipped.NameToInfo[name]
                    zipped.writestr(info, npy_bytes(sample()[array]))
            return file.getvalue()
        if suffix == ".csv":
            header, rest = table_text(sample()).split("\n", 1)
            names = header.split(",")
            names[rng.integers(4)] = names[rng.integers(4)]
            return (",".join(names) + "\n" + rest).encode()
        if suffix == ".parquet":
            file = io.BytesIO()
            column = pyarrow.array(np.zeros(ROWS))
            names = ["logits_0", "logits_1", "logits_1", "labels"]
            pyarrow.parquet.write_table(pyarrow.Table.from_arrays([column] * 4, names), file)
            return file.getvalue()
        content = plain(".safetensors")
        size = int.from_bytes(content[:8], "little")
        text, data = content[8 : 8 + size].rstrip(), content[8 + size :]
        text = text[:-1] + b"," + text[1:]
        return struct.pack("<Q", len(text)) + text + data

    return make


def named(suffix: str) -> Maker:
    """Names that try to steer a terminal, in place of those that are looked for or beside them."""

    def make(rng: Generator) -> bytes:
        arrays = sample()
        name = NAMES[rng.integers(len(NAMES))]
        if suffix in (".parquet", ".safetensors", ".npz", ".pt"):
            name = name.encode("utf-8", "replace").decode()  # they can hold no half of a pair
        if rng.random() < 0.5:
            arrays = {name: arrays["logits"], "labels": arrays["labels"]}
        else:
            arrays = {"logits": arrays["logits"], name: arrays["labels"]}
        if suffix != ".csv":
            return written(suffix, arrays)
        text = table_text(sample())
        return text.replace("labels", name, 1).encode("utf-8", "surrogatepass")

    return make


def typed(suffix: str) -> Maker:
    """Numbers of other kinds, and what is no number."""
    strange = ("complex128", "bool", "U3", "S5", "M8[s]", "m8[h]", "i1", "u8", "f2", ">f8", "g")
    structured = np.dtype([("a", "f8"), ("b", "i4")])

    def make(rng: Generator) -> bytes:
        arrays = sample()
        which = ("logits", "labels")[rng.integers(2)]
        kind: Any = strange[rng.integers(len(strange))] if rng.random() < 0.9 else structured
        if suffix in (".safetensors", ".pt", ".parquet"):
            kind = ("bool", "i1", "u1", "f2", "f4", "i8")[rng.integers(6)]
        array = arrays[which]
        if np.dtype(kind).names:
            array = np.zeros(array.shape, kind)
        elif np.dtype(kind).kind in "Mm":
            array = array.astype(np.int64).astype(kind)
        else:
            array = array.astype(kind)
        return written(suffix, {**arrays, which: array})

    return make


# --- all of them ------------------------------------------------------------------------------

SUFFIXES = (".npz", ".npy", ".csv", ".parquet", ".safetensors", ".pt")

KINDS: dict[str, dict[str, Maker]] = {
    "cut": {suffix: cut(suffix) for suffix in SUFFIXES},
    "flipped bits": {suffix: flipped(suffix) for suffix in SUFFIXES},
    "spliced": {suffix: spliced(suffix) for suffix in SUFFIXES},
    "lies": {
        ".npz": npz_lie,
        ".npy": npy_lie,
        ".csv": csv_lie,
        ".parquet": parquet_lie,
        ".safetensors": safetensors_lie,
        ".pt": torch_lie,
    },
    "bombs": {".npz": npz_bomb, ".parquet": parquet_bomb, ".pt": torch_bomb},
    "pickles": {suffix: pickled(suffix) for suffix in (".npz", ".npy", ".pt")},
    "doubles": {suffix: doubled(suffix) for suffix in (".npz", ".csv", ".parquet", ".safetensors")},
    "names": {suffix: named(suffix) for suffix in SUFFIXES if suffix != ".npy"},
    "kinds of number": {suffix: typed(suffix) for suffix in SUFFIXES if suffix != ".csv"},
}
