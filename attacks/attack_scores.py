"""Attack the command line with hostile files of scores.

    python attacks/attack_scores.py --cases 10000

Every case is one file and one command that reads it. It ends in one of three ways: the file is
refused, with exit code 2 and one line that names it; or it is served; or something misbehaves, and
the exit code of this program is 1. Misbehaving is a trace, any other exit code, a message of more
than one line or without the file, a control character that reaches the terminal, a pickle that is
loaded, more than 5 seconds of the processor or more than 200 MB of memory.

A case is made from its own number alone: place i of a run with ``--seed S`` is the case of
``--seed S+i --cases 1``.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from numpy.random import Generator
from typer.testing import CliRunner, Result

import calibrant
import outcomes
import score_crafting as crafting
from calibrant import cli
from calibrant.common.errors import printable
from outcomes import Outcomes
from peak_memory import peak, reset_peak

MAX_SIZE = "50MB"  # the limit that commands are told: bombs are made just large enough to break it
MOST_SECONDS = 5.0
MOST_MEMORY = 200e6  # bytes
RUNNER = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"})


def attack(cases: int, seed: int = 0) -> dict[str, Outcomes]:
    """Run the cases of these numbers."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data = crafting.sample()
        fitted = calibrant.TS().fit(data["logits"], data["labels"])
        calibrant.save(fitted, folder / "ts.safetensors")
        np.savez(folder / "labels.npz", labels=data["labels"])
        kinds = {
            kind: partial(_case, folder=folder, makers=makers)
            for kind, makers in crafting.KINDS.items()
        }
        return outcomes.attack(kinds, cases, seed)


def _case(rng: Generator, folder: Path, makers: dict[str, crafting.Maker]) -> str:
    """Make a file of one of the formats, read it, and judge what happens."""
    suffix = list(makers)[rng.integers(len(makers))]
    path = folder / f"{_file_name(rng)}{suffix}"
    path.write_bytes(makers[suffix](rng))
    try:
        return outcome(path, _command(rng, path))
    finally:
        path.unlink()


def _file_name(rng: Generator) -> str:
    """An ordinary name, or one that tries to steer the terminal."""
    if rng.random() < 0.8:
        return "scores"
    name = crafting.NAMES[rng.integers(len(crafting.NAMES))]
    usable = "".join(c for c in name if c not in "/\0" and not "\ud800" <= c <= "\udfff")
    return usable[:100] or "scores"


def _command(rng: Generator, path: Path) -> list[str]:
    """A command that reads the file."""
    file, folder = str(path), path.parent
    options = ["--max-size", MAX_SIZE]
    beside = []
    if path.suffix == ".npy":
        options += ["--input", "logits"]
        beside = ["--labels", str(folder / "labels.npz")]
    commands = (
        ["evaluate", file, "--n-resamples", "0", *beside],
        ["evaluate", file, file] if not beside else ["evaluate", file, *beside],
        ["fit", file, "-o", str(folder / "out.safetensors"), "--method", "ts", *beside],
        ["apply", str(folder / "ts.safetensors"), file, "-o", str(folder / "out.npz")],
    )
    return [*commands[rng.integers(len(commands))], *options]


def outcome(path: Path, command: list[str]) -> str:
    """How a case ends: "refused", "served", or what misbehaved."""
    started, before = time.process_time(), reset_peak()
    result = RUNNER.invoke(cli.app, command)
    seconds, memory = time.process_time() - started, peak() - before
    if crafting.sprung:
        return crafting.sprung.pop()
    if seconds > MOST_SECONDS:
        return f"it took {seconds:.1f} s"
    if memory > MOST_MEMORY:
        return f"it took {memory / 1e6:.0f} MB"
    return _judged(result, path)


def _judged(result: Result, path: Path) -> str:
    """Whether what was printed, and the exit code, are as they should be."""
    printed = result.stdout + result.stderr
    if any(not (c.isprintable() or c == "\n") for c in printed):
        return f"a control character in {printed!r:.300}"
    if result.exit_code not in (0, 2):
        return f"exit code {result.exit_code}, {result.exception!r:.300}"
    errors = re.sub(r"(?m)^warning: .*\n", "", result.stderr)
    if result.exit_code == 0:
        return "served" if not errors else f"served with {errors!r:.300}"
    if not re.fullmatch(r"error: [^\n]{1,2000}\n", errors):
        return f"not one line: {errors!r:.300}"
    named = (printable(str(path)), printable(str(path).replace("\n", " ")))
    if not any(name in errors for name in named):
        return f"a message without the file: {errors!r:.300}"
    return "refused"


def main(arguments: list[str] | None = None) -> int:
    """Run the attack; 1 where something misbehaved."""
    return outcomes.run(__doc__, attack, arguments, cases=2000)


if __name__ == "__main__":
    sys.exit(main())
