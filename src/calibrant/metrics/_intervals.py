"""A value with what is known about its noise: intervals of means, of errors and from draws."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calibrant.common.types import Floats
from calibrant.data.weights import copy_squares, effective_rows, weighted_mean

DEFAULT_LEVEL = 0.95
DEFAULT_RESAMPLES = 200

Method = Literal["auto", "basic", "percentile"]


@dataclass(frozen=True, repr=False)
class Estimate:
    """A value, how sure it is, and for errors what a calibrated model would show.

    Parameters
    ----------
    value : float
        The value, as a fraction.
    low : float, optional
        The low end of the confidence interval.
    high : float, optional
        The high end of the confidence interval.
    null : float, optional
        The mean value of a calibrated model with the same predictions.
    p_value : float, optional
        How likely a calibrated model is to show such a value.
    std_error : float, optional
        The standard error of the value.
    max_error : float, optional
        How far the value can be from that of the rows, where it was computed from merged cells.
    """

    value: float
    low: float | None = None
    high: float | None = None
    null: float | None = None
    p_value: float | None = None
    std_error: float | None = None
    max_error: float | None = None

    def __repr__(self) -> str:
        known = ((part.name, getattr(self, part.name)) for part in fields(self))
        told = (f"{name}={value:.6g}" for name, value in known if value is not None)
        return f"Estimate({', '.join(told)})"


def check_level(level: float) -> None:
    """Refuse what is no confidence level."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")


def check_resamples(n_resamples: int, least: int) -> None:
    """Refuse a number of resamples below the least."""
    if n_resamples < least:
        raise ValueError(f"n_resamples must be at least {least}, got {n_resamples}")


# --- means of scores --------------------------------------------------------------------------


def mean_estimate(scores: NDArray[Any], weight: Floats, level: float) -> Estimate:
    """A mean with its normal interval; of truth values Wilson's, which is no point at 0 or 1."""
    mean = weighted_mean(scores, weight)
    if not np.isfinite(mean):
        return Estimate(mean)
    reach = float(ndtri((1.0 + level) / 2.0))
    counted = weight > 0.0
    with np.errstate(over="ignore"):  # of losses near the largest float: no interval
        squares = copy_squares(weight)[counted] @ (scores[counted] - mean) ** 2
    error = float(np.sqrt(squares) / weight.sum())
    if scores.dtype == np.bool_:
        low, high = _wilson(mean, effective_rows(weight), reach)
    else:
        low, high = mean - reach * error, mean + reach * error
        if scores[counted].min() >= 0.0:
            low = max(low, 0.0)
    return Estimate(mean, low, high, std_error=error)


def _wilson(share: float, number: float, reach: float) -> tuple[float, float]:
    """Wilson's interval of a share of so many rows."""
    square = reach**2
    centre = (share + square / (2.0 * number)) / (1.0 + square / number)
    spread = np.sqrt(share * (1.0 - share) / number + square / (4.0 * number**2))
    half = reach * float(spread) / (1.0 + square / number)
    return max(centre - half, 0.0), min(centre + half, 1.0)


# --- draws ------------------------------------------------------------------------------------


def interval(
    observed: float, drawn: Floats, level: float, method: Method = "auto"
) -> tuple[float, float]:
    """The ends of an interval from draws."""
    tail = (1.0 - level) / 2.0
    low, high = (float(end) for end in np.quantile(drawn, [tail, 1.0 - tail]))
    if method != "percentile":
        return 2.0 * observed - high, 2.0 * observed - low
    return low, high


def p_value_of(observed: float, null: Floats) -> float:
    """(1 + the draws that reach the observed value) / (1 + the draws)."""
    # Rounding must not decide between values that are equal in exact arithmetic.
    reached = int(np.count_nonzero(null >= observed - 1e-12 * abs(observed)))
    return (1 + reached) / (1 + len(null))
