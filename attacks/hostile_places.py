"""Outputs to places where there is something already: nothing but a file is ever replaced."""

from __future__ import annotations

import os
import resource
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from typer.testing import CliRunner

import calibrant
from calibrant import cli, onnx, scorefiles
from calibrant_papers.logits import HeldOut, write_logits
from interrupted_fits import rows_for
from tally import Tally

OWNER = 12_345  # of a file that is not root's
PATIENCE = 60  # seconds until a writer counts as stuck


@dataclass(frozen=True)
class Writer:
    """A function or a command that writes a file with such an end of its name."""

    name: str
    suffix: str
    write: Callable[[Path], Any]


def command(*words: Any) -> None:
    """Run a command; its refusal, one line and exit code 2, is raised as an ``OSError``."""
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    if result.exit_code == 2 and result.stderr.count("\n") == 1:
        raise OSError(result.stderr)
    if result.exit_code:
        raise AssertionError(f"exit code {result.exit_code}: {result.stderr} {result.exception!r}")


def writers(folder: Path) -> list[Writer]:
    """Everything that writes a file with a name that a user gives."""
    logits, labels = rows_for(1)
    model = calibrant.TS().fit(logits, labels)
    probs = model.predict_proba(logits)
    held_out = HeldOut(logits, labels, logits, labels)
    profile = calibrant.TemperatureProfile.from_logits(logits, labels)
    meter = calibrant.metrics.CalibrationMeter().update(probs, labels)
    saved, graph, scores = folder / "ts.safetensors", folder / "net.onnx", folder / "val.npz"
    calibrant.save(model, saved)
    onnx.export(model, graph)
    np.savez(scores, logits=logits, labels=labels)
    return [
        *(
            Writer(f"save of a {type(thing).__name__}", ".safetensors", _saving(thing))
            for thing in (model, profile, meter)
        ),
        *(
            Writer(
                f"write_probs {suffix}", suffix, lambda path: scorefiles.write_probs(path, probs)
            )
            for suffix in (".npz", ".npy", ".csv", ".parquet", ".pt", ".safetensors")
        ),
        Writer("onnx.export", ".onnx", lambda path: onnx.export(model, path)),
        Writer("onnx.attach", ".onnx", lambda path: onnx.attach(graph, model, path, "logits")),
        Writer("write_logits", ".npz", lambda path: write_logits(path, held_out, {})),
        Writer(
            "calibrant fit",
            ".safetensors",
            lambda path: command("fit", scores, "-o", path, "--method", "ts"),
        ),
        Writer("calibrant apply", ".csv", lambda path: command("apply", saved, scores, "-o", path)),
        Writer("calibrant export", ".onnx", lambda path: command("export", saved, "-o", path)),
        Writer(
            "calibrant attach",
            ".onnx",
            lambda path: command("attach", graph, saved, "-o", path, "--logits-output", "logits"),
        ),
    ]


def _saving(thing: Any) -> Callable[[Path], None]:
    return lambda path: calibrant.save(thing, path)


# --- what is in the way -----------------------------------------------------------------------


def a_folder(path: Path) -> None:
    """A folder with something in it."""
    path.mkdir()
    (path / "kept").touch()


def a_device(path: Path) -> None:
    """A device of our own that is like /dev/null; only root can make one."""
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


def a_socket(path: Path) -> None:
    """A socket that was bound to a name."""
    short = Path(os.path.relpath(path))  # names of sockets may be no longer than 107 bytes
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(min(short, path, key=lambda p: len(str(p)))))


def a_link_to_a_fifo(path: Path) -> None:
    """A FIFO under another name."""
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to("fifo")


IN_THE_WAY: dict[str, Callable[[Path], None]] = {
    "a folder": a_folder,
    "a device": a_device,
    "a FIFO": os.mkfifo,
    "a socket": a_socket,
    "a link to a FIFO": a_link_to_a_fifo,
}


@contextmanager
def time_limit() -> Iterator[None]:
    """An error where a writer waits for a reader of a FIFO."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"no end in {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attack_places(folder: Path, chosen: list[Writer]) -> list[Tally]:
    """Everything that may be in the way of every writer."""
    refused = Tally("outputs onto folders, devices, FIFOs, sockets, links to them")
    for writer in chosen:
        for kind, make in IN_THE_WAY.items():
            path = _clean(folder) / f"out{writer.suffix}"
            try:
                make(path)
            except PermissionError:
                continue  # not root
            problem = _refusal(writer, path)
            refused.count(problem and f"{writer.name} onto {kind}: {problem}")
    return [refused]


def _clean(folder: Path) -> Path:
    """A new folder."""
    folder.mkdir(exist_ok=True)
    place = folder / f"case{len(list(folder.iterdir()))}"
    place.mkdir()
    return place


def _refusal(writer: Writer, path: Path) -> str | None:
    """What is wrong with the way that a writer refuses a place."""
    before, names = os.lstat(path), sorted(os.listdir(path.parent))
    try:
        with time_limit():
            writer.write(path)
    except OSError as error:
        if path.name not in str(error):
            return f"an error that does not name the file: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    else:
        return "written"
    after = os.lstat(path)
    if (after.st_ino, after.st_mode) != (before.st_ino, before.st_mode):
        return "replaced"
    return None if sorted(os.listdir(path.parent)) == names else "something else is left there"


def attack_files(folder: Path, chosen: list[Writer]) -> list[Tally]:
    """Files and links: mode, owner and links are kept; a full disk leaves what there was."""
    kept, full = Tally("mode, owner and links kept"), Tally("a full disk: named, nothing left")
    for writer in chosen:
        for case in (_keeps_mode_and_owner, _writes_through_a_link, _writes_through_a_loose_link):
            problem = case(writer, _clean(folder) / f"out{writer.suffix}")
            kept.count(problem and f"{writer.name}: {problem}")
        problem = _full_disk(writer, _clean(folder) / f"out{writer.suffix}")
        full.count(problem and f"{writer.name}: {problem}")
    return [kept, full]


def _keeps_mode_and_owner(writer: Writer, path: Path) -> str | None:
    path.write_bytes(b"old")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, OWNER, OWNER)
    before = path.stat()
    writer.write(path)
    now = path.stat()
    if path.read_bytes() == b"old":
        return "not written"
    same = all(
        getattr(now, part) == getattr(before, part) for part in ("st_mode", "st_uid", "st_gid")
    )
    return None if same else f"mode {now.st_mode:o} of {now.st_uid}, not {before.st_mode:o}"


def _writes_through_a_link(writer: Writer, path: Path) -> str | None:
    target = path.with_name(f"target{writer.suffix}")
    target.write_bytes(b"old")
    path.symlink_to(target.name)
    writer.write(path)
    if not path.is_symlink():
        return "a link was replaced"
    return None if target.read_bytes() != b"old" else "what the link points to was not written"


def _writes_through_a_loose_link(writer: Writer, path: Path) -> str | None:
    target = path.with_name(f"target{writer.suffix}")
    path.symlink_to(target.name)
    writer.write(path)
    return None if path.is_symlink() and target.is_file() else "a loose link was replaced"


def _full_disk(writer: Writer, path: Path) -> str | None:
    path.write_bytes(b"old")
    names = sorted(os.listdir(path.parent))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        writer.write(path)
    except OSError as error:
        problem = None if path.name in str(error) else f"does not name the file: {error}"
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    else:
        problem = "wrote more than there was room for"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    if path.read_bytes() != b"old" or sorted(os.listdir(path.parent)) != names:
        return "the old file is gone, or something is left"
    return problem
