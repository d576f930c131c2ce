"""Windows of time: which one a row belongs to, counted since 1970 (UTC)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from reprlib import repr as shown
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.data.checks import as_numpy

# The longest window, and the furthest that a time may be from 1970: a window then begins and ends
# between the years 1 and 9999, which are all that a datetime has.
LONGEST = timedelta(days=330_000)
DAY = timedelta(days=1)


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


def checked_jump(max_jump: timedelta | None, window: int | timedelta) -> timedelta | None:
    """Refuse what is no length of time, and any for windows of rows."""
    if max_jump is None:
        return None
    if isinstance(window, int):
        raise ValueError("max_jump goes with windows of time: this one counts rows")
    if not isinstance(max_jump, timedelta) or max_jump <= timedelta(0):
        raise ValueError(f"max_jump must be a timedelta longer than no time, got {shown(max_jump)}")
    return max_jump


def jump_of(seconds: float | None) -> timedelta | None:
    """A longest jump of so many seconds, which a file may say."""
    try:
        return None if seconds is None else timedelta(seconds=seconds)
    except OverflowError:
        return timedelta.max


# --- the time of each row ---------------------------------------------------------------------


def row_seconds(time: Any, n_rows: int) -> Floats:
    """The time of each row in seconds since 1970."""
    seconds = _seconds(time)
    if seconds.shape not in ((), (n_rows,)):
        raise ValueError(f"time must be one or one per row ({n_rows}), got shape {seconds.shape}")
    seconds = np.broadcast_to(seconds, (n_rows,))
    unknown = np.flatnonzero(np.isnan(seconds))
    if unknown.size:
        raise ValueError(f"time must be known for every row, row {unknown[0]} has none")
    far = np.flatnonzero(np.abs(seconds) > LONGEST.total_seconds())
    if far.size:
        raise ValueError(
            f"time must lie within {LONGEST.days:,} days of 1970, got {seconds[far[0]]:g} seconds "
            f"since then at row {far[0]}. Divide milliseconds by 1000"
        )
    return seconds


def _seconds(time: Any) -> Floats:
    if isinstance(time, date):
        return np.asarray(_seconds_of(time))
    values = np.asarray(time) if isinstance(time, list | tuple) else as_numpy(time)
    if values.dtype == object:
        return np.array([_seconds_of(one) for one in values.ravel()]).reshape(values.shape)
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)
    if values.dtype.kind not in "iuf":
        raise ValueError(f"time must be times or seconds since 1970, got {values.dtype}")
    return values.astype(np.float64)


def _seconds_of(time: Any) -> float:
    """One time of an array of objects: of Python, NumPy or pandas, or None where it is missing."""
    if time is None:
        return np.nan
    if isinstance(time, datetime):
        if time != time:  # pandas' NaT
            return np.nan
        if time.tzinfo is None:
            raise ValueError(f"time must have its zone, such as UTC, got {time}")
        return time.timestamp()
    if isinstance(time, date):  # which has no zone: midnight in UTC
        return datetime(time.year, time.month, time.day, tzinfo=UTC).timestamp()
    if isinstance(time, np.datetime64):
        return float(_seconds(np.asarray(time)))
    if isinstance(time, int | float | np.integer | np.floating) and type(time) is not bool:
        return float(time)
    raise ValueError(f"time must be times or seconds since 1970, got {shown(time)}")


# --- its window -------------------------------------------------------------------------------


def window_numbers(seconds: Floats, window: timedelta) -> NDArray[np.int64]:
    """The number of each row's window since 1970."""
    return np.floor(seconds / window.total_seconds()).astype(np.int64)


def check_jumps(
    numbers: NDArray[np.int64],
    seconds: Floats,
    rows: NDArray[np.intp],
    newest: int | None,
    window: timedelta,
    max_jump: timedelta | None,
) -> None:
    """Refuse times that are too far ahead of the newest window.

    Such a row would end the open window, and all rows that follow would be late. The first rows
    have no ``newest`` window: they are compared with the clock, and then with their median.
    For each row there are the number of its window, its time, and its number in the batch.
    """
    if not len(rows):
        return
    jump = max(31 * DAY, 10 * window) if max_jump is None else max_jump
    limit = min(jump // window + 1, 2**62)  # in windows; the next one is always near
    if newest is not None and numbers.max() <= newest + limit:
        return
    if newest is None:
        present = int(window_numbers(np.asarray(datetime.now(UTC).timestamp()), window))
        far = numbers > present + limit
        _refuse_jump(far, seconds, rows, f"{_length(jump)} after the present time")
        newest = int(np.sort(numbers)[(len(numbers) - 1) // 2])
        other = f"{_length(jump)} from the median of these first times"
    else:
        numbers = np.maximum(numbers, newest)  # late rows are no jump ahead
        other = f"{_length(jump)} after the newest window so far"
    low, high = _reached(numbers, newest, limit)
    far = (numbers < low) | (numbers > high)
    _refuse_jump(far, seconds, rows, f"{other}, {moment(newest, window)}")


def _reached(numbers: NDArray[np.int64], start: int, limit: int) -> tuple[int, int]:
    """The first and the last window that steps of at most ``limit`` windows lead to."""
    known = np.unique(np.append(numbers, start))
    far = np.flatnonzero(np.diff(known) > limit)
    place = np.searchsorted(known, start)
    before, after = far[far < place], far[far >= place]
    low = known[before[-1] + 1] if len(before) else known[0]
    high = known[after[0]] if len(after) else known[-1]
    return int(low), int(high)


def _refuse_jump(
    far: NDArray[np.bool_], seconds: Floats, rows: NDArray[np.intp], distance: str
) -> None:
    if far.any():
        first = np.flatnonzero(far)[0]
        time = datetime.fromtimestamp(float(seconds[first]), UTC).isoformat()
        raise ValueError(
            f"the time of row {rows[first]}, {time}, is more than {distance}. No row of this "
            "batch was counted. Correct the time; if the gap is real, set max_jump to a longer "
            "time (timedelta.max for no limit)"
        )


def _length(time: timedelta) -> str:
    return str(time).removesuffix(", 0:00:00")


def moment(number: int, window: timedelta) -> str:
    """When a window begins, in UTC."""
    return datetime.fromtimestamp(number * window.total_seconds(), UTC).isoformat()
