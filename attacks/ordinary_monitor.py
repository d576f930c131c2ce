"""What monitors and meters count where a batch is bad, a callback fails, or threads share them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from calibrant import CalibrationMonitor
from calibrant.metrics import CalibrationMeter
from ordinary_measures import measure

ITEM = "monitor"
HOUR = timedelta(hours=1)
START = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


def rows(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities of four classes, and labels."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.normal(size=(n_rows, 4))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    probs = np.exp(logits)
    return probs / probs.sum(axis=1, keepdims=True), labels


def counted(monitor: CalibrationMonitor) -> int:
    """The rows of all windows, the open one included."""
    monitor.close()
    return sum(window.n_rows for window in monitor.windows)


def bad_batch() -> tuple[CalibrationMonitor, str]:
    """A monitor of windows of 100 rows after a batch of 250 whose row 220 is bad; the error."""
    probs, labels = rows(250)
    probs[220] = 0.9
    monitor = CalibrationMonitor(100)
    try:
        monitor.update(probs, labels)
    except ValueError as error:
        return monitor, str(error)
    return monitor, ""


@measure(ITEM, "rows kept of a refused batch, row 220 of 250 bad", "0", lambda value: value == 0)
def rows_of_a_refused_batch() -> float:
    """A batch with an error must leave nothing behind."""
    return counted(bad_batch()[0])


@measure(
    ITEM,
    "the row that the error names, row 220 of 250 bad",
    "row 220",
    lambda value: "row 220" in value,
)
def row_in_the_error() -> str:
    """Rows are numbered as in the batch."""
    message = bad_batch()[1]
    return message[max(0, message.find("row ")) :]


@measure(
    ITEM,
    "rows dropped as late when a bad batch of 300 is repaired and sent again",
    "0",
    lambda value: value == 0,
)
def late_after_a_repair() -> float:
    """The windows of a refused batch must not have ended."""
    probs, labels = rows(300)
    times = START + 60.0 * np.arange(300)
    bad = probs.copy()
    bad[290] = 0.9
    monitor = CalibrationMonitor(HOUR)
    with suppress(ValueError):
        monitor.update(bad, labels, time=times)
    monitor.update(probs, labels, time=times)
    return monitor.late_rows


@measure(ITEM, "rows counted of 250 where on_window raises", "250", lambda value: value == 250)
def rows_where_a_callback_raises() -> float:
    """An error of the callback must cost no rows."""

    def page(window: Any) -> None:
        raise ConnectionError

    monitor = CalibrationMonitor(100, on_window=page)
    with suppress(ConnectionError):
        monitor.update(*rows(250))
    monitor.on_window = None
    return counted(monitor)


@measure(
    ITEM,
    "rows counted of 300 sent after one time ten times too large",
    "300",
    lambda value: value == 300,
)
def rows_after_a_wild_time() -> float:
    """The wild row must not end the windows of later rows."""
    probs, labels = rows(400)
    monitor = CalibrationMonitor(HOUR)
    monitor.update(probs[:99], labels[:99], time=START)
    with suppress(ValueError):
        monitor.update(probs[99:100], labels[99:100], time=10 * START)
    for first in range(100, 400, 100):
        part = slice(first, first + 100)
        monitor.update(probs[part], labels[part], time=START + 36.0 * first)
    return counted(monitor) - 99


@measure(
    ITEM,
    "rows counted of 300 sent after a first time ten times too large",
    "300",
    lambda value: value == 300,
)
def rows_after_a_wild_first_time() -> float:
    """There is no earlier row to compare it with."""
    probs, labels = rows(301)
    monitor = CalibrationMonitor(HOUR)
    with suppress(ValueError):
        monitor.update(probs[:1], labels[:1], time=10 * START)
    wild = len(monitor.windows) + (monitor.close() is not None)
    monitor.update(probs[1:], labels[1:], time=START)
    return counted(monitor) - wild


@measure(
    ITEM,
    "the window of rows with a datetime.date",
    "2026-03-01T00:00:00+00:00",
    lambda value: value == "2026-03-01T00:00:00+00:00",
)
def window_of_a_date() -> str:
    """A date is midnight in UTC."""
    monitor = CalibrationMonitor(timedelta(days=1))
    monitor.update(*rows(10), time=date(2026, 3, 1))
    window = monitor.close()
    return "none" if window is None else str(window.start)


def on_threads(update: Callable[[np.ndarray, np.ndarray], Any], n_rows: int) -> None:
    """Rows in batches of 10, on 16 threads that begin together."""
    probs, labels = rows(n_rows)
    start = threading.Barrier(16)

    def work(number: int) -> None:
        start.wait()
        for first in range(10 * number, n_rows, 160):
            update(probs[first : first + 10], labels[first : first + 10])

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))


@measure(
    ITEM,
    "rows counted of 24,000 by a monitor that 16 threads share",
    "24000",
    lambda value: value == 24_000,
    slow=True,
)
def rows_of_a_shared_monitor() -> float:
    """Every batch of every thread must be counted."""
    monitor = CalibrationMonitor(1000)
    on_threads(monitor.update, 24_000)
    return counted(monitor)


@measure(
    ITEM,
    "rows counted of 48,000 by a meter that 16 threads share",
    "48000",
    lambda value: value == 48_000,
    slow=True,
)
def rows_of_a_shared_meter() -> float:
    """Every batch of every thread must be counted."""
    meter = CalibrationMeter()
    on_threads(meter.update, 48_000)
    return meter.compute().n_rows
