"""Is a deployed calibrator still calibrated? Rows in windows, and an alarm that seldom errs.

Every window is a ``CalibrationMeter`` and gives two numbers. The p-value is that of one window by
itself: over many windows some are small by chance. The e-value is a bet against calibration: its
mean is 1 at most while the model is calibrated, so that bets of later windows multiply. Their
Shiryaev-Roberts sum R = e (1 + R) crosses ``expected_run`` no sooner than after that many windows
on average where nothing is wrong (an e-detector), however long one watches; after a change it grows
by a factor per window.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from reprlib import repr as shown
from types import NoneType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.common import json as _json
from calibrant.common.errors import warn
from calibrant.common.tables import Backend, counted, frame_of
from calibrant.common.threads import OwnLock
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.checks import as_numpy, as_scores
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._drift import Evidence
from calibrant.metrics._labelled import Batch
from calibrant.metrics._meter_state import MeterState, total
from calibrant.metrics._notions import RowNotion, row_notion
from calibrant.metrics._reports import report as metered
from calibrant.metrics.meter import CalibrationMeter
from calibrant.scale._window_times import (
    LONGEST,
    check_lengths,
    moment,
    row_seconds,
    window_numbers,
)

__all__ = ["CalibrationMonitor", "WindowReport"]


@dataclass(frozen=True, repr=False)
class WindowReport(_json.PlainDocument):
    """One window of a monitor.

    Parameters
    ----------
    index : int
        The number of the window, from 0.
    start : str or int
        Where it begins: a time in UTC, or the number of its first row.
    end : str or int
        Where it ends: the first time or row beyond it.
    n_rows : int
        The number of rows.
    accuracy : float
        The share of right predictions.
    confidence : float
        The mean of the judged probability: that of class 1 with two classes, else the confidence.
    observed : float
        How often what it promises came: the share of class 1, or of right predictions.
    ece : float
        The ECE.
    debiased_ece : float
        The debiased root mean square error: about 0 for a calibrated model.
    brier : float
        The Brier score.
    nll : float
        The log loss; infinite where an impossible label came.
    p_value : float
        How likely a calibrated model is to stray so far in one window.
    log_e_value : float
        The logarithm of the bet against calibration.
    evidence : float
        The logarithm of the detector's sum after this window.
    alarm : bool
        Whether it is an alarm.
    """

    index: int
    start: str | int
    end: str | int
    n_rows: int
    accuracy: float
    confidence: float
    observed: float
    ece: float
    debiased_ece: float
    brier: float
    nll: float
    p_value: float
    log_e_value: float
    evidence: float
    alarm: bool

    def __repr__(self) -> str:
        said = f"said {self.confidence:.1%}, observed {self.observed:.1%}"
        state = ", ALARM" if self.alarm else ""
        rows = counted(self.n_rows, "row")
        return f"WindowReport({self.index}: {rows}, {said}, p-value {self.p_value:.3g}{state})"


@dataclass(frozen=True)
class _Progress:
    """Where a monitor stands; never changed, only replaced, so that it is always whole."""

    open: MeterState | None = None  # the rows of the open window
    place: int = 0  # of the open window: its first row, or its number since 1970
    begun: bool = False  # whether a row had a time
    ended: int = 0
    late_rows: int = 0
    evidence: float = -np.inf


_Step = tuple[_Progress, list[WindowReport]]  # where the monitor stands then, what ended on the way


class CalibrationMonitor:
    """Watch the calibration of a model over time.

    Parameters
    ----------
    window : int or timedelta, default 10_000
        How many rows a window has, or how long it is. Windows of time begin at whole multiples of
        their length since 1970 (UTC).
    expected_run : float, default 1000
        After how many windows, on average and at least, a calibrated model gives a false alarm.
    min_error : float, default 0.0
        The debiased root mean square error of a window below which there is no alarm: with many
        rows, errors are certain that nobody minds.
    n_bins : int, default 15
        The number of bins.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    max_jump : timedelta, optional
        For windows of time: a time further ahead of the newest window is refused. 31 days or 10
        windows by default, whichever is longer; ``timedelta.max`` is no limit. The attribute may
        be changed at any time.
    on_window : callable, optional
        Called with the ``WindowReport`` of every window that has ended, to log or to page somebody.
    notion : {"class-1", "confidence"}, optional
        Whose calibration: class 1's of two classes, or the confidence's. By default class 1's
        with two classes, and the confidence's with more.

    Attributes
    ----------
    windows : list of WindowReport
        The windows that have ended.
    late_rows : int
        Rows that came after their window of time had ended, which were left out.

    Raises
    ------
    ValueError
        Where a setting is refused.

    Notes
    -----
    The detector starts anew after an alarm. It judges one probability per row, that of class 1 of
    two classes or the largest one (``notion``), and takes no weights.

    A batch is counted whole or not at all. An error that ``update`` finds in the arrays leaves the
    monitor as it was: repair the batch and send it again.

    ``on_window`` is called when the rows of the batch and its windows have been kept, in the order
    of the windows. Where it raises, it is still called for the other windows of the batch, and
    then the first of its errors is raised, with a note: those rows must not be sent again. An
    ``on_window`` that may fail should handle its errors itself.

    Threads may share a monitor. Each window is reported on the thread whose rows ended it, so that
    ``on_window`` may run on several threads at once; it may use the monitor.

    References
    ----------
    Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change
    detection", New England Journal of Statistics in Data Science, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> monitor = CalibrationMonitor(window=500)
    >>> for said, true in [(0.8, 0.8)] * 4 + [(0.8, 0.65)] * 2:
    ...     right = rng.random(500) < true
    ...     ended = monitor.update([[said, 1.0 - said]] * 500, np.where(right, 0, 1))
    >>> [window.alarm for window in monitor.windows]
    [False, False, False, False, True, True]
    """

    def __init__(
        self,
        window: int | timedelta = 10_000,
        *,
        expected_run: float = 1000.0,
        min_error: float = 0.0,
        n_bins: int = DEFAULT_BINS,
        input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
        row_sums: RowRule = "strict",
        max_jump: timedelta | None = None,
        on_window: Any = None,
        notion: RowNotion | None = None,
    ) -> None:
        check_lengths(window, max_jump)
        self.window = window if isinstance(window, timedelta) else int(window)
        if not expected_run >= 1.0:
            raise ValueError(f"expected_run must be at least 1 window, got {shown(expected_run)}")
        if not 0.0 <= min_error < 1.0:
            raise ValueError(f"min_error must lie in [0, 1), got {shown(min_error)}")
        self.expected_run = float(expected_run)
        self.min_error = float(min_error)
        self.max_jump = max_jump
        self.on_window = on_window
        self.windows: list[WindowReport] = []
        self._meter = CalibrationMeter(
            n_bins, input, row_sums=row_sums, classwise=False, notion=notion
        )
        self._now = _Progress()
        self._lock = OwnLock()  # held from reading where the monitor stands to replacing it

    def __repr__(self) -> str:
        size = f"{self.window:,} rows" if isinstance(self.window, int) else str(self.window)
        alarms = sum(window.alarm for window in self.windows)
        return (
            f"CalibrationMonitor({counted(self._now.ended, 'window')} of {size}, "
            f"{counted(alarms, 'alarm')})"
        )

    @property
    def late_rows(self) -> int:
        """Rows that came after their window of time had ended."""
        return self._now.late_rows

    # --- rows in, windows out ---

    def update(
        self, scores: Any, labels: Any, *, time: Any = None, ignore_index: int | None = None
    ) -> list[WindowReport]:
        """Add rows, in the order in which they came: all of them, or none where one is refused.

        Parameters
        ----------
        scores : array of shape (n_rows, n_classes) or (n_rows,)
            Probabilities or logits, as the monitor was told; 1-D for class 1 of two.
        labels : array of shape (n_rows,)
            The true classes.
        time : datetime, date, float, or array of shape (n_rows,), optional
            When: a time with its zone, a date (midnight in UTC), seconds since 1970, or
            ``datetime64`` in UTC; one for all rows or one each. Needed where windows are of time.
        ignore_index : int, optional
            Rows with this label are left out.

        Returns
        -------
        list of WindowReport
            The windows that ended with these rows.

        Raises
        ------
        ValueError
            Where an array is refused: the message names the rule, the value and the row. A time
            too far ahead of the newest window (``max_jump``) is refused, too.
        """
        window = self.window
        if isinstance(window, int) and time is not None:
            raise ValueError("time goes with windows of time: this one counts rows")
        if isinstance(window, timedelta) and time is None:
            raise ValueError("windows of time need the time of the rows: update(.., time=..)")
        rows = as_scores(scores, self._meter.input, may_be_empty=True)
        found, n_rows = as_numpy(labels), rows.shape[0]
        if found.shape[:1] != (n_rows,):  # windows are cut by them
            raise ValueError(f"labels must be one per row ({n_rows}), got shape {found.shape}")
        batch = self._meter._batch(rows, found, ignore_index=ignore_index)
        if isinstance(window, int):
            return self._advance(lambda now: self._by_count(now, batch, window))
        seconds = row_seconds(time, n_rows)
        return self._advance(lambda now: self._by_time(now, batch, seconds, window))

    def observe(self, meter: CalibrationMeter, start: str | int, end: str | int) -> WindowReport:
        """Add a whole window that was measured elsewhere, such as by merged meters of a cluster.

        Parameters
        ----------
        meter : CalibrationMeter
            The rows of the window.
        start : str or int
            Where it begins, for the report.
        end : str or int
            Where it ends, for the report.

        Returns
        -------
        WindowReport
            The window.

        Raises
        ------
        ValueError
            Where the meter has no rows, or weighted ones.
        """
        state = meter._state
        if state is None:
            raise ValueError("a window must have at least one row, got an empty meter")
        if state.weighted:
            raise ValueError("a monitor takes rows without weights, got a meter of weighted ones")
        wanted = row_notion(self._meter.notion, state.layout.n_classes)
        if state.layout.notion != wanted:
            raise ValueError(
                f'this monitor judges the notion "{wanted}", got a meter of '
                f'"{state.layout.notion}": give both the same notion='
            )
        return self._advance(lambda now: self._judged(now, state, start, end))[0]

    def close(self) -> WindowReport | None:
        """End the open window before it is full.

        Returns
        -------
        WindowReport or None
            The window; None where it has no rows.
        """
        found = self._advance(self._ended)
        return found[0] if found else None

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Convert to a data frame with one row per window.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default "pandas"
            The library, which must be installed.

        Returns
        -------
        DataFrame
            The fields of ``WindowReport`` as columns.
        """
        rows = [window.to_dict() for window in self.windows]
        names = WindowReport.__dataclass_fields__
        return frame_of({name: [row[name] for row in rows] for name in names}, backend)

    def to_jsonl(self) -> str:
        """Write the windows that have ended as JSON lines.

        Returns
        -------
        str
            One line per window.
        """
        return "".join(f"{window.to_json()}\n" for window in self.windows)

    # --- across restarts ---

    def to_json(self) -> str:
        """Write settings, the open window and the detector, but not the windows that have ended.

        Returns
        -------
        str
            The text.
        """
        now = self._now
        meter = CalibrationMeter(**self._meter._settings())
        meter._state = now.open
        seconds = None if isinstance(self.window, int) else self.window.total_seconds()
        jump = None if self.max_jump is None else min(self.max_jump, 2 * LONGEST).total_seconds()
        never = self.expected_run == np.inf  # which JSON has no number for
        return json.dumps(
            {
                "window": self.window if seconds is None else None,
                "window_seconds": seconds,
                "expected_run": None if never else self.expected_run,
                "min_error": self.min_error,
                "max_jump_seconds": jump,
                "meter": meter.to_json(),
                "place": now.place,
                "begun": now.begun,
                "ended": now.ended,
                "late_rows": now.late_rows,
                "evidence": None if now.evidence == -np.inf else now.evidence,
            }
        )

    @classmethod
    def from_json(cls, text: str, on_window: Any = None) -> Self:
        """Go on where ``to_json`` left off.

        Parameters
        ----------
        text : str
            What ``to_json`` wrote.
        on_window : callable, optional
            Called with the ``WindowReport`` of every window as it ends.

        Returns
        -------
        CalibrationMonitor
            The monitor, without the windows that had ended.

        Raises
        ------
        ValueError
            Where the text is not that of a monitor.
        """
        document = _read_state(text)
        meter = CalibrationMeter.from_json(document["meter"])
        seconds, jump = document["window_seconds"], document["max_jump_seconds"]
        run, evidence = document["expected_run"], document["evidence"]
        try:
            window = document["window"] if seconds is None else timedelta(seconds=seconds)
        except OverflowError:
            most = f"at most {LONGEST.days:,} days"
            raise ValueError(f"window must be {most}, got {seconds} s") from None
        try:
            max_jump = None if jump is None else timedelta(seconds=jump)
        except OverflowError:
            max_jump = timedelta.max
        settings = meter._settings()
        del settings["classwise"]
        monitor = cls(
            window,
            expected_run=np.inf if run is None else run,
            min_error=document["min_error"],
            max_jump=max_jump,
            on_window=on_window,
            **settings,
        )
        _check_open(meter._state, monitor.window, document["place"])
        monitor._now = _Progress(
            meter._state,
            evidence=-np.inf if evidence is None else float(evidence),
            **{name: document[name] for name in ("place", "begun", "ended", "late_rows")},
        )
        return monitor

    # --- inside: steps from one state to the next, which change nothing until all is done ---

    def _by_count(self, now: _Progress, batch: Batch, window: int) -> _Step:
        """Add rows to windows of so many rows."""
        found, rows = list[WindowReport](), batch.kept
        there = 0 if now.open is None else now.open.n_rows
        for _, part in _parts(batch, rows, (there + np.arange(len(rows))) // window):
            now = self._with_rows(now, part)
            if now.open is not None and now.open.n_rows == window:
                now, ended = self._ended(now)
                found += ended
        return now, found

    def _by_time(self, now: _Progress, batch: Batch, seconds: Floats, window: timedelta) -> _Step:
        """Add rows to windows of time; those that come too late are counted, and left out."""
        found, rows = list[WindowReport](), batch.kept
        newest = now.place if now.begun else None
        at = window_numbers(seconds[rows], rows, newest, window, self.max_jump)
        in_time = at >= now.place if now.begun else np.ones(len(at), bool)
        for number, part in _parts(batch, rows[in_time], at[in_time]):
            if now.begun and number > now.place:
                now, ended = self._ended(now)
                found += ended
            now = self._with_rows(replace(now, place=number, begun=True), part)
        late = int(np.count_nonzero(~in_time))
        return replace(now, late_rows=now.late_rows + late), found

    def _with_rows(self, now: _Progress, batch: Batch) -> _Progress:
        added = self._meter._measured(batch, now.open)
        return now if added is None else replace(now, open=total(now.open, added))

    def _ended(self, now: _Progress) -> _Step:
        """End the open window, where it has rows."""
        if now.open is None:
            return now, []
        if isinstance(self.window, int):
            start: str | int = now.place
            end: str | int = now.place + now.open.n_rows
            after = now.place + now.open.n_rows
        else:
            start, end = (moment(now.place + one, self.window) for one in (0, 1))
            after = now.place + 1
        return self._judged(replace(now, open=None, place=after), now.open, start, end)

    def _judged(self, now: _Progress, state: MeterState, start: str | int, end: str | int) -> _Step:
        """Add what a whole window says to the evidence."""
        report = metered(state)
        evidence = Evidence.of(state.stats("cells"))
        so_far = evidence.log_e_value + float(np.logaddexp(0.0, now.evidence))
        error = report.metrics["debiased_ece"].value
        alarm = so_far >= np.log(self.expected_run) and error >= self.min_error
        found = WindowReport(
            index=now.ended,
            start=start,
            end=end,
            n_rows=report.n_rows,
            accuracy=report.metrics["accuracy"].value,
            confidence=float(report.bins.confidence_sum.sum() / report.bins.weight.sum()),
            observed=float(report.bins.correct_sum.sum() / report.bins.weight.sum()),
            ece=report.metrics["ece"].value,
            debiased_ece=error,
            brier=report.metrics["brier"].value,
            nll=report.metrics["nll"].value,
            p_value=evidence.p_value,
            log_e_value=evidence.log_e_value,
            evidence=so_far,
            alarm=bool(alarm),
        )
        return replace(now, ended=now.ended + 1, evidence=-np.inf if alarm else so_far), [found]

    # --- .. and what is done then ---

    def _advance(self, step: Callable[[_Progress], _Step]) -> list[WindowReport]:
        """Make a step, then report its windows: every one of them, even where some reports fail."""
        with self._lock:
            before = self._now
            self._now, found = step(before)
            self.windows.extend(found)
            late = self._now.late_rows - before.late_rows
        errors: list[Exception] = []
        on_window = self.on_window
        try:
            for window in found if on_window is not None else ():
                try:
                    on_window(window)
                except Exception as error:
                    error.add_note(
                        f"on_window raised this for window {window.index}. The rows of this call "
                        "are counted and its windows are kept: do not send the rows again"
                    )
                    errors.append(error)
            if errors:
                for other in errors[1:]:
                    errors[0].add_note(f"on_window also raised {other!r}")
                raise errors[0]
        finally:
            if late:
                warn(f"{counted(late, 'row')} left out: their window had ended when they came")
        return found


def _parts(
    batch: Batch, rows: NDArray[np.intp], at: NDArray[np.int64]
) -> Iterator[tuple[int, Batch]]:
    """These rows by the windows that they are in; the whole batch is checked before the first."""
    if len(rows) and len(rows) == len(batch.kept) and at.min() == at.max():
        yield int(at[0]), batch  # checked on its way into the meter
        return
    batch.check()
    order = np.argsort(at, kind="stable")
    numbers, starts = np.unique(at[order], return_index=True)
    for number, chosen in zip(numbers, np.split(rows[order], starts[1:]), strict=False):
        yield int(number), batch.take(chosen)


# --- a state as a text that may come from anywhere: every part of it is checked ---

_KINDS: dict[str, tuple[type, ...]] = {
    "a whole number": (int,),
    "a number": (int, float),
    "a whole number or null": (int, NoneType),
    "a number or null": (int, float, NoneType),
    "true or false": (bool,),
    "text": (str,),
}
_STATE = {
    "window": "a whole number or null",
    "window_seconds": "a number or null",
    "expected_run": "a number or null",
    "min_error": "a number",
    "max_jump_seconds": "a number or null",
    "meter": "text",
    "place": "a whole number",
    "begun": "true or false",
    "ended": "a whole number",
    "late_rows": "a whole number",
    "evidence": "a number or null",
}


def _read_state(text: str) -> Mapping[str, Any]:
    """The state of a monitor, every part of the kind that it must be."""
    try:
        document = _json.loads(text)
    except ValueError as error:
        raise ValueError(f"the state of a monitor must be JSON: {error}") from None
    if not isinstance(document, dict) or set(document) != set(_STATE):
        names = list(document) if isinstance(document, dict) else document
        raise ValueError(
            f"the state of a monitor must have {', '.join(_STATE)} and nothing else, "
            f"got {shown(names)}"
        )
    for name, kind in _STATE.items():
        value = document[name]
        # a number must be one that a float can be: JSON has longer ones, and 1e999 is infinite
        too_large = type(value) in (int, float) and abs(value) > sys.float_info.max
        if type(value) not in _KINDS[kind] or too_large:
            raise ValueError(f"{name} of a monitor must be {kind}, got {shown(value)}")
    if (document["window"] is None) == (document["window_seconds"] is None):
        raise ValueError("the state of a monitor must have either window or window_seconds")
    for name in ("ended", "late_rows"):
        if document[name] < 0:
            raise ValueError(f"{name} of a monitor must be at least 0, got {document[name]}")
    return document


def _check_open(state: MeterState | None, window: int | timedelta, place: int) -> None:
    """Refuse an open window that no monitor has: it could not be filled, or not be ended."""
    if state is not None and state.weighted:
        raise ValueError("the open window of a monitor must have rows without weights")
    if isinstance(window, timedelta):
        if abs(place) * window.total_seconds() > 2 * LONGEST.total_seconds():
            raise ValueError(f"place of a monitor must be a time near 1970, got {shown(place)}")
        return
    if place < 0:
        raise ValueError(f"place of a monitor must be at least 0, got {place}")
    if state is not None and state.n_rows >= window:
        raise ValueError(
            f"the open window of a monitor must have fewer than {window} rows, got {state.n_rows}"
        )
