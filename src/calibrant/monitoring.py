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
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from reprlib import repr as shown
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import as_numpy, as_scores
from calibrant._documents import PlainDocument
from calibrant._errors import warn
from calibrant._frames import Backend, frame_of
from calibrant._tables import counted
from calibrant._types import Array, InputKind, RowRule
from calibrant.metrics._drift import Evidence
from calibrant.metrics._labelled import accepted
from calibrant.metrics._monitor_state import check_open, read_state
from calibrant.metrics._notions import RowNotion, row_notion
from calibrant.metrics._readings import DEFAULT_BINS
from calibrant.metrics._window_times import checked_window, moment, window_numbers, window_of
from calibrant.metrics.meter import CalibrationMeter

__all__ = ["CalibrationMonitor", "WindowReport"]


@dataclass(frozen=True, repr=False)
class WindowReport(PlainDocument):
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
    on_window : callable, optional
        Called with the ``WindowReport`` of every window as it ends, to log or to page somebody.
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
        on_window: Any = None,
        notion: RowNotion | None = None,
    ) -> None:
        self.window = checked_window(window)
        if not expected_run >= 1.0:
            raise ValueError(f"expected_run must be at least 1 window, got {shown(expected_run)}")
        if not 0.0 <= min_error < 1.0:
            raise ValueError(f"min_error must lie in [0, 1), got {shown(min_error)}")
        self.expected_run = float(expected_run)
        self.min_error = float(min_error)
        self.on_window = on_window
        self.windows: list[WindowReport] = []
        self.late_rows = 0
        self._settings: dict[str, Any] = {
            "n_bins": n_bins,
            "input": input,
            "row_sums": row_sums,
            "classwise": False,
            "notion": notion,
        }
        self._open = self._meter()
        self._place = 0  # of the open window: its first row, or its number since 1970
        self._begun = False
        self._ended = 0
        self._evidence = -np.inf

    def __repr__(self) -> str:
        size = f"{self.window:,} rows" if isinstance(self.window, int) else str(self.window)
        alarms = sum(window.alarm for window in self.windows)
        return (
            f"CalibrationMonitor({counted(self._ended, 'window')} of {size}, "
            f"{counted(alarms, 'alarm')})"
        )

    # --- rows in, windows out ---

    def update(
        self, scores: Any, labels: Any, *, time: Any = None, ignore_index: int | None = None
    ) -> list[WindowReport]:
        """Add rows, in the order in which they came.

        Parameters
        ----------
        scores : array of shape (n_rows, n_classes) or (n_rows,)
            Probabilities or logits, as the monitor was told; 1-D for class 1 of two.
        labels : array of shape (n_rows,)
            The true classes.
        time : datetime, float, or array of shape (n_rows,), optional
            When: a time with its zone, seconds since 1970, or ``datetime64`` in UTC; one for all
            rows or one each. Needed where windows are of time.
        ignore_index : int, optional
            Rows with this label are left out.

        Returns
        -------
        list of WindowReport
            The windows that ended with these rows.

        Raises
        ------
        ValueError
            Where an array is refused: the message names the rule, the value and the row.
        """
        if isinstance(self.window, int):
            if time is not None:
                raise ValueError("time goes with windows of time: this one counts rows")
            rows, labels, _ = accepted(
                scores, labels, None, self._open.input, ignore_index, may_be_empty=True
            )
            return list(self._by_count(rows, _one_per_row(labels, rows)))
        if time is None:
            raise ValueError("windows of time need the time of the rows: update(.., time=..)")
        rows = as_scores(scores, self._open.input, may_be_empty=True)
        target = _one_per_row(labels, rows)
        at = window_numbers(time, len(target), self.window)
        return list(self._by_time(rows, target, at, ignore_index))

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
        wanted = row_notion(self._settings["notion"], state.layout.n_classes)
        if state.layout.notion != wanted:
            raise ValueError(
                f'this monitor judges the notion "{wanted}", got a meter of '
                f'"{state.layout.notion}": give both the same notion='
            )
        report = meter.compute()
        evidence = Evidence.of(state.stats("cells"))
        self._evidence = evidence.log_e_value + float(np.logaddexp(0.0, self._evidence))
        error = report.metrics["debiased_ece"].value
        alarm = self._evidence >= np.log(self.expected_run) and error >= self.min_error
        found = WindowReport(
            index=self._ended,
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
            evidence=self._evidence,
            alarm=bool(alarm),
        )
        self._ended += 1
        if alarm:
            self._evidence = -np.inf
        self.windows.append(found)
        if self.on_window is not None:
            self.on_window(found)
        return found

    def close(self) -> WindowReport | None:
        """End the open window before it is full.

        Returns
        -------
        WindowReport or None
            The window; None where it has no rows.
        """
        rows = self._open._row_count
        if not rows:
            return None
        if isinstance(self.window, int):
            start: str | int = self._place
            end: str | int = self._place + rows
            self._place += rows
        else:
            start, end = (moment(self._place + one, self.window) for one in (0, 1))
            self._place += 1
        meter, self._open = self._open, self._meter()
        return self.observe(meter, start, end)

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
        seconds = None if isinstance(self.window, int) else self.window.total_seconds()
        never = self.expected_run == np.inf  # which JSON has no number for
        return json.dumps(
            {
                "window": self.window if seconds is None else None,
                "window_seconds": seconds,
                "expected_run": None if never else self.expected_run,
                "min_error": self.min_error,
                "meter": self._open.to_json(),
                "place": self._place,
                "begun": self._begun,
                "ended": self._ended,
                "late_rows": self.late_rows,
                "evidence": None if self._evidence == -np.inf else self._evidence,
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
        document = read_state(text)
        meter = CalibrationMeter.from_json(document["meter"])
        seconds, run = document["window_seconds"], document["expected_run"]
        settings = meter._settings()
        del settings["classwise"]
        monitor = cls(
            document["window"] if seconds is None else window_of(seconds),
            expected_run=np.inf if run is None else run,
            min_error=document["min_error"],
            on_window=on_window,
            **settings,
        )
        check_open(meter, monitor.window, document["place"])
        monitor._open, monitor._place, monitor._begun = meter, document["place"], document["begun"]
        monitor._ended, monitor.late_rows = document["ended"], document["late_rows"]
        evidence = document["evidence"]
        monitor._evidence = -np.inf if evidence is None else float(evidence)
        return monitor

    # --- inside ---

    def _meter(self) -> CalibrationMeter:
        return CalibrationMeter(**self._settings)

    def _by_count(self, rows: Any, labels: NDArray[Any]) -> Iterator[WindowReport]:
        assert isinstance(self.window, int)
        if len(labels) == 0:
            self._open.update(rows, labels)
        first = 0
        while first < len(labels):
            last = min(first + self.window - self._open._row_count, len(labels))
            self._open.update(rows[first:last], labels[first:last])
            first = last
            full = self._open._row_count == self.window
            if full and (ended := self.close()) is not None:
                yield ended

    def _by_time(
        self, rows: Any, labels: NDArray[Any], at: NDArray[np.int64], ignore_index: int | None
    ) -> Iterator[WindowReport]:
        late = 0
        for number in np.unique(at):
            chosen = np.flatnonzero(at == number)
            if self._begun and number < self._place:
                late += len(chosen)
                continue
            if self._begun and number > self._place and (ended := self.close()) is not None:
                yield ended
            self._place, self._begun = int(number), True
            self._open.update(rows[chosen], labels[chosen], ignore_index=ignore_index)
        if late:
            self.late_rows += late
            warn(f"{counted(late, 'row')} left out: their window had ended when they came")


def _one_per_row(labels: Any, rows: Array) -> NDArray[Any]:
    """Labels in main memory; windows are cut by them, so there must be one for every row."""
    found = as_numpy(labels)
    if found.shape[:1] != (rows.shape[0],):
        raise ValueError(f"labels must be one per row ({rows.shape[0]}), got shape {found.shape}")
    return found
