"""How the cases of an attack ended, kind by kind, and the program that all such attacks share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field

from numpy.random import Generator, default_rng

from calibrant.common.errors import printable

SHOWN = 5  # offenders of a kind
Case = Callable[[Generator], str]  # gives "refused", "served", or what misbehaved


@dataclass
class Outcomes:
    """The cases of one kind."""

    cases: int = 0
    refused: int = 0
    served: int = 0
    misbehaved: list[str] = field(default_factory=list)

    def add(self, number: int, end: str) -> None:
        """Count a case."""
        self.cases += 1
        self.refused += end == "refused"
        self.served += end == "served"
        if end not in ("refused", "served"):
            self.misbehaved.append(f"--seed {number} --cases 1: {printable(end):.400}")


def attack(kinds: dict[str, Case], cases: int, seed: int) -> dict[str, Outcomes]:
    """Run cases, each of which is made from its own number alone."""
    outcomes = {kind: Outcomes() for kind in kinds}
    for number in range(seed, seed + cases):
        rng = default_rng(number)
        kind = list(kinds)[rng.integers(len(kinds))]
        outcomes[kind].add(number, kinds[kind](rng))
    return outcomes


def table(outcomes: dict[str, Outcomes]) -> str:
    """A line per kind, then the first offenders of each."""
    lines = [f"{'kind':<18}{'cases':>10}{'refused':>10}{'served':>10}{'misbehaved':>12}"]
    for kind, of in outcomes.items():
        counts = f"{of.cases:>10}{of.refused:>10}{of.served:>10}{len(of.misbehaved):>12}"
        lines.append(f"{kind:<18}{counts}")
    for kind, of in outcomes.items():
        lines += [f"{kind}: {told}" for told in of.misbehaved[:SHOWN]]
    return "\n".join(lines)


def run(
    doc: str | None,
    run_cases: Callable[[int, int], dict[str, Outcomes]],
    arguments: list[str] | None,
    cases: int,
) -> int:
    """The program: run cases as asked for, print the table; 1 where something misbehaved."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    outcomes = run_cases(options.cases, options.seed)
    print(table(outcomes))
    return int(any(of.misbehaved for of in outcomes.values()))
