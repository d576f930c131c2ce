"""How a fit went: one report for all methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calibrant.common.json import PlainDocument
from calibrant.common.tables import Shown, Table, counted


@dataclass(frozen=True, repr=False)
class FitInfo(Shown, PlainDocument):
    """The report of a fit, the same for every method; ``print`` shows a table.

    Parameters
    ----------
    converged : bool
        Whether the optimiser reached its tolerance, as it says itself. Methods with an exact
        solution, and those with a fixed number of steps, always do.
    message : str
        How it ended, in words; where it did not converge, also what to do.
    iterations : int or None
        Steps of the optimiser; None where there are none to speak of: an exact solution, or the
        root of a function of one temperature.
    loss : str or None
        The name of the loss that was minimised.
    before, after : float or None
        The mean loss on the fitting rows of the scores as they came and of the fitted calibrator.
        None for methods that minimise no loss of their own, and for isotonic and binned ones, of
        which applying them takes as long as the fit: ``evaluate`` judges them on other rows.
    seconds : float or None
        How long the fit took; None where that is not known, as for a loaded calibrator.
    details : dict
        What only this method has to tell. Its values are plain: numbers, words, lists, dicts.

    Examples
    --------
    >>> import calibrant
    >>> ts = calibrant.TS().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
    >>> ts.fit_info_.converged, ts.fit_info_.after < ts.fit_info_.before
    (True, True)
    """

    converged: bool
    message: str
    iterations: int | None = None
    loss: str | None = None
    before: float | None = None
    after: float | None = None
    seconds: float | None = field(default=None, compare=False)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"FitInfo({', '.join(text for _, text in self._facts())})"

    def _tables(self) -> list[Table]:
        return [Table(["fit", ""], self._facts())]

    def _facts(self) -> list[tuple[str, str]]:
        """What there is to tell, in words."""
        told = self.message if self.converged else f"not converged: {self.message}"
        facts = [("ended", " ".join(told.split()))]
        if self.iterations is not None:
            facts.append(("steps", counted(self.iterations, "iteration")))
        if self.before is not None and self.after is not None:
            loss = f"{self.loss} " if self.loss else ""
            facts.append(("mean loss of its rows", f"{loss}{self.before:.5f} -> {self.after:.5f}"))
        if "pool_members" in self.details:  # of `auto`
            facts += self._choice()
        if self.seconds is not None:
            facts.append(("time", f"{1000.0 * self.seconds:.1f} ms"))
        return facts

    def _choice(self) -> list[tuple[str, str]]:
        """What was chosen, and its loss on held-out rows."""
        told, pairs = (
            self.details,
            zip(self.details["pool_members"], self.details["pool_weights"], strict=True),
        )
        loss, error = told["held_out_loss"], told["held_out_error"]
        return [
            ("chosen", ", ".join(f"{name} {weight:.2f}" for name, weight in pairs)),
            ("why", told["why"].partition(";")[0]),
            ("held-out log loss", f"{loss:.5f} +- {error:.5f}"),
            ("halves agree", f"in {told['agreement']:.0%} of random halvings of the rows"),
        ]


EXACT = "exact"
