"""The temperatures that a calibrator gives its rows, and what they follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.calibrators import Calibrator, TemperatureScaling
from calibrant.common.arrays import to_numpy
from calibrant.common.documents import PlainDocument
from calibrant.common.tables import counted
from calibrant.common.types import Floats
from calibrant.data.checks import as_scores

FOLLOWED = ("confidence", "margin", "entropy")


@dataclass(frozen=True, repr=False)
class Temperatures(PlainDocument):
    """One temperature per row, beside what the scores themselves say of the row.

    Parameters
    ----------
    temperature : ndarray of shape (n_rows,)
        The temperature of each row.
    confidence : ndarray of shape (n_rows,)
        The largest probability of the row before calibration.
    margin : ndarray of shape (n_rows,)
        The distance of its two largest logits.
    entropy : ndarray of shape (n_rows,)
        The entropy of its probabilities before calibration, over that of equal ones: from 0 to 1.
    reference : float or None
        One temperature for all rows, to compare with: that of temperature scaling.
    method : str
        The calibrator's class.
    """

    temperature: Floats
    confidence: Floats
    margin: Floats
    entropy: Floats
    reference: float | None
    method: str

    def __repr__(self) -> str:
        low, middle, high = np.quantile(self.temperature, [0.05, 0.5, 0.95])
        rows = counted(len(self.temperature), "row")
        return f"Temperatures of {rows}: median {middle:.3g}, 90% within {low:.3g} to {high:.3g}"


def temperatures(
    calibrator: Calibrator, logits: Any, *, reference: Calibrator | float | None = None
) -> Temperatures:
    """Compute the temperature of every row.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator of the temperature family, such as ``PTS`` or ``TS``.
    logits : array of shape (n_rows, n_classes)
        Scores of the kind that it was fitted on.
    reference : Calibrator or float, optional
        A fitted ``TS``, or its temperature, to compare with.

    Returns
    -------
    Temperatures
        One temperature per row, with the row's confidence, margin and entropy.

    Raises
    ------
    ValueError
        Where the calibrator has no temperatures.

    Examples
    --------
    >>> import calibrant
    >>> ts = calibrant.TS().fit([[2.0, 0.0], [3.0, 0.0], [0.0, 4.0], [0.0, 1.0]], [0, 1, 1, 0])
    >>> shown = temperatures(ts, [[2.0, 0.0], [0.0, 1.0]])
    >>> shown.confidence.round(2).tolist()
    [0.88, 0.73]
    """
    if not hasattr(calibrator, "temperature"):
        raise ValueError(f"{type(calibrator).__name__} gives no temperatures: PTS and its kin do")
    found = to_numpy(calibrator.temperature(logits)).astype(np.float64)
    scores = to_numpy(as_scores(logits, calibrator.input_)).astype(np.float64)
    if calibrator.input_ == "probs":
        with np.errstate(divide="ignore"):
            scores = np.log(scores)
    confidence, margin, entropy = _said(scores)
    return Temperatures(
        temperature=found,
        confidence=confidence,
        margin=margin,
        entropy=entropy,
        reference=_one_temperature(reference),
        method=type(calibrator).__name__,
    )


def _said(scores: Floats) -> tuple[Floats, Floats, Floats]:
    """Confidence, margin and entropy of logits; a masked class (-inf) has no probability."""
    gaps = scores - scores.max(axis=1, keepdims=True)
    weights = np.exp(gaps)
    total = weights.sum(axis=1)
    second = np.partition(gaps, -2, axis=1)[:, -2]
    finite = np.where(np.isfinite(gaps), gaps, 0.0)
    entropy = np.log(total) - (weights * finite).sum(axis=1) / total
    return 1.0 / total, -second, entropy / np.log(scores.shape[1])


def _one_temperature(reference: Calibrator | float | None) -> float | None:
    if reference is None or isinstance(reference, int | float):
        return None if reference is None else float(reference)
    if not isinstance(reference, TemperatureScaling):
        raise ValueError(
            "reference must be a fitted TS or a number, got " + type(reference).__name__
        )
    return float(reference.temperature_)
