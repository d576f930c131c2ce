"""Windows of time: which one a row belongs to, counted since 1970 (UTC)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from reprlib import repr as shown
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import as_numpy
from calibrant._types import Floats

# The longest window, and the furthest that a time may be from 1970: a window then begins and ends
# between the years 1 and 9999, which are all that a datetime has.
LONGEST = timedelta(days=330_000)


def checked_window(window: int | timedelta) -> int | timedelta:
    """Refuse what is neither a number of rows nor a length of time."""
    if isinstance(window, timedelta):
        if window <= timedelta(0):
            raise ValueError(f"window must be longer than no time, got {window}")
        if window > LONGEST:
            raise ValueError(f"window must be at most {LONGEST.days:,} days, got {window}")
        return window
    if not isinstance(window, int | np.integer) or isinstance(window, bool) or window < 1:
        raise ValueError(
            f"window must be a number of rows from 1 on, or a timedelta, got {shown(window)}"
        )
    return int(window)


def window_of(seconds: float) -> timedelta:
    """A window of so many seconds, which a file may say."""
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError(f"window must be at most {LONGEST.days:,} days, got {seconds} s") from None


def window_numbers(time: Any, n_rows: int, window: timedelta) -> NDArray[np.int64]:
    """The number of each row's window since 1970."""
    seconds = _seconds(time)
    if seconds.shape not in ((), (n_rows,)):
        raise ValueError(f"time must be one or one per row ({n_rows}), got shape {seconds.shape}")
    if np.any(np.isnan(seconds)):
        raise ValueError("time must be known for every row")
    if np.any(far := np.abs(seconds) > LONGEST.total_seconds()):
        raise ValueError(
            f"time must lie within {LONGEST.days:,} days of 1970, "
            f"got {seconds[far][0]:g} seconds since then"
        )
    numbers = np.floor(seconds / window.total_seconds()).astype(np.int64)
    return np.broadcast_to(numbers, (n_rows,))


def _seconds(time: Any) -> Floats:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"time must have its zone, such as UTC, got {time}")
        return np.asarray(time.timestamp())
    values = np.asarray(time) if isinstance(time, list | tuple) else as_numpy(time)
    if values.dtype == object:
        return np.array([_seconds(one) for one in values.ravel()]).reshape(values.shape)
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)
    if values.dtype.kind not in "iuf":
        raise ValueError(f"time must be times or seconds since 1970, got {values.dtype}")
    return values.astype(np.float64)


def moment(number: int, window: timedelta) -> str:
    """When a window begins, in UTC."""
    return datetime.fromtimestamp(number * window.total_seconds(), UTC).isoformat()
