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


def check_lengths(window: int | timedelta, max_jump: timedelta | None) -> None:
    """Refuse a window that is neither a number of rows nor a length of time, and its jumps."""
    if isinstance(window, timedelta):
        if window <= timedelta(0):
            raise ValueError(f"window must be longer than no time, got {window}")
        if window > LONGEST:
            raise ValueError(f"window must be at most {LONGEST.days:,} days, got {window}")
    elif not isinstance(window, int | np.integer) or isinstance(window, bool) or window < 1:
        raise ValueError(
            f"window must be a number of rows from 1 on, or a timedelta, got {shown(window)}"
        )
    if max_jump is None:
        return
    if not isinstance(window, timedelta):
        raise ValueError("max_jump goes with windows of time: this one counts rows")
    if not isinstance(max_jump, timedelta) or max_jump <= timedelta(0):
        raise ValueError(f"max_jump must be a timedelta longer than no time, got {shown(max_jump)}")


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


def window_numbers(
    seconds: Floats,
    rows: NDArray[np.intp],
    newest: int | None,
    window: timedelta,
    max_jump: timedelta | None,
) -> NDArray[np.int64]:
    """The number of each row's window since 1970; times too far ahead of the newest are refused.

    Such a row would end the open window, and all rows that follow would be late. The first rows
    have no ``newest`` window: they are compared with the clock, and then with their median.
    For each row there are its time and its number in the batch.
    """
    numbers = np.floor(seconds / window.total_seconds()).astype(np.int64)
    jump = max(31 * DAY, 10 * window) if max_jump is None else max_jump
    limit = min(jump // window + 1, 2**62)  # in windows; the next one is always near
    if not len(rows) or (newest is not None and numbers.max() <= newest + limit):
        return numbers
    length = str(jump).removesuffix(", 0:00:00")
    if newest is None:
        present = int(np.floor(datetime.now(UTC).timestamp() / window.total_seconds()))
        after = f"{length} after the present time"
        _refuse_jump(numbers > present + limit, seconds, rows, after)
        start, ahead = int(np.sort(numbers)[(len(numbers) - 1) // 2]), numbers
        other = f"{length} from the median of these first times"
    else:
        start, ahead = newest, np.maximum(numbers, newest)  # late rows are no jump ahead
        other = f"{length} after the newest window so far"
    # the first and the last window that steps of at most ``limit`` windows lead to
    known = np.unique(np.append(ahead, start))
    gaps = np.flatnonzero(np.diff(known) > limit)
    place = np.searchsorted(known, start)
    low = known[max(gaps[gaps < place] + 1, default=0)]
    high = known[min(gaps[gaps >= place], default=-1)]
    far = (ahead < low) | (ahead > high)
    _refuse_jump(far, seconds, rows, f"{other}, {moment(start, window)}")
    return numbers


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


def moment(number: int, window: timedelta) -> str:
    """When a window begins, in UTC."""
    return datetime.fromtimestamp(number * window.total_seconds(), UTC).isoformat()
