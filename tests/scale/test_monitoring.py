"""Monitors: windows do not depend on how rows arrive, and false alarms are as rare as promised."""

from __future__ import annotations

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant import CalibrationMonitor, CalibrationWarning
from calibrant.metrics import CalibrationMeter

HOUR = timedelta(hours=1)
START = datetime(2026, 3, 1, tzinfo=UTC)


def rows(n_rows: int, sharper: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities, or those of logits that are so many times too large, and labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n_rows, 4)) * 1.5
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weight = np.exp(sharper * logits)
    return weight / weight.sum(axis=1, keepdims=True), labels


def watched(cuts: list[int], **settings: Any) -> CalibrationMonitor:
    probs, labels = rows(1000)
    monitor = CalibrationMonitor(window=150, **settings)
    for part in np.split(np.arange(1000), cuts):
        monitor.update(probs[part], labels[part])
    return monitor


# --- windows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [[1], [150, 300], [149, 151, 151, 900], list(range(0, 1000, 7))])
def test_windows_do_not_depend_on_how_rows_arrive(cuts: list[int]) -> None:
    whole, parts = watched([]), watched(cuts)
    assert [w.n_rows for w in whole.windows] == [150] * 6
    assert [(w.start, w.end) for w in whole.windows][:2] == [(0, 150), (150, 300)]
    for one, other in zip(whole.windows, parts.windows, strict=True):
        for name, value in one.to_dict().items():
            assert other.to_dict()[name] == pytest.approx(value, rel=1e-9), name
    last = parts.close()
    assert last is not None
    assert (last.n_rows, last.start, last.end) == (100, 900, 1000)
    assert parts.close() is None


def test_a_window_has_the_values_of_its_rows() -> None:
    probs, labels = rows(1000)
    window = watched([]).windows[2]
    part = slice(300, 450)
    assert window.ece == pytest.approx(calibrant.metrics.ece(probs[part], labels[part]))
    assert window.nll == pytest.approx(calibrant.metrics.nll(probs[part], labels[part]))
    assert window.confidence == pytest.approx(probs[part].max(axis=1).mean())
    assert f"2: 150 rows, said {window.confidence:.1%}" in repr(window)


def test_windows_of_time_begin_at_whole_hours() -> None:
    probs, labels = rows(600)
    moments = [START + timedelta(minutes=10 + i / 4) for i in range(600)]
    seconds = np.array([moment.timestamp() for moment in moments])
    stamps = np.array([np.datetime64(m.replace(tzinfo=None), "us") for m in moments])
    reports = []
    for time in (moments, seconds, stamps):
        monitor = CalibrationMonitor(HOUR)
        for part in np.array_split(np.arange(600), 11):
            monitor.update(probs[part], labels[part], time=np.asarray(time)[part])
        monitor.close()
        reports.append([window.to_dict() for window in monitor.windows])
    assert reports[0] == reports[1] == reports[2]
    first, second, third = reports[0]
    assert (first["start"], first["end"]) == (
        "2026-03-01T00:00:00+00:00",
        "2026-03-01T01:00:00+00:00",
    )
    assert [first["n_rows"], second["n_rows"], third["n_rows"]] == [200, 240, 160]


def test_rows_of_one_moment_and_empty_hours() -> None:
    probs, labels = rows(100)
    monitor = CalibrationMonitor(HOUR)
    monitor.update(probs.tolist(), labels, time=START)
    (ended,) = monitor.update(probs, labels, time=START + 5 * HOUR)
    assert ended.n_rows == 100
    assert len(monitor.windows) == 1  # hours without rows are no windows


def test_late_rows_are_left_out_counted_and_told() -> None:
    probs, labels = rows(100)
    monitor = CalibrationMonitor(HOUR)
    monitor.update(probs, labels, time=START + HOUR)
    with pytest.warns(CalibrationWarning, match="30 rows left out: their window had ended"):
        monitor.update(probs[:30], labels[:30], time=START)
    assert monitor.late_rows == 30
    window = monitor.close()
    assert window is not None
    assert window.n_rows == 100


def test_ignored_rows_are_absent() -> None:
    probs, labels = rows(1000)
    extra = np.insert(labels, np.arange(0, 1000, 3), -100)
    index = np.insert(np.arange(1000), np.arange(0, 1000, 3), 0)
    monitor = CalibrationMonitor(window=150)
    monitor.update(probs[index], extra, ignore_index=-100)
    assert [w.to_dict() for w in monitor.windows] == [w.to_dict() for w in watched([]).windows]


@pytest.mark.parametrize("restart", [1, 2, 200, 777])
def test_ignored_rows_are_absent_across_restarts(restart: int) -> None:
    """Where windows begin and end shows that the open one counts the rows it has, and no others."""
    probs, labels = rows(1000)
    labels[::3] = -100
    monitor = CalibrationMonitor(window=150)
    found = monitor.update(probs[:restart], labels[:restart], ignore_index=-100)
    monitor = CalibrationMonitor.from_json(monitor.to_json())
    found += monitor.update(probs[restart:], labels[restart:], ignore_index=-100)
    last = monitor.close()
    assert last is not None
    assert [w.n_rows for w in [*found, last]] == [150] * 4 + [66]
    assert [w.start for w in [*found, last]] == [0, 150, 300, 450, 600]
    assert last.end == 666


def test_an_hour_of_ignored_rows_is_no_window() -> None:
    probs, labels = rows(30)
    monitor = CalibrationMonitor(HOUR)
    monitor.update(probs, np.full(30, -100), time=START, ignore_index=-100)
    monitor = CalibrationMonitor.from_json(monitor.to_json())
    assert monitor.close() is None
    half = np.where(np.arange(30) < 15, -100, labels)
    monitor.update(probs, half, time=START + HOUR, ignore_index=-100)
    window = monitor.close()
    assert window is not None
    assert (window.n_rows, window.start) == (15, "2026-03-01T01:00:00+00:00")


def test_logits_are_watched_as_such() -> None:
    probs, labels = rows(300)
    monitor = CalibrationMonitor(window=300, input="logits")
    (window,) = monitor.update(np.log(probs), labels)
    assert window.ece == pytest.approx(calibrant.metrics.ece(probs, labels))


def test_windows_measured_elsewhere_are_observed() -> None:
    probs, labels = rows(1000)
    monitor = CalibrationMonitor(window=150)
    for first in range(0, 900, 150):
        halves = [slice(first, first + 60), slice(first + 60, first + 150)]
        one, other = (CalibrationMeter().update(probs[h], labels[h]) for h in halves)
        monitor.observe(one.merge(other), first, first + 150)
    for one, other in zip(monitor.windows, watched([]).windows, strict=True):
        assert one.evidence == pytest.approx(other.evidence)
        assert one.p_value == pytest.approx(other.p_value)


# --- a batch is counted whole or not at all ---------------------------------------------------


def spoiled(values: np.ndarray, row: int, value: Any) -> np.ndarray:
    """A copy with something else in one row."""
    values = values.copy()
    values[row] = value
    return values


@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize(
    ("row", "scores", "message"),
    [
        (220, [0.9, 0.9, 0.1, 0.1], "row 220 sums to 2"),
        (220, [np.nan, 0.5, 0.5, 0.0], "got nan at row 220, class 0"),
        (3, [1.5, -0.5, 0.0, 0.0], "got 1.5 at row 3, class 0"),
    ],
)
def test_a_refused_batch_changes_nothing(
    by_time: bool, row: int, scores: list[float], message: str
) -> None:
    """Rows are named by their numbers in the batch, rows to ignore among them."""
    probs, labels = rows(250)
    labels[5::10] = -100
    times = START.timestamp() + 60.0 * np.arange(250)[::-1]  # windows do not begin with row 0
    when = {"time": times} if by_time else {}
    first = {"time": START} if by_time else {}
    told: list[Any] = []
    monitor = CalibrationMonitor(HOUR if by_time else 100, on_window=told.append)
    monitor.update(probs[:7], labels[:7], ignore_index=-100, **first)
    before = monitor.to_json()
    with pytest.raises(ValueError, match=message):
        monitor.update(spoiled(probs, row, scores), labels, ignore_index=-100, **when)
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.3, got 7 at row 221"):
        monitor.update(probs, spoiled(labels, 221, 7), ignore_index=-100, **when)
    assert (monitor.to_json(), monitor.windows, told) == (before, [], [])
    monitor.update(probs, labels, ignore_index=-100, **when)
    monitor.close()
    assert sum(w.n_rows for w in monitor.windows) == 6 + 225
    assert monitor.late_rows == 0


@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_a_bad_late_row_is_refused_as_well(kind: Any) -> None:
    probs, labels = rows(20)
    scores = probs if kind == "probs" else np.log(probs)
    monitor = CalibrationMonitor(HOUR, input=kind)
    monitor.update(scores, labels, time=START + HOUR)
    before = monitor.to_json()
    for time in (START, [START + HOUR] * 10 + [START] * 10):
        with pytest.raises(ValueError, match="got nan at row 13"):
            monitor.update(spoiled(scores, 13, np.nan), labels, time=time)
    assert monitor.to_json() == before


def test_scores_of_ignored_rows_are_not_looked_at() -> None:
    probs, labels = rows(30)
    times = START.timestamp() + 600.0 * np.arange(30)
    whole, holey = CalibrationMonitor(HOUR), CalibrationMonitor(HOUR)
    whole.update(np.delete(probs, 4, axis=0), np.delete(labels, 4), time=np.delete(times, 4))
    holey.update(
        spoiled(probs, 4, np.nan),
        spoiled(labels, 4, -1),
        time=spoiled(times, 4, 1e10),
        ignore_index=-1,
    )
    assert holey.to_json() == whole.to_json()
    assert holey.windows == whole.windows


# --- on_window --------------------------------------------------------------------------------


def test_rows_and_windows_are_kept_where_on_window_raises() -> None:
    """Every window is reported once, and the first error comes out."""
    told: list[int] = []

    def page(window: Any) -> None:
        told.append(window.index)
        if window.index in (1, 2):
            raise ConnectionError(f"no pager for window {window.index}")

    probs, labels = rows(1000)
    monitor = CalibrationMonitor(150, on_window=page)
    with pytest.raises(ConnectionError, match="no pager for window 1") as caught:
        monitor.update(probs, labels)
    first, second = caught.value.__notes__
    assert "raised this for window 1. The rows of this call are counted" in first
    assert second == "on_window also raised ConnectionError('no pager for window 2')"
    assert told == [0, 1, 2, 3, 4, 5]
    assert monitor.windows == watched([]).windows
    last = monitor.close()
    assert last is not None
    assert (last.index, last.n_rows) == (6, 100)


def test_on_window_may_raise_at_every_end() -> None:
    def page(window: Any) -> None:
        raise ConnectionError

    probs, labels = rows(100)
    monitor = CalibrationMonitor(HOUR, on_window=page)
    monitor.update(probs, labels, time=START + HOUR)
    times = [START] * 10 + [START + 2 * HOUR] * 90
    with pytest.warns(CalibrationWarning, match="10 rows left out"), pytest.raises(ConnectionError):
        monitor.update(probs, labels, time=times)
    with pytest.raises(ConnectionError):
        monitor.close()
    with pytest.raises(ConnectionError):
        monitor.observe(CalibrationMeter().update(probs, labels), "a", "b")
    assert [w.n_rows for w in monitor.windows] == [100, 90, 100]
    assert monitor.close() is None


def test_on_window_sees_the_whole_batch_and_may_use_the_monitor() -> None:
    probs, labels = rows(250)
    seen: list[Any] = []

    def look(window: Any) -> None:
        with ThreadPoolExecutor(1) as pool:  # no lock is held: another thread may read and write
            text = pool.submit(monitor.to_json).result(timeout=60)
            if window.index == 0:
                pool.submit(monitor.update, probs[:60], labels[:60]).result(timeout=60)
        seen.append((window.index, len(monitor.windows), json.loads(text)["ended"]))

    monitor = CalibrationMonitor(100, on_window=look)
    monitor.update(probs, labels)
    assert seen == [(2, 3, 3), (0, 3, 2), (1, 3, 3)]
    last = monitor.close()
    assert last is not None
    assert last.n_rows == 10


# --- times ------------------------------------------------------------------------------------


def test_a_time_ten_times_too_large_is_refused() -> None:
    probs, labels = rows(300)
    times = START.timestamp() + 60.0 * np.arange(300)
    monitor = CalibrationMonitor(HOUR)
    monitor.update(probs[:100], labels[:100], time=times[:100])
    before = monitor.to_json()
    message = (
        r"the time of row 57, 2531-\S+, is more than 31 days after the newest window so far, "
        r"2026-03-01T01:00:00\+00:00\. No row of this batch was counted\. Correct the time; if the "
        r"gap is real, set max_jump to a longer time \(timedelta\.max for no limit\)"
    )
    with pytest.raises(ValueError, match=message):
        monitor.update(probs[100:], labels[100:], time=spoiled(times[100:], 57, 10 * times[157]))
    assert monitor.to_json() == before
    monitor.update(probs[100:], labels[100:], time=times[100:])
    monitor.close()
    assert sum(w.n_rows for w in monitor.windows) == 300
    assert monitor.late_rows == 0


@pytest.mark.parametrize("row", [0, 17, 99])
@pytest.mark.parametrize("factor", [0.0, 0.1, 10.0])
def test_a_wild_time_among_the_first_is_refused(row: int, factor: float) -> None:
    probs, labels = rows(100)
    times = START.timestamp() + 60.0 * np.arange(100)
    monitor = CalibrationMonitor(HOUR)
    with pytest.raises(ValueError, match=f"the time of row {row}, .* is more than 31 days "):
        monitor.update(probs, labels, time=spoiled(times, row, factor * times[row]))
    assert monitor.to_json() == CalibrationMonitor(HOUR).to_json()
    monitor.update(probs, labels, time=times)
    assert monitor.late_rows == 0


def test_a_first_row_far_ahead_of_the_clock_is_refused() -> None:
    probs, labels = rows(10)
    monitor = CalibrationMonitor(HOUR)
    ahead = datetime.now(UTC) + timedelta(days=40)
    with pytest.raises(ValueError, match=r"row 0, .* more than 31 days after the present time"):
        monitor.update(probs[:1], labels[:1], time=ahead)
    monitor.update(probs, labels, time=START)
    simulated = CalibrationMonitor(HOUR, max_jump=timedelta.max)
    simulated.update(probs, labels, time=ahead)
    for one in (monitor, simulated):
        window = one.close()
        assert window is not None
        assert window.n_rows == 10


@pytest.mark.parametrize(
    ("window", "max_jump", "near", "far"),
    [
        (HOUR, None, timedelta(days=31), timedelta(days=31, hours=2)),
        (timedelta(days=7), None, timedelta(days=70), timedelta(days=84)),
        (HOUR, timedelta(days=1), timedelta(days=1), timedelta(days=1, hours=2)),
        (HOUR, timedelta(seconds=1), HOUR, 2 * HOUR),  # the next window is never a jump
        (HOUR, timedelta.max, timedelta(days=200_000), None),
    ],
)
def test_jumps_up_to_the_longest_are_gaps(
    window: timedelta, max_jump: Any, near: timedelta, far: timedelta | None
) -> None:
    probs, labels = rows(10)
    start = datetime(2026, 2, 26, tzinfo=UTC)  # where weeks since 1970 begin
    monitor = CalibrationMonitor(window, max_jump=max_jump)
    monitor.update(probs, labels, time=start)
    monitor = CalibrationMonitor.from_json(monitor.to_json())  # which keeps max_jump
    if far is not None:
        with pytest.raises(ValueError, match="after the newest window so far"):
            monitor.update(probs, labels, time=start + far)
        monitor.max_jump = timedelta.max
        copy.deepcopy(monitor).update(probs, labels, time=start + far)
        monitor.max_jump = max_jump
    (ended,) = monitor.update(probs, labels, time=start + near)
    assert ended.n_rows == 10


def test_many_days_at_once_are_no_jump() -> None:
    """A year of rows, replayed in one batch, and another one after it."""
    probs, labels = rows(730)
    times = START.timestamp() - 86400.0 * np.arange(730)
    monitor = CalibrationMonitor(timedelta(days=1))
    assert len(monitor.update(probs[365:], labels[365:], time=times[365:])) == 364
    assert len(monitor.update(probs[:365], labels[:365], time=times[:365])) == 365


def test_dates_begin_at_midnight_in_utc() -> None:
    probs, labels = rows(4)
    days = [date(2026, 3, day) for day in (1, 2, 3, 4)]
    monitors = [CalibrationMonitor(timedelta(days=1)) for _ in range(3)]
    monitors[0].update(probs, labels, time=days)
    monitors[1].update(probs, labels, time=np.array(days, "M8[D]"))
    for row, day in enumerate(days):
        monitors[2].update(probs[row : row + 1], labels[row : row + 1], time=day)
    assert monitors[0].to_json() == monitors[1].to_json() == monitors[2].to_json()
    assert [w.start for w in monitors[0].windows] == [f"{day}T00:00:00+00:00" for day in days[:3]]


def test_times_of_many_kinds() -> None:
    probs, labels = rows(2)
    seconds = START.timestamp()
    for time in (
        pd.Series([START, START]),
        pd.to_datetime(pd.Series(["2026-03-01", "2026-03-01"])),
        np.array([START, seconds], object),
        np.array([np.datetime64("2026-03-01"), np.int64(seconds)], object),
    ):
        monitor = CalibrationMonitor(HOUR)
        monitor.update(probs, labels, time=time)
        window = monitor.close()
        assert window is not None
        assert (window.start, window.n_rows) == ("2026-03-01T00:00:00+00:00", 2)


# --- copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_go_on_by_themselves(copied: Any) -> None:
    probs, labels = rows(1000)
    monitor = CalibrationMonitor(150)
    monitor.update(probs[:400], labels[:400])
    other = copied(monitor)
    monitor.update(probs[400:], labels[400:])
    assert other.update(probs[400:], labels[400:]) == monitor.windows[2:]
    assert other.windows == monitor.windows
    assert other.to_json() == monitor.to_json()


# --- reports ----------------------------------------------------------------------------------


def test_every_window_is_told_as_it_ends_and_as_json_lines() -> None:
    told: list[Any] = []
    monitor = watched([100, 700], on_window=told.append)
    assert told == monitor.windows
    lines = monitor.to_jsonl().splitlines()
    assert [json.loads(line) for line in lines] == [w.to_dict() for w in monitor.windows]
    frame = monitor.to_frame()
    assert frame["n_rows"].tolist() == [150] * 6
    assert repr(monitor) == "CalibrationMonitor(6 windows of 150 rows, 0 alarms)"


@pytest.mark.parametrize("restart", [1, 150, 443])
def test_a_restart_changes_nothing(restart: int) -> None:
    probs, labels = rows(1000, sharper=1.4)
    whole = CalibrationMonitor(window=150, expected_run=50.0, min_error=0.01)
    whole.update(probs, labels)
    first = CalibrationMonitor(window=150, expected_run=50.0, min_error=0.01)
    first.update(probs[:restart], labels[:restart])
    told: list[Any] = []
    second = CalibrationMonitor.from_json(first.to_json(), on_window=told.append)
    second.update(probs[restart:], labels[restart:])
    found = [*first.windows, *second.windows]
    assert [w.alarm for w in found] == [w.alarm for w in whole.windows]
    for one, other in zip(found, whole.windows, strict=True):
        assert (one.index, one.start) == (other.index, other.start)
        assert one.evidence == pytest.approx(other.evidence, rel=1e-9)
    assert told == second.windows


def test_a_restart_within_an_hour() -> None:
    probs, labels = rows(100)
    first = CalibrationMonitor(HOUR)
    first.update(probs[:40], labels[:40], time=START)
    second = CalibrationMonitor.from_json(first.to_json())
    second.update(probs[40:], labels[40:], time=START + HOUR / 2)
    with pytest.warns(CalibrationWarning, match="1 row left out"):
        second.update(probs[:1], labels[:1], time=START - HOUR)
    window = second.close()
    assert window is not None
    assert (window.n_rows, window.start) == (100, "2026-03-01T00:00:00+00:00")


@pytest.mark.parametrize("window", [5, HOUR, timedelta(microseconds=1), timedelta(days=330_000)])
@pytest.mark.parametrize("expected_run", [1, 1e300, np.inf])
def test_every_state_loads_again(window: Any, expected_run: float) -> None:
    monitor = CalibrationMonitor(window, expected_run=expected_run)
    time = None if window == 5 else START
    for n_rows in (0, 3, 1):
        monitor.update(*rows(n_rows), time=time)
        text = monitor.to_json()
        assert CalibrationMonitor.from_json(text).to_json() == text
    monitor.close()
    again = CalibrationMonitor.from_json(monitor.to_json())
    assert (again.window, again.expected_run) == (window, expected_run)
    assert again.to_json() == monitor.to_json()


# --- alarms -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sharper", [0.6, 1.6])
def test_a_shift_is_found_soon_and_not_before(sharper: float) -> None:
    monitor = CalibrationMonitor(window=500)
    for window in range(20):
        monitor.update(*rows(500, 1.0, seed=window))
    assert not any(window.alarm for window in monitor.windows)
    for window in range(6):
        monitor.update(*rows(500, sharper, seed=100 + window))
    alarms = [window.index for window in monitor.windows if window.alarm]
    assert alarms
    assert alarms[0] <= 23


def test_errors_that_nobody_minds_give_no_alarm() -> None:
    probs, labels = rows(20_000, 1.1)
    sensitive = CalibrationMonitor(window=20_000)
    tolerant = CalibrationMonitor(window=20_000, min_error=0.1)
    assert sensitive.update(probs, labels)[0].alarm
    assert not tolerant.update(probs, labels)[0].alarm


def test_single_windows_are_tested_at_their_level() -> None:
    p_values = []
    for seed in range(300):
        monitor = CalibrationMonitor(window=300)
        p_values.append(monitor.update(*rows(300, seed=seed))[0].p_value)
    assert 0.01 < np.mean(np.array(p_values) < 0.05) < 0.09


@pytest.mark.slow
def test_calibrated_rows_alarm_no_sooner_than_promised() -> None:
    """The mean over 40 runs of the windows until the first alarm, cut off at 200."""
    lengths = []
    for run in range(40):
        monitor = CalibrationMonitor(window=200, expected_run=20.0)
        for window in range(200):
            (ended,) = monitor.update(*rows(200, seed=1000 * run + window))
            if ended.alarm:
                break
        lengths.append(len(monitor.windows))
    assert np.mean(lengths) >= 20.0


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 0}, "window must be a number of rows from 1 on, or a timedelta, got 0"),
        ({"window": 1.5}, "window must be a number of rows"),
        ({"window": True}, "window must be a number of rows"),
        ({"window": timedelta(0)}, "window must be longer than no time, got 0:00:00"),
        ({"window": timedelta.max}, "window must be at most 330,000 days, got 999999999 days"),
        ({"expected_run": 0.5}, "expected_run must be at least 1 window, got 0.5"),
        ({"expected_run": np.nan}, "expected_run must be at least 1 window"),
        ({"min_error": 1.0}, r"min_error must lie in \[0, 1\), got 1.0"),
        ({"input": "x"}, 'input must be "logits" or "probs"'),
        ({"max_jump": HOUR}, "max_jump goes with windows of time: this one counts rows"),
        ({"window": HOUR, "max_jump": 5}, "max_jump must be a timedelta longer than no time"),
        ({"window": HOUR, "max_jump": -HOUR}, "max_jump must be a timedelta longer than no time"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CalibrationMonitor(**settings)


def test_bad_rows() -> None:
    probs, labels = rows(10)
    by_rows, by_time = CalibrationMonitor(5), CalibrationMonitor(HOUR)
    with pytest.raises(ValueError, match="time goes with windows of time: this one counts rows"):
        by_rows.update(probs, labels, time=START)
    with pytest.raises(ValueError, match="windows of time need the time of the rows"):
        by_time.update(probs, labels)
    with pytest.raises(ValueError, match="time must have its zone, such as UTC"):
        by_time.update(probs, labels, time=START.replace(tzinfo=None))
    with pytest.raises(ValueError, match=r"one per row \(10\), got shape \(3,\)"):
        by_time.update(probs, labels, time=[0.0, 1.0, 2.0])
    seconds = np.arange(10.0)
    for unknown in (
        np.array(["NaT"] * 10, "M8[s]"),
        np.nan,
        np.array([None] * 10),
        np.array([pd.NaT] * 10),
    ):
        with pytest.raises(ValueError, match="time must be known for every row, row 0 has none"):
            by_time.update(probs, labels, time=unknown)
    with pytest.raises(ValueError, match="time must be known for every row, row 3 has none"):
        by_time.update(probs, labels, time=np.where(seconds == 3.0, np.nan, seconds))
    for odd in (True, "2026-03-01", 1j):
        with pytest.raises(ValueError, match="time must be times or seconds since 1970, got "):
            by_time.update(probs, labels, time=np.array([odd] * 10, object))
    with pytest.raises(
        ValueError, match=r"within 330,000 days of 1970, got 1\.7e\+12 seconds .* 0"
    ):
        by_time.update(probs, labels, time=np.arange(10) + 1.7e12)  # milliseconds
    with pytest.raises(ValueError, match="time must be times or seconds since 1970, got <U1"):
        by_time.update(probs, labels, time="x")
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.3"):
        by_rows.update(probs, labels + 4)
    for fewer, more in ((probs, labels[:7]), (probs[:7], labels)):
        with pytest.raises(ValueError, match=r"labels must be one per row \("):
            by_rows.update(fewer, more)
        with pytest.raises(ValueError, match=r"labels must be one per row \("):
            by_time.update(fewer, more, time=START)
    assert by_rows.close() is by_time.close() is None
    assert by_rows.update(probs[:0], labels[:0]) == []


def test_bad_meters() -> None:
    monitor = CalibrationMonitor(5)
    with pytest.raises(ValueError, match="at least one row, got an empty meter"):
        monitor.observe(CalibrationMeter(), 0, 5)
    weighted = CalibrationMeter().update(*rows(5), np.arange(1.0, 6.0))
    with pytest.raises(ValueError, match="rows without weights, got a meter of weighted ones"):
        monitor.observe(weighted, 0, 5)


def state(size: int | timedelta = 5, /, **changes: Any) -> str:
    """That of a monitor which has seen three rows, with some of its parts changed."""
    monitor = CalibrationMonitor(size)
    monitor.update(*rows(3), time=None if isinstance(size, int) else START)
    return json.dumps({**json.loads(monitor.to_json()), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the state of a monitor must be JSON: "),
        (state(evidence=np.nan), "must be JSON: NaN is no number of JSON"),
        ("[1]", r"must have window, window_seconds, .*, evidence and nothing else, got \[1\]"),
        ("{}", r"must have window, window_seconds, .*, evidence and nothing else, got \[\]"),
        (state(rows=3), "and nothing else, got "),
        (state(window="5"), "window of a monitor must be a whole number or null, got '5'"),
        (state(window=True), "window of a monitor must be a whole number or null, got True"),
        (state(window=0), "window must be a number of rows from 1 on"),
        (state(window=None), "must have either window or window_seconds"),
        (state(window_seconds=60), "must have either window or window_seconds"),
        (state(HOUR, window_seconds=-1), "window must be longer than no time"),
        (state(HOUR, window_seconds=1e300), r"at most 330,000 days, got 1e\+300 s"),
        (state(expected_run="1"), "expected_run of a monitor must be a number or null, got '1'"),
        (state(expected_run=10**400), "expected_run of a monitor must be a number or null"),
        (state(expected_run=0), "expected_run must be at least 1 window, got 0"),
        (state(min_error=None), "min_error of a monitor must be a number, got None"),
        (state(max_jump_seconds="1"), "max_jump_seconds of a monitor must be a number or null"),
        (state(max_jump_seconds=1), "max_jump goes with windows of time"),
        (state(HOUR, max_jump_seconds=0), "max_jump must be a timedelta longer than no time"),
        (state(meter={}), "meter of a monitor must be text, got {}"),
        (state(place=1.5), r"place of a monitor must be a whole number, got 1\.5"),
        (state(place=-1), "place of a monitor must be at least 0, got -1"),
        (state(HOUR, place=10**9), "place of a monitor must be a time near 1970, got 1000000000"),
        (state(begun=0), "begun of a monitor must be true or false, got 0"),
        (state(ended=-1), "ended of a monitor must be at least 0, got -1"),
        (state(late_rows=-1), "late_rows of a monitor must be at least 0, got -1"),
        (state(evidence=1).replace("1}", "1e999}"), "evidence of a monitor must be a number or"),
        (state(window=3), "the open window of a monitor must have fewer than 3 rows, got 3"),
    ],
)
def test_bad_states(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CalibrationMonitor.from_json(text)


def test_bad_meters_of_states() -> None:
    meter = json.loads(state())["meter"]
    with pytest.raises(ValueError, match="changed after it was written"):
        CalibrationMonitor.from_json(state(meter=meter.replace("15", "16")))
    weighted = CalibrationMeter().update(*rows(3), np.arange(1.0, 4.0)).to_json()
    with pytest.raises(ValueError, match="must have rows without weights"):
        CalibrationMonitor.from_json(state(meter=weighted))
