"""Interrupts, kills, threads and hostile places: what gets through?

    python attacks/attack_interrupts.py
    python attacks/attack_interrupts.py --rounds 3 --kills 2 --only fits threads

A table has, for every attack, the cases and how many of them got through: a model that is neither
the old nor the new one, a setting of the process that stays changed, a file that is not whole, a
process that goes on, a device that was replaced. The exit code is 1 where there is any.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cached_rows
import calibrant
import hostile_places
import interrupted_fits
import killed_programs
import shared_state
from calibrant.calibrators import REGISTRY
from tally import HEADING, Tally

Attack = Callable[[argparse.Namespace, np.random.Generator, Path], list[Tally]]


def fits(options: argparse.Namespace, rng: np.random.Generator, folder: Path) -> list[Tally]:
    """Interrupted fits of every method."""
    return interrupted_fits.attack_all(list(REGISTRY), options.rounds, rng)


def threads(options: argparse.Namespace, rng: np.random.Generator, folder: Path) -> list[Tally]:
    """Threads and processes that fit at once."""
    return [
        shared_state.attack_threads(options.thread_rounds, 8, shared_state.predictions),
        shared_state.attack_threads(options.thread_rounds, 8, shared_state.comparison),
        shared_state.attack_threads(
            max(options.thread_rounds // 10, 1), 32, shared_state.predictions
        ),
        shared_state.attack_processes(max(options.thread_rounds // 10, 1)),
    ]


def places(options: argparse.Namespace, rng: np.random.Generator, folder: Path) -> list[Tally]:
    """Outputs onto what is no file, and files that keep what they have."""
    writers = hostile_places.writers(folder)
    return [
        *hostile_places.attack_places(folder / "places", writers),
        *hostile_places.attack_files(folder / "files", writers),
    ]


def rows(options: argparse.Namespace, rng: np.random.Generator, folder: Path) -> list[Tally]:
    """Damaged rows of the reproduction."""
    return cached_rows.attack_rows(folder / "cached", options.flips, rng)


def kills(options: argparse.Namespace, rng: np.random.Generator, folder: Path) -> list[Tally]:
    """Programs that are killed, and programs that share a folder."""
    (folder / "killed").mkdir()
    (folder / "shared").mkdir()
    return [
        *killed_programs.attack_programs(folder / "killed", options.kills, rng),
        killed_programs.attack_shared_folder(folder / "shared"),
    ]


ATTACKS: dict[str, Attack] = {
    "fits": fits,
    "threads": threads,
    "places": places,
    "rows": rows,
    "kills": kills,
}


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    line = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    line.add_argument("--rounds", type=int, default=14, help="interrupts of every fit")
    line.add_argument("--thread-rounds", type=int, default=20, help="rounds of eight threads")
    line.add_argument("--kills", type=int, default=8, help="of every program with every signal")
    line.add_argument("--flips", type=int, default=6000, help="of bits of a cached row")
    line.add_argument("--seed", type=int, default=0)
    line.add_argument("--only", nargs="+", choices=[*ATTACKS], default=[*ATTACKS])
    return line.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Run the attacks, print a line for each, and say by the exit code how they ended."""
    options = parse_arguments(words)
    rng = np.random.default_rng(options.seed)
    through = 0
    print(HEADING, flush=True)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        for name in options.only:
            for tally in ATTACKS[name](options, rng, Path(folder)):
                print(tally, flush=True)
                through += len(tally.through)
    return int(through > 0)


if __name__ == "__main__":
    sys.exit(main())
