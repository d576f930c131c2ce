"""Attack the files of calibrant: crafted, damaged and lying ones.

    python attacks/attack_files.py --cases 10000

Every case is one file: of a calibrator, a profile or a meter, changed in a few places with its
checksum made right again; cut, or with flipped bits; or a container that lies about itself. It
ends in one of three ways: it is refused, with a clear error that names the file; or it is served
well, by all the laws of ``file_laws``; or something misbehaves, and the exit code is 1. Misbehaving
is any other exception, a warning, a number that cannot be, an arg max that moves where it must
not, more than 5 seconds or more than 200 MB.

A case is made from its own number alone: place i of a run with ``--seed S`` is the case of
``--seed S+i --cases 1``.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
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
import pyarrow
from numpy.random import Generator

import calibrant
import file_crafting as crafting
import file_laws
from calibrant.calibrators import REGISTRY
from file_laws import MisbehaviourError, require, strictly
from file_lies import damaged, lying
from peak_memory import peak, reset_peak

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "files"
MOST_SECONDS = 5.0  # of the processor, whatever else the machine does
MOST_MEMORY = 200e6  # bytes
MOST_DATA = 16 << 30  # bytes beyond what the process has: no attack shall take the machine down
SHOWN = 5  # offenders of a kind


@dataclass
class Case:
    """A file, what was done to it, how it is read, and which ways of computing are tried."""

    content: bytes
    told: str
    sparse: int = 0
    read: Callable[[Path], Any] = calibrant.load
    torch: bool = False
    onnx: bool = False


# --- what is attacked -------------------------------------------------------------------------


def example(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Small labelled logits."""
    rng = np.random.default_rng(5)
    logits = 3.0 * rng.normal(size=(40, classes))
    return logits, (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def saved(thing: Any) -> bytes:
    """The file of a thing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.safetensors")
        calibrant.save(thing, path)
        return path.read_bytes()


@cache
def calibrators() -> tuple[bytes, ...]:
    """Files of calibrators: the golden ones, and a fresh fit of every method."""
    golden = [path.read_bytes() for path in sorted(GOLDEN.glob("*.safetensors"))]
    fresh = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        for name in REGISTRY:
            method = calibrant.calibrator(name)
            fresh.append(saved(method.fit(*example(2 if method.two_classes_only else 3))))
    return (*golden, *fresh)


@cache
def profiles() -> tuple[bytes, ...]:
    """Files of profiles, of gaps and of nodes, with masks, weights and scales."""
    (logits, labels), (wide, wide_labels) = example(3), example(70)
    masked = np.where(np.arange(3) == (labels[:, None] + 1) % 3, -np.inf, logits)
    from_logits = calibrant.TemperatureProfile.from_logits
    made = [
        from_logits(logits, labels),
        from_logits(masked, labels, sample_weight=labels + 0.5),
        from_logits(wide, wide_labels, top_k=3),
        from_logits(1e3 * wide, wide_labels, scale=256.0),
    ]
    golden = [
        (GOLDEN / "others" / f"{name}.safetensors").read_bytes() for name in ("gaps", "nodes")
    ]
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
    return (
        (GOLDEN / "others" / "meter.safetensors").read_bytes(),
        *(saved(meter) for meter in made),
    )


def _one_of(rng: Generator, *files: tuple[bytes, ...]) -> bytes:
    kind = files[rng.integers(len(files))]
    return kind[rng.integers(len(kind))]


# --- the kinds of attack ----------------------------------------------------------------------


def crafted_calibrator(rng: Generator) -> Case:
    """A calibrator, changed, with the right checksum; some go through torch and ONNX as well."""
    contents, told = crafting.crafted(rng, crafting.taken_apart(_one_of(rng, calibrators())))
    torch, onnx = bool(rng.random() < 0.1), bool(rng.random() < 0.02)
    return Case(crafting.put_together(contents), told, torch=torch, onnx=onnx)


def crafted_profile(rng: Generator) -> Case:
    """A profile, changed, with the right checksum."""
    contents, told = crafting.crafted(rng, crafting.taken_apart(_one_of(rng, profiles())))
    return Case(crafting.put_together(contents), told)


def crafted_meter(rng: Generator) -> Case:
    """A meter, changed, with the right checksum: as a file, as JSON text or as an Arrow table."""
    contents, told = crafting.crafted(rng, crafting.taken_apart(_one_of(rng, meters())))
    draw = rng.random()
    if draw < 0.2:
        return Case(crafting.meter_text(contents), f"JSON: {told}", read=_from_json)
    if draw < 0.3:
        return Case(crafting.meter_table(contents), f"Arrow: {told}", read=_from_arrow)
    return Case(crafting.put_together(contents), told)


def damage(rng: Generator) -> Case:
    """A file of any of them that is cut, or has flipped bits."""
    if rng.random() < 0.2:
        contents = crafting.taken_apart(_one_of(rng, meters()))
        return Case(*damaged(rng, crafting.meter_text(contents)), read=_from_json)
    return Case(*damaged(rng, _one_of(rng, calibrators(), profiles(), meters())))


def container(rng: Generator) -> Case:
    """A container whose header says what is not so."""
    return Case(*lying(rng, _one_of(rng, calibrators(), profiles())))


def _from_json(path: Path) -> Any:
    return calibrant.CalibrationMeter.from_json(path.read_text("utf-8", "surrogateescape"))


def _from_arrow(path: Path) -> Any:
    with pyarrow.OSFile(str(path)) as file:
        table = pyarrow.ipc.open_stream(file).read_all()
    return calibrant.CalibrationMeter.from_arrow(table)


KINDS: dict[str, Callable[[Generator], Case]] = {
    "calibrators": crafted_calibrator,
    "profiles": crafted_profile,
    "meters": crafted_meter,
    "damage": damage,
    "containers": container,
}


# --- trying -----------------------------------------------------------------------------------


def outcome(case: Case, path: Path) -> str:
    """How a case ends: "refused", "served", or what misbehaved."""
    path.write_bytes(case.content)
    if case.sparse:
        os.truncate(path, case.sparse)
    try:
        with _watched():
            return _tried(case, path)
    except MisbehaviourError as error:
        return str(error)
    except Exception as error:  # whatever it is, it was not meant to leave the library
        return f"{type(error).__name__}: {error}"
    finally:
        path.unlink()


def _tried(case: Case, path: Path) -> str:
    refusal = calibrant.FileError if case.read is calibrant.load else ValueError
    try:
        with strictly():
            thing = case.read(path)
    except refusal as error:
        message = str(error)
        if refusal is calibrant.FileError:
            require(os.fspath(path) in message, f"a message without the file: {message!r:.200}")
        require(0 < len(message) < 1000, f"a message of {len(message)} characters")
        return "refused"
    file_laws.check(thing, torch=case.torch, onnx=case.onnx)
    return "served"


@contextmanager
def _watched() -> Iterator[None]:
    """Tell of what takes too long, or too much memory."""
    started, before = time.process_time(), reset_peak()
    signal.signal(signal.SIGALRM, _stuck)
    signal.alarm(int(12 * MOST_SECONDS))
    try:
        yield
    finally:
        signal.alarm(0)
    seconds, memory = time.process_time() - started, peak() - before
    require(seconds <= MOST_SECONDS, f"it took {seconds:.1f} s")
    require(memory <= MOST_MEMORY, f"it took {memory / 1e6:.0f} MB")


def _stuck(signum: int, frame: Any) -> None:
    raise MisbehaviourError("it does not end")


@dataclass
class Tally:
    """How the cases of one kind ended."""

    kind: str
    cases: int = 0
    refused: int = 0
    served: int = 0
    offenders: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, number: int, case: Case, ended: str) -> None:
        """Count a case."""
        self.cases += 1
        self.refused += ended == "refused"
        self.served += ended == "served"
        if ended not in ("refused", "served"):
            again = f"--kinds {self.kind} --seed {number} --cases 1"
            self.offenders.append(f"{again}: {ended:.300} [{case.told:.300}]")


def attack(kind: str, cases: int, seed: int = 0) -> Tally:
    """Try so many cases of one kind."""
    tally, started = Tally(kind), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(seed, seed + cases):
            case = KINDS[kind](np.random.default_rng([list(KINDS).index(kind), number]))
            tally.add(number, case, outcome(case, Path(folder, f"case-{number}")))
    tally.seconds = time.perf_counter() - started
    return tally


def table(tallies: list[Tally]) -> str:
    """The outcomes of all kinds, and the first offenders."""
    lines = [f"{'kind':12}{'cases':>8}{'refused':>9}{'served well':>13}{'misbehaved':>12}{'s':>6}"]
    lines += [
        f"{tally.kind:12}{tally.cases:8}{tally.refused:9}{tally.served:13}"
        f"{len(tally.offenders):12}{tally.seconds:6.0f}"
        for tally in tallies
    ]
    lines += [f"  {offender}" for tally in tallies for offender in tally.offenders[:SHOWN]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Attack, print the table, and return 1 where anything misbehaved."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first case")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    options = parser.parse_args(arguments)
    file_laws.warm_up()
    limit = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) + MOST_DATA
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
    tallies = [attack(kind, options.cases, options.seed) for kind in options.kinds]
    print(table(tallies))
    return int(any(tally.offenders for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
