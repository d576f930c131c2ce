"""How a fit went: one report for all methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FitInfo:
    """The report of a fit, the same for every method.

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


EXACT = "exact"
