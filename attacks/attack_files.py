"""Attack the files of calibrant: crafted, damaged and lying ones.

    python attacks/attack_files.py --cases 10000

Every case is one file: of a calibrator, a profile or a meter, changed in a few places with its
checksum made right again; cut, or with flipped bits; or a container that lies about itself. Its
outcome is one of three: ``load`` refused it with a clear error that names the file; or it was
served well (see ``file_laws``); or something misbehaved. Any of the last kind ends in exit code 1.

A case is made from its own number alone: the case of a run with ``--seed S`` at place i is that of
``--seed S+i --cases 1``.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

import calibrant
import file_crafting as crafting
from file_crafting import Contents
from file_laws import Misbehaved, check, require, strictly

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "files"
MOST_SECONDS = 5.0
MOST_MEMORY = 200e6  # bytes, for a small file
ADDRESS_SPACE = 16 << 30  # bytes beyond what is there: nobody's machine shall go down
SHOWN = 5  # offenders of a kind


@dataclass
class Case:
    """A file, what was done to it, and which ways of computing are tried on it."""

    content: bytes
    told: str
    torch: bool = False
    onnx: bool = False
    sparse: int = 0  # zeros after the content that take no room on the disk


@dataclass
class Tally:
    """How the cases of one kind ended."""

    kind: str
    cases: int = 0
    refused: int = 0
    served: int = 0
    offenders: list[str] = field(default_factory=list)
    seconds: float = 0.0


# --- what is attacked -------------------------------------------------------------------------


def example(classes: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Small labelled logits."""
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.normal(size=(40, classes))
    return logits, (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def saved(thing: Any) -> bytes:
    """The file of a thing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        calibrant.save(thing, path)
        return path.read_bytes()


@cache
def calibrators() -> tuple[bytes, ...]:
    """Files of calibrators: the golden ones, and a fresh fit of every method."""
    golden = [path.read_bytes() for path in sorted(GOLDEN.glob("*.safetensors"))]
    fresh = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        for name in calibrant.calibrators.REGISTRY:
            method = calibrant.calibrator(name)
            fresh.append(saved(method.fit(*example(2 if method.two_classes_only else 3))))
    return (*golden, *fresh)


@cache
def profiles() -> tuple[bytes, ...]:
    """Files of profiles, of gaps and of nodes."""
    logits, labels = example(3)
    wide, wide_labels = example(70)
    masked = np.where(np.arange(3) == (labels[:, None] + 1) % 3, -np.inf, logits)
    made = [
        calibrant.TemperatureProfile.from_logits(logits, labels),
        calibrant.TemperatureProfile.from_logits(masked, labels, sample_weight=labels + 0.5),
        calibrant.TemperatureProfile.from_logits(wide, wide_labels, top_k=3),
        calibrant.TemperatureProfile.from_logits(1e3 * wide, wide_labels, scale=256.0),
    ]
    golden = [path.read_bytes() for path in sorted(GOLDEN.glob("*.profile.file"))]
    return (*golden, *(saved(profile) for profile in made))


@cache
def meters() -> tuple[bytes, ...]:
    """Files of meters: with and without weights, classes and rows."""
    logits, labels = example(3)
    weight = np.random.default_rng(0).random(len(labels))
    made = [
        calibrant.CalibrationMeter(input="logits").update(logits, labels),
        calibrant.CalibrationMeter(3, "logits", classwise=False).update(logits, labels, weight),
        calibrant.CalibrationMeter(),
    ]
    return ((GOLDEN / "meter.file").read_bytes(), *(saved(meter) for meter in made))


def _one_of(rng: Generator, files: tuple[bytes, ...]) -> bytes:
    return files[rng.integers(len(files))]


@cache
def _apart(content: bytes) -> Contents:
    return crafting.taken_apart(content)


# --- the kinds of attack ----------------------------------------------------------------------


def _crafted(rng: Generator, files: tuple[bytes, ...]) -> Case:
    contents, told = crafting.crafted(rng, _apart(_one_of(rng, files)))
    return Case(crafting.put_together(contents), told)


def crafted_calibrator(rng: Generator) -> Case:
    """A calibrator, changed, with the right checksum; some through torch and ONNX as well."""
    case = _crafted(rng, calibrators())
    case.torch, case.onnx = bool(rng.random() < 0.1), bool(rng.random() < 0.02)
    return case


def crafted_profile(rng: Generator) -> Case:
    """A profile, changed, with the right checksum."""
    return _crafted(rng, profiles())


def crafted_meter(rng: Generator) -> Case:
    """A meter, changed, with the right checksum."""
    return _crafted(rng, meters())


def damaged(rng: Generator) -> Case:
    """A file of any of them that is cut, or has flipped bits, or bytes of another."""
    content = bytearray(_one_of(rng, (*calibrators(), *profiles(), *meters()[:2])))
    draw = rng.random()
    if draw < 0.25:
        length = int(rng.integers(len(content)))
        return Case(bytes(content[:length]), f"cut to {length} bytes")
    if draw < 0.3:
        content += rng.bytes(int(rng.integers(1, 9)))
        return Case(bytes(content), "bytes more")
    # the header is small, and yet where most can go wrong
    end = len(content) if draw < 0.6 else 8 + struct.unpack("<Q", content[:8])[0]
    places = rng.integers(end, size=int(rng.choice((1, 1, 2, 8))))
    for at in places:
        content[at] ^= 1 << int(rng.integers(8))
    return Case(bytes(content), f"flipped bits at {places.tolist()}")


def lying_container(rng: Generator) -> Case:
    """A container whose header says what is not so."""
    content = _one_of(rng, (*calibrators(), *profiles()))
    lie = LIES[rng.integers(len(LIES))]
    return lie(rng, content)


def _length_lie(rng: Generator, content: bytes) -> Case:
    lengths = (0, 1, 8, 100, len(content) - 8, len(content), 10**8, 2**31, 2**62, 2**63, 2**64 - 1)
    length = lengths[rng.integers(len(lengths))]
    return Case(struct.pack("<Q", length) + content[8:], f"a header of {length} bytes")


def _sparse_header(rng: Generator, content: bytes) -> Case:
    """A file that is as large as its header says, and holds next to nothing."""
    size = int(rng.choice((10**8, 2 * 10**9, 10**10)))
    start = bytes(rng.choice([b"{", b"", b"[", content[8:40]]))
    return Case(struct.pack("<Q", size) + start, f"a sparse header of {size} bytes", sparse=size)


def _entry_lie(rng: Generator, content: bytes) -> Case:
    """One entry of the header changed: offsets, shapes, types."""
    header, data = crafting.split(content)
    found = [place for place in crafting.places(header) if not place[2].startswith("__meta")]
    holder, key, path = found[rng.integers(len(found))]
    values = (0, 1, -1, 8, len(data), len(data) + 8, 2**31, 2**62, 2**64, 1.0, 1.5, True, None)
    others = ("F64", "BF16", "F8_E4M3", "f64", "", "I64", [], [0], [0, 0], {}, [2**62, 4], [-1])
    pool = (*values, *others)
    value = crafting.anything(rng) if rng.random() < 0.2 else pool[rng.integers(len(pool))]
    holder[key] = value
    return Case(_with(header, data), f"{path} = {value!r:.60}")


def _overlap(rng: Generator, content: bytes) -> Case:
    """Two arrays in the same place, with the checksum of what a trusting reader would read."""
    contents = _apart(content).copied()
    names = sorted(contents.arrays)
    if len(names) < 2:
        return _length_lie(rng, content)
    one, two = (str(name) for name in rng.choice(names, 2, replace=False))
    contents.arrays[one] = contents.arrays[two]
    header, data = crafting.split(crafting.put_together(contents))
    header[one]["data_offsets"] = header[two]["data_offsets"]
    return Case(_with(header, data), f"{one} lies where {two} does")


def _hole(rng: Generator, content: bytes) -> Case:
    """Room between arrays, or after them, that nobody owns."""
    header, data = crafting.split(content)
    begin = int(rng.integers(len(data) + 1))
    for name, entry in header.items():
        if name != "__metadata__" and entry["data_offsets"][0] >= begin:
            entry["data_offsets"] = [offset + 8 for offset in entry["data_offsets"]]
    return Case(_with(header, data[:begin] + b"\0" * 8 + data[begin:]), f"a hole at {begin}")


def _metadata_lie(rng: Generator, content: bytes) -> Case:
    """The document or its checksum in another form."""
    header, data = crafting.split(content)
    text = header["__metadata__"]["calibrant"]
    lies: tuple[Any, ...] = (
        *("", "[]", "{}", "null", "NaN", "[" * 100_000, text[:-1], text + " ", text + text),
        *('{"body": "{}", "sha256": ""}', '{"body": {}, "sha256": null}', '{"body": 1}'),
        *(None, 1, [text], {"body": text}, text.replace("sha256", "sha257")),
        text.replace('"sha256": "', '"sha256": "0'),
        text.replace('{"body"', '{"body": "{}", "body"', 1),
    )
    lie = lies[rng.integers(len(lies))]
    header["__metadata__"] = {"calibrant": lie} if rng.random() < 0.9 else lie
    return Case(_with(header, data), f"metadata {lie!r:.60}")


def _text_lie(rng: Generator, content: bytes) -> Case:
    """A header whose text is no good JSON."""
    header, data = crafting.split(content)
    text = crafting.json_text(header).encode()
    name = next(iter(header)).encode()
    lies = (
        text.replace(b":", b": NaN,", 1),
        text.replace(b"{", b"\xff{", 1),
        b"\xef\xbb\xbf" + text,
        b"  " + text,
        text[:-1] + b', "__metadata__": {}}',
        text[:-1] + b', "' + name + b'": {"dtype": "F64", "shape": [], "data_offsets": [0, 8]}}',
        text[:-1] + b', "more": ' + b"[" * 90_000 + b"]" * 90_000 + b"}",
        text[:-1] + b', "a\xc3": 1}',
        b"[" + text + b"]",
        text.replace(b"[", b"[" + b"9" * 5000 + b", ", 1),
    )
    lie = lies[rng.integers(len(lies))]
    return Case(crafting.joined(lie, data), f"header {lie[:40]!r}..")


def _document_lie(rng: Generator, content: bytes) -> Case:
    """A document that is no good JSON, its checksum right."""
    contents = _apart(content)
    text = crafting.json_text(contents.body)
    lies = (
        text.replace(": ", ": NaN, ", 1),
        text[:-1] + ', "kind": "meter"}',
        text.replace('"version"', '"kind": 3, "version"', 1),
        "[" * 200_000 + "]" * 200_000,
        text[:-1] + ', "more": ' + '{"a":' * 90_000 + "1" + "}" * 90_000 + "}",
        text[:-1] + ', "more": [' + "[]," * 400_000 + "[]]}",
        text[:-1] + ', "more": "' + "x" * 3_000_000 + '"}',
        text + "\n",
        text.replace('"', '"\ud800', 1),
        "",
        "NaN",
        '"' + text.replace('"', '\\"') + '"',
    )
    lie = lies[rng.integers(len(lies))]
    return Case(crafting.with_header(contents, lie), f"document {lie[:40]!r}..")


def _with(header: dict[str, Any], data: bytes) -> bytes:
    return crafting.joined(crafting.json_text(header).encode(), data)


LIES: tuple[Callable[[Generator, bytes], Case], ...] = (
    *(_entry_lie, _entry_lie, _entry_lie, _entry_lie, _overlap, _hole, _metadata_lie),
    *(_text_lie, _document_lie, _length_lie, _sparse_header),
)
KINDS: dict[str, Callable[[Generator], Case]] = {
    "calibrators": crafted_calibrator,
    "profiles": crafted_profile,
    "meters": crafted_meter,
    "damage": damaged,
    "containers": lying_container,
}


# --- trying -----------------------------------------------------------------------------------


def outcome(case: Case, path: Path) -> str:
    """"refused", "served", or what misbehaved."""
    path.write_bytes(case.content)
    if case.sparse:
        os.truncate(path, 8 + case.sparse)
    try:
        with _watched():
            return _tried(case, path)
    except Misbehaved as error:
        return str(error)
    except Exception as error:  # whatever it is, it was not meant to leave the library
        return f"{type(error).__name__}: {error}"


def _tried(case: Case, path: Path) -> str:
    try:
        with strictly():
            thing = calibrant.load(path)
    except calibrant.FileError as error:
        message = str(error)
        require(os.fspath(path) in message, f"a message without the file: {message!r:.200}")
        require(len(message) < 1000, f"a message of {len(message)} characters")
        return "refused"
    check(thing, torch=case.torch, onnx=case.onnx)
    return "served"


@contextmanager
def _watched() -> Iterator[None]:
    """Refuse to take too long, or too much memory."""
    started, before = time.perf_counter(), _reset_peak()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(int(6 * MOST_SECONDS))
    try:
        yield
    finally:
        signal.alarm(0)
    seconds, memory = time.perf_counter() - started, _peak() - before
    require(seconds <= MOST_SECONDS, f"it took {seconds:.1f} s")
    require(memory <= MOST_MEMORY, f"it took {memory / 1e6:.0f} MB")


def _too_long(signum: int, frame: Any) -> None:
    raise Misbehaved("it took too long")


def _reset_peak() -> float:
    """The memory of this process, whose peak begins here; elsewhere than on Linux the old one."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass
    return _peak()


def _peak() -> float:
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def attack(kind: str, cases: int, seed: int, report: Callable[[int], None] = lambda _: None) -> Tally:
    """Try so many cases of one kind."""
    tally = Tally(kind)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(seed, seed + cases):
            case = KINDS[kind](np.random.default_rng([len(kind), number]))
            ended = outcome(case, Path(folder, f"case-{number}"))
            Path(folder, f"case-{number}").unlink()
            tally.cases += 1
            if ended in ("refused", "served"):
                setattr(tally, ended, getattr(tally, ended) + 1)
            else:
                tally.offenders.append(f"--kinds {kind} --seed {number} --cases 1: {ended:.300} [{case.told:.200}]")
            report(tally.cases)
    tally.seconds = time.perf_counter() - started
    return tally


# --- telling ----------------------------------------------------------------------------------


def table(tallies: list[Tally]) -> str:
    """The outcomes of all kinds."""
    lines = [f"{'kind':12} {'cases':>7} {'refused':>8} {'served well':>12} {'misbehaved':>11} {'s':>6}"]
    for tally in tallies:
        bad = len(tally.offenders)
        lines.append(
            f"{tally.kind:12} {tally.cases:7} {tally.refused:8} {tally.served:12} {bad:11} "
            f"{tally.seconds:6.0f}"
        )
    for tally in tallies:
        lines += [f"  {offender}" for offender in tally.offenders[:SHOWN]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Attack, print the table, and return 1 where anything misbehaved."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first case")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    options = parser.parse_args(arguments)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    resource.setrlimit(resource.RLIMIT_DATA, (used + ADDRESS_SPACE, resource.RLIM_INFINITY))
    tallies = [attack(kind, options.cases, options.seed) for kind in options.kinds]
    print(table(tallies))
    return int(any(tally.offenders for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
