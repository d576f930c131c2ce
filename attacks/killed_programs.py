"""Programs that are killed at random moments: an output is the old one or the new one, whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import calibrant
from interrupted_fits import rows_for
from tally import Tally

SOURCE = Path(calibrant.__file__).parents[1]
MAIN = "from calibrant.cli import main; main()"
POLITE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # after these nothing is left behind
SIGNALS = (*POLITE, signal.SIGKILL)
PROMPT = 5.0  # seconds from a signal to the end of all processes


@dataclass(frozen=True)
class Program:
    """A command that writes a file, and how to tell that the file is whole."""

    words: tuple[str, ...]
    output: str
    is_whole: Callable[[Path], bool]

    def start(self, folder: Path) -> subprocess.Popen[str]:
        """Run it in a session of its own, whose processes can be found later."""
        return subprocess.Popen(
            [sys.executable, "-c", MAIN, *self.words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def alive(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(folder.name))
    return found


def kill_at(program: Program, folder: Path, number: int, seconds: float, group: bool) -> str | None:
    """Run a program, send a signal after so much time, and say what is wrong then."""
    output = folder / program.output
    before = output.read_bytes() if output.exists() else None
    process = program.start(folder)
    time.sleep(seconds)
    (os.killpg if group else os.kill)(process.pid, number)
    sent = time.monotonic()
    try:
        process.wait(30.0)
        while alive(process.pid) and time.monotonic() - sent < 30.0:
            time.sleep(0.02)
        took, orphans = time.monotonic() - sent, alive(process.pid)
    finally:
        for one in alive(process.pid):  # of this session alone, which is ours
            os.kill(one, signal.SIGKILL)
        process.communicate()
    name = signal.Signals(number).name
    told = f"{program.words[0]} after {seconds:.2f} s, {name}{' to the group' if group else ''}"
    if orphans:
        return f"{told}: {len(orphans)} processes go on"
    if took > PROMPT:
        return f"{told}: ended after {took:.1f} s"
    after = output.read_bytes() if output.exists() else None
    if after != before and not (after is not None and program.is_whole(output)):
        return f"{told}: {program.output} is not whole"
    litter = [file.name for file in folder.rglob("*.tmp")]
    for file in folder.rglob("*.tmp"):
        file.unlink()
    return f"{told}: left {litter}" if litter and number in POLITE else None


def prepare(folder: Path) -> list[Program]:
    """Files to work on, and the commands that do."""
    logits, labels = rows_for(1)
    np.savez(folder / "val.npz", logits=logits, labels=labels)
    test, target = rows_for(2)
    np.savez(folder / "test.npz", logits=test, labels=target)
    rng = np.random.default_rng(0)
    np.savez(folder / "many.npz", logits=rng.normal(size=(40_000, 4)))
    calibrant.save(calibrant.TS().fit(logits, labels), folder / "ts.safetensors")
    calibrant.save(calibrant.TS().fit(logits, labels), folder / "out.safetensors")
    (folder / "out.csv").write_text("an old file\n")
    mine = ("--add", "mine", "val.npz", "test.npz", "--sets", "mine", "--workers", "2")
    return [
        Program(("fit", "val.npz", "-o", "out.safetensors"), "out.safetensors", _loads),
        Program(
            ("apply", "ts.safetensors", "many.npz", "-o", "out.csv"),
            "out.csv",
            lambda path: path.read_text().count("\n") == 40_001,
        ),
        Program(
            ("reproduce", *mine, "--quick", "--out", "page"),
            "page/index.html",
            lambda path: path.read_text().rstrip().endswith("</html>"),
        ),
    ]


def _loads(path: Path) -> bool:
    try:
        calibrant.load(path)
    except (ValueError, OSError):
        return False
    return True


def attack_programs(folder: Path, rounds: int, rng: np.random.Generator) -> list[Tally]:
    """Kill each command so often with each signal, at moments over all of its running time."""
    tallies = []
    for program in prepare(folder):
        tally = Tally(f"kills of `calibrant {program.words[0]}`: INT, TERM, HUP, KILL")
        started = time.monotonic()
        process = program.start(folder)
        process.communicate()
        whole = time.monotonic() - started
        for _ in range(rounds):
            for number in SIGNALS:
                moment = whole * rng.uniform(0.1, 1.0)
                _forget_rows(folder)
                tally.count(kill_at(program, folder, number, moment, bool(rng.integers(2))))
        tallies.append(tally)
    return tallies


def _forget_rows(folder: Path) -> None:
    """Half of the cached rows, so that there is something to compute."""
    for file in sorted((folder / "page" / "rows").glob("*.json"))[::2]:
        file.unlink()


def attack_shared_folder(folder: Path) -> Tally:
    """Two reproductions in one folder at once: both end well, with the rows of one alone."""
    tally = Tally("two `calibrant reproduce` in one folder: exit codes, rows")
    program = prepare(folder)[2]
    both = [program.start(folder) for _ in range(2)]
    errors = [process.communicate()[1] for process in both]
    for process, error in zip(both, errors, strict=True):
        tally.count(
            f"exit code {process.returncode}: {error[-200:]}" if process.returncode else None
        )
    shared = _rows_of(folder)
    for file in (folder / "page" / "rows").iterdir():
        file.unlink()
    program.start(folder).communicate()
    tally.count(None if _rows_of(folder) == shared else "other rows than one run alone gives")
    return tally


def _rows_of(folder: Path) -> list[str]:
    """The rows without the time that their fits took."""
    lines = (folder / "page" / "rows.csv").read_text().splitlines()
    return [line.rpartition(",")[0] for line in lines]
