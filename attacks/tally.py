"""What was attacked, how often, and how often the attack got through."""

from __future__ import annotations

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

    def __str__(self) -> str:
        first = [f"    {problem}" for problem in self.through[:3]]
        return "\n".join([f"{self.what:<62}{self.cases:>7}{len(self.through):>13}", *first])


HEADING = f"{'attack':<62}{'cases':>7}{'got through':>13}"
