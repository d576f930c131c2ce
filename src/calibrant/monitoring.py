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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from reprlib import repr as shown
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logit, logsumexp

from calibrant._arrays import as_numpy, as_scores
from calibrant._binning import BinStats
from calibrant._documents import PlainDocument
from calibrant._errors import warn
from calibrant._frames import Backend, frame_of
from calibrant._tables import counted
from calibrant._types import Floats, InputKind, RowRule
from calibrant.metrics._labelled import accepted
from calibrant.metrics._readings import DEFAULT_BINS
from calibrant.metrics.meter import CalibrationMeter

__all__ = ["CalibrationMonitor", "WindowReport"]

# The bets: true chances whose log-odds are a + b (log-odds of the confidence), (a, b - 1) at these
# distances in eight directions. Small ones pay for windows of many rows, large ones for few.
_DISTANCES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
_ANGLES = np.pi * np.arange(8) / 4.0
_FURTHEST = 15.0  # log-odds of a confidence that nobody can check: 1 - 3e-7


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
        The mean confidence.
    ece : float
        The ECE.
    debiased_ece : float
        The debiased ECE: about 0 for a calibrated model.
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
    ece: float
    debiased_ece: float
    brier: float
    nll: float
    p_value: float
    log_e_value: float
    evidence: float
    alarm: bool

    def __repr__(self) -> str:
        said = f"said {self.confidence:.1%}, was right {self.accuracy:.1%}"
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
        The debiased ECE of a window below which there is no alarm: with many rows, errors are
        certain that nobody minds.
    n_bins : int, default 15
        The number of bins.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    on_window : callable, optional
        Called with the ``WindowReport`` of every window as it ends, to log or to page somebody.

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
    The detector starts anew after an alarm. It judges the confidence, the largest probability of
    a row; weights have no place in it.

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
    ) -> None:
        self.window = _checked_window(window)
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
        }
        self._open = self._meter()
        self._rows = 0  # in the open window
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
            return list(self._by_count(rows, as_numpy(labels)))
        if time is None:
            raise ValueError("windows of time need the time of the rows: update(.., time=..)")
        rows = as_scores(scores, self._open.input, may_be_empty=True)
        at = _window_numbers(time, len(as_numpy(labels)), self.window)
        return list(self._by_time(rows, as_numpy(labels), at, ignore_index))

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
        if not self._rows:
            return None
        if isinstance(self.window, int):
            start: str | int = self._place
            end: str | int = self._place + self._rows
            self._place += self._rows
        else:
            start, end = (_moment(self._place + one, self.window) for one in (0, 1))
            self._place += 1
        meter, self._open, self._rows = self._open, self._meter(), 0
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
        return json.dumps(
            {
                "window": self.window if seconds is None else None,
                "window_seconds": seconds,
                "expected_run": self.expected_run,
                "min_error": self.min_error,
                "meter": self._open.to_json(),
                "rows": self._rows,
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
        document = _document(text)
        meter = CalibrationMeter.from_json(document["meter"])
        seconds = document["window_seconds"]
        settings = meter._settings()
        del settings["classwise"]
        monitor = cls(
            document["window"] if seconds is None else timedelta(seconds=seconds),
            expected_run=document["expected_run"],
            min_error=document["min_error"],
            on_window=on_window,
            **settings,
        )
        monitor._open, monitor._rows = meter, int(document["rows"])
        monitor._place, monitor._begun = int(document["place"]), bool(document["begun"])
        monitor._ended, monitor.late_rows = int(document["ended"]), int(document["late_rows"])
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
            last = min(first + self.window - self._rows, len(labels))
            self._open.update(rows[first:last], labels[first:last])
            self._rows += last - first
            first = last
            if self._rows == self.window and (ended := self.close()) is not None:
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
            before = self._open._row_count
            self._open.update(rows[chosen], labels[chosen], ignore_index=ignore_index)
            self._rows += self._open._row_count - before
        if late:
            self.late_rows += late
            warn(f"{counted(late, 'row')} left out: their window had ended when they came")


# --- evidence of one window -------------------------------------------------------------------


class Evidence(NamedTuple):
    """What the cells of one window say against calibration."""

    p_value: float
    log_e_value: float

    @classmethod
    def of(cls, cells: BinStats) -> Evidence:
        """A score test in the directions of the bets, and the mean of the bets."""
        used = cells.weight > 0.0
        chance = np.clip(cells.confidence[used], np.exp(-_FURTHEST), 1.0 - np.exp(-_FURTHEST))
        rows, hits = cells.weight[used], cells.correct_sum[used]
        odds = np.asarray(logit(chance))
        return cls(_score_test(chance, odds, rows, hits), _mixed_bet(odds, rows, hits))


def _score_test(chance: Floats, odds: Floats, rows: Floats, hits: Floats) -> float:
    """Two sums of residuals, plain and times the log-odds, are 0 but for noise: chi-squared."""
    directions = np.stack([np.ones_like(odds), odds])
    scores = directions @ (hits - rows * chance)
    spread = (directions * (rows * chance * (1.0 - chance))) @ directions.T
    statistic = float(scores @ np.linalg.pinv(spread, rcond=1e-9, hermitian=True) @ scores)
    if np.linalg.matrix_rank(spread, tol=1e-9 * max(spread.max(), 1e-300), hermitian=True) == 2:
        return float(np.exp(-statistic / 2.0))  # of two degrees of freedom
    from scipy.special import chdtrc

    return float(chdtrc(1.0, statistic))


def _mixed_bet(odds: Floats, rows: Floats, hits: Floats) -> float:
    """The logarithm of the mean likelihood ratio of all bets."""
    angle, distance = np.meshgrid(_ANGLES, _DISTANCES)
    a, b = ((distance * one(angle)).reshape(-1, 1) for one in (np.cos, np.sin))
    bet = a + (1.0 + b) * odds
    gains = (log_expit(bet) - log_expit(odds)) @ hits
    losses = (log_expit(-bet) - log_expit(-odds)) @ (rows - hits)
    return float(logsumexp(gains + losses) - np.log(len(bet)))


# --- windows of time --------------------------------------------------------------------------


def _checked_window(window: int | timedelta) -> int | timedelta:
    if isinstance(window, timedelta):
        if window <= timedelta(0):
            raise ValueError(f"window must be longer than no time, got {window}")
        return window
    if not isinstance(window, int | np.integer) or isinstance(window, bool) or window < 1:
        raise ValueError(
            f"window must be a number of rows from 1 on, or a timedelta, got {shown(window)}"
        )
    return int(window)


def _window_numbers(time: Any, n_rows: int, window: timedelta) -> NDArray[np.int64]:
    """The number of each row's window since 1970."""
    seconds = _seconds(time)
    if seconds.shape not in ((), (n_rows,)):
        raise ValueError(f"time must be one or one per row ({n_rows}), got shape {seconds.shape}")
    if not np.all(np.isfinite(seconds)):
        raise ValueError("time must be known for every row")
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
        return values.astype("datetime64[us]").astype(np.int64) / 1e6
    if values.dtype.kind not in "iuf":
        raise ValueError(f"time must be times or seconds since 1970, got {values.dtype}")
    return values.astype(np.float64)


def _moment(number: int, window: timedelta) -> str:
    return datetime.fromtimestamp(number * window.total_seconds(), UTC).isoformat()


def _document(text: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"the state of a monitor must be JSON: {error}") from None
    needed = {
        *("window", "window_seconds", "expected_run", "min_error", "meter"),
        *("rows", "place", "begun", "ended", "late_rows", "evidence"),
    }
    if not isinstance(document, dict) or not needed <= set(document):
        raise ValueError(f"the state of a monitor must have {', '.join(sorted(needed))}")
    return document
