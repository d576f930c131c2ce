"""What commands write: places are checked before the work, and signals leave nothing behind."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import onnx
from cli_support import SOURCE, program, python, refuse, run, sample, succeed

NO_WORK = ("calibrant.data.scorefiles.read_scores", "calibrant.io.load_calibrator")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with val.npz, ts.safetensors and net.onnx."""
    monkeypatch.chdir(tmp_path)
    logits, labels = sample(200, 4)
    np.savez("val.npz", logits=logits, labels=labels)
    model = calibrant.TS().fit(logits, labels)
    calibrant.save(model, "ts.safetensors")
    onnx.export(model, "net.onnx")
    return tmp_path


COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "fit": (("fit", "val.npz", "--method", "ts"), ".safetensors"),
    "apply": (("apply", "ts.safetensors", "val.npz"), ".csv"),
    "plot": (("plot", "val.npz"), ".svg"),
    "export": (("export", "ts.safetensors"), ".onnx"),
    "attach": (("attach", "net.onnx", "ts.safetensors", "--logits-output", "logits"), ".onnx"),
}
EVERY = pytest.mark.parametrize("name", COMMANDS)


def without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads a file has begun with the work."""
    for reader in NO_WORK:
        monkeypatch.setattr(reader, None)


@EVERY
def test_a_wrong_suffix_is_told_before_the_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    words, suffix = COMMANDS[name]
    without_work(monkeypatch)
    said = refuse(*words, "-o", "out.txt")
    assert "error: the file's name must end in " in said
    assert suffix in said
    assert said.endswith("got 'out.txt'\n")


@EVERY
def test_what_is_no_file_is_refused_before_the_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    words, suffix = COMMANDS[name]
    without_work(monkeypatch)
    (folder / f"folder{suffix}").mkdir()
    os.mkfifo(folder / f"fifo{suffix}")
    for kind, what in (("folder", "a folder"), ("fifo", "a FIFO")):
        line = f"error: {kind}{suffix}: is {what}, and only a file is replaced\n"
        assert refuse(*words, "-o", f"{kind}{suffix}") == line
    assert "File name too long" in refuse(*words, "-o", 300 * "x" + suffix)
    assert "there is no folder nowhere" in refuse(*words, "-o", f"nowhere/out{suffix}")


@EVERY
def test_files_keep_their_mode_and_links_stay(folder: Path, name: str) -> None:
    words, suffix = COMMANDS[name]
    target, link = folder / f"target{suffix}", folder / f"link{suffix}"
    target.touch()
    target.chmod(0o640)
    link.symlink_to(target.name)
    succeed(*words, "-o", link)
    assert link.is_symlink()
    assert target.stat().st_size > 0
    assert target.stat().st_mode & 0o777 == 0o640


@EVERY
def test_a_full_disk_is_told_with_the_file(folder: Path, name: str) -> None:
    words, suffix = COMMANDS[name]
    before = sorted(os.listdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        line = refuse(*words, "-o", f"out{suffix}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert line == f"error: out{suffix}: File too large\n"
    assert sorted(os.listdir()) == before


def test_a_full_disk_behind_standard_output(folder: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "w") as full:
        done = program("--help", stdout=full)  # printed before any command runs
    line = "error: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, line)


# --- signals ----------------------------------------------------------------------------------

# A program that is in the middle of writing when it says so.
SLOW_WRITER = """
import os, sys, time
def slowly(file):
    print("writing", flush=True)
    time.sleep(60.0)
os.fsync = slowly
from calibrant.cli import main
main()
"""


def start(code: str, *words: str, **options: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
    ],
)
def test_signals_leave_the_old_file_and_no_other(folder: Path, number: int, code: int) -> None:
    before = Path("ts.safetensors").read_bytes()
    names = sorted(os.listdir())
    with start(SLOW_WRITER, "fit", "val.npz", "-o", "ts.safetensors", "--method", "ets") as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        assert len(os.listdir()) == len(names) + 1
        writer.send_signal(number)
        out, error = writer.communicate(timeout=60)
    assert (writer.returncode, out, error) == (code, "", "")
    assert Path("ts.safetensors").read_bytes() == before
    assert sorted(os.listdir()) == names


def test_a_signal_that_is_ignored_stays_ignored(folder: Path) -> None:
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN);"  # as nohup does
        "from calibrant.cli import unwind_when_asked_to_end as unwind; unwind();"
        "signal.raise_signal(signal.SIGHUP); print('still here')"
    )
    assert python(code).stdout == "still here\n"


def test_the_library_leaves_signals_alone(folder: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)
    assert run("methods").exit_code == 0
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)) == before
