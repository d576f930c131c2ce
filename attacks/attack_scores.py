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

import argparse
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from typer.testing import CliRunner, Result

import calibrant
import score_crafting as crafting
from calibrant import cli
from calibrant._errors import printable

MAX_SIZE = "50MB"  # the limit that commands are told: bombs are made just large enough to break it
MOST_SECONDS = 5.0
MOST_MEMORY = 200e6  # bytes
SHOWN = 5  # offenders of a kind
RUNNER = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"})


@dataclass
class Tally:
    """How the cases of one kind ended."""

    ends: Counter[str] = field(default_factory=Counter)
    offenders: list[str] = field(default_factory=list)

    def add(self, end: str, case: str) -> None:
        """Count a case."""
        known = end in ("refused", "served")
        self.ends[end if known else "misbehaved"] += 1
        if not known:
            self.offenders.append(f"{case}: {end}")


def attack(cases: int, seed: int) -> dict[str, Tally]:
    """Run the cases of these numbers."""
    tallies = {kind: Tally() for kind in crafting.KINDS}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        calibrator = folder / "ts.safetensors"
        data = crafting.sample()
        calibrant.save(calibrant.TS().fit(data["logits"], data["labels"]), calibrator)
        for number in range(seed, seed + cases):
            rng = np.random.default_rng(number)
            kinds = list(crafting.KINDS)
            kind = kinds[rng.integers(len(kinds))]
            makers = crafting.KINDS[kind]
            suffix = list(makers)[rng.integers(len(makers))]
            path = folder / f"{_file_name(rng)}{suffix}"
            path.write_bytes(makers[suffix](rng))
            end = outcome(path, _command(rng, path, calibrator))
            tallies[kind].add(end, f"--seed {number} --cases 1 ({suffix})")
            path.unlink()
    return tallies


def _file_name(rng: Generator) -> str:
    """An ordinary name, or one that tries to steer the terminal."""
    if rng.random() < 0.8:
        return "scores"
    name = crafting.NAMES[rng.integers(len(crafting.NAMES))]
    usable = "".join(c for c in name if c not in "/\0" and not "\ud800" <= c <= "\udfff")
    return usable[:100] or "scores"


def _command(rng: Generator, path: Path, calibrator: Path) -> list[str]:
    """A command that reads the file."""
    out = path.parent / "out.npz"
    reading = ["--max-size", MAX_SIZE]
    if path.suffix == ".npy":
        labels = path.parent / "labels.npz"
        np.savez(labels, labels=crafting.sample()["labels"])
        reading += ["--input", "logits"]
        beside = ["--labels", str(labels)]
    else:
        beside = []
    commands = (
        ["evaluate", str(path), "--n-resamples", "0", *beside],
        ["evaluate", str(path), str(path)] if not beside else ["evaluate", str(path), *beside],
        [
            "fit",
            str(path),
            "-o",
            str(path.parent / "out.cal.safetensors"),
            "--method",
            "ts",
            *beside,
        ],
        ["apply", str(calibrator), str(path), "-o", str(out)],
    )
    return [*commands[rng.integers(len(commands))], *reading]


def outcome(path: Path, command: list[str]) -> str:
    """How a case ends: "refused", "served", or what misbehaved."""
    started, before = time.process_time(), _reset_peak()
    result = RUNNER.invoke(cli.app, command)
    seconds, memory = time.process_time() - started, _peak() - before
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


def _reset_peak() -> float:
    """The memory of this process, whose peak is counted from here on (on Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> float:
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def table(tallies: dict[str, Tally]) -> str:
    """A line per kind, then the first offenders of each."""
    ends = ("refused", "served", "misbehaved")
    rows = [("kind", "cases", *ends)]
    for kind, tally in tallies.items():
        rows.append((kind, str(tally.ends.total()), *(str(tally.ends[end]) for end in ends)))
    lines = [f"{name:<18}" + "".join(f"{cell:>12}" for cell in cells) for name, *cells in rows]
    for kind, tally in tallies.items():
        lines += [f"{kind}: {printable(told)}" for told in tally.offenders[:SHOWN]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> Any:
    """Run the attack; 1 where something misbehaved."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    tallies = attack(options.cases, options.seed)
    print(table(tallies))
    return int(any(tally.offenders for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
