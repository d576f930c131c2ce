"""What was attacked, how often, and how often the attack got through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Tally:
    """The cases of one attack, and those that got through with a few words each."""

    what: str
    cases: int = 0
    through: list[str] = field(default_factory=list)

    def count(self, problem: str | None) -> None:
        """One more case; None where the attack failed, as it should."""
        self.cases += 1
        if problem is not None:
            self.through.append(problem)


def table(tallies: Iterable[Tally]) -> str:
    """A line per attack, and below it the first of what got through."""
    lines = [f"{'attack':<58}{'cases':>7}{'got through':>13}"]
    for tally in tallies:
        lines.append(f"{tally.what:<58}{tally.cases:>7}{len(tally.through):>13}")
        lines += [f"    {problem}" for problem in tally.through[:3]]
    return "\n".join(lines)
