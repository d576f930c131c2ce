"""Meters that see rows once, in any order and on any machine, and forget them.

``CalibrationMeter`` takes whole rows; ``ConfidenceMeter`` serves outputs in which only the
probability of the predicted class was kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from reprlib import repr as shown
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.common.docstrings import documented
from calibrant.common.extras import need
from calibrant.common.json import START, loads, sealed, unsealed
from calibrant.common.tables import counted
from calibrant.common.threads import OwnLock
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import equal_width_edges
from calibrant.data.checks import as_numpy, as_weights
from calibrant.data.rows import Rows
from calibrant.metrics import _meter_state as states
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._labelled import Batch, Labelled, ScoresAndHits, check_row_rule
from calibrant.metrics._meter_state import Layout, MeterState
from calibrant.metrics._notions import RowNotion, check_row_notion, row_notion
from calibrant.metrics._registry import METRICS
from calibrant.metrics._reports import MeterReport, report

_FORMAT = "calibrant-meter-2"
_CHANGED = "this meter was changed after it was written: its SHA-256 does not match"
_DTYPES = {"counts": np.int64, "sums": np.float64}
_SETTINGS = ("n_bins", "input", "row_sums", "classwise", "notion")
_KNOWN_OF_CONFIDENCES = ("equal-width", "equal-mass", "cells")  # what the top label determines


@documented
class CalibrationMeter:
    """Calibration metrics in constant memory; meters of different rows merge.

    Parameters
    ----------
    {n_bins}
    {input_probs}
    {row_sums}
    classwise : bool, default True
        Whether to keep the bins of every class; without them very many classes cost nothing.
    {notion}

    Raises
    ------
    ValueError
        Where a setting is refused.

    Notes
    -----
    Threads may share a meter: every row of every ``update`` is counted once.

    Examples
    --------
    >>> meter = CalibrationMeter().update([[0.8, 0.2], [0.6, 0.4]], [0, 1])
    >>> meter.merge(CalibrationMeter().update([[0.9, 0.1]], [0])).compute().n_rows
    3
    """

    def __init__(
        self,
        n_bins: int = DEFAULT_BINS,
        input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
        *,
        row_sums: RowRule = "strict",
        classwise: bool = True,
        notion: RowNotion | None = None,
    ) -> None:
        equal_width_edges(n_bins)  # refuses what is no number of bins
        if input not in get_args(InputKind):
            raise ValueError(f'input must be "logits" or "probs", got {shown(input)}')
        check_row_rule(row_sums)
        check_row_notion(notion)
        self.n_bins = int(n_bins)
        self.input: InputKind = input
        self.row_sums: RowRule = row_sums
        self.classwise = bool(classwise)
        self.notion: RowNotion | None = notion
        self._state: MeterState | None = None  # never changed, only replaced
        self._lock = OwnLock()  # held while it is replaced

    def __repr__(self) -> str:
        rows = counted(0 if (state := self._state) is None else state.n_rows, "row")
        return f"CalibrationMeter({rows}, {counted(self.n_bins, 'bin')}, {self.input})"

    def _repr_html_(self) -> str | None:
        """The table of ``compute``; None, for the plain text, before the first row."""
        state = self._state
        return None if state is None else report(state)._repr_html_()

    # --- rows in, numbers out ---

    @documented
    def update(
        self,
        scores: Any,
        labels: Any,
        sample_weight: Any = None,
        *,
        ignore_index: int | None = None,
    ) -> Self:
        """Add rows. A refused array, or one without rows, leaves the meter as it was.

        Parameters
        ----------
        scores : array of shape (n_rows, n_classes) or (n_rows,)
            Probabilities or logits, as the meter was told; 1-D for class 1 of two.
        {labels}
        {sample_weight}
        {ignore_index}

        Returns
        -------
        CalibrationMeter
            The meter itself.

        Raises
        ------
        ValueError
            Where an array is refused: the message names the rule, the value and the row.
        """
        state = self._state
        n_classes = None if state is None else state.layout.n_classes
        batch = self._batch(
            scores, labels, sample_weight, ignore_index=ignore_index, n_classes=n_classes
        )
        added = self._measured(batch, state)
        if added is not None:
            with self._lock:
                self._state = states.total(self._state, added)
        return self

    def merge(self, other: CalibrationMeter) -> CalibrationMeter:
        """Make a new meter of the rows of both; the settings must be the same.

        Parameters
        ----------
        other : CalibrationMeter
            The meter of other rows.

        Returns
        -------
        CalibrationMeter
            The meter of all rows.

        Raises
        ------
        ValueError
            Where settings or classes differ.
        """
        if self._settings() != other._settings():
            raise ValueError(
                "meters merge only where their settings are the same, "
                f"got {self._settings()} and {other._settings()}"
            )
        merged = CalibrationMeter(**self._settings())
        mine, theirs = self._state, other._state
        merged._state = mine if theirs is None else states.total(mine, theirs)
        return merged

    def compute(self) -> MeterReport:
        """Compute all metrics of the rows so far.

        Returns
        -------
        MeterReport
            The metrics by name, and the bins.

        Raises
        ------
        ValueError
            Where the meter has not seen a row.
        """
        state = self._state
        if state is None:
            raise ValueError("a meter must see at least one row before compute, got none")
        return report(state)

    # --- the state, and its ways in and out ---

    @property
    def counts(self) -> NDArray[np.int64]:
        """All counts as one flat vector (a copy); empty before the first row."""
        state = self._state
        return np.zeros(0, np.int64) if state is None else state.counts.copy()

    @property
    def sums(self) -> Floats:
        """All sums as one flat vector (a copy); empty before the first row."""
        state = self._state
        return np.zeros(0) if state is None else state.sums.copy()

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Take the meter apart, for a file.

        Returns
        -------
        document : dict
            Settings, classes and the names of the scores, as JSON values.
        arrays : dict of str to ndarray
            The flat vectors "counts" and "sums".
        """
        state = self._state  # read once: another thread may replace it at any time
        if state is None:
            classes, scores = None, states.score_names()
            counts, sums = np.zeros(0, np.int64), np.zeros(0)
        else:
            classes, scores = state.layout.n_classes, state.layout.scores
            counts, sums = state.counts.copy(), state.sums.copy()
        document = {**self._settings(), "n_classes": classes, "scores": list(scores)}
        return document, {"counts": counts, "sums": sums}

    @classmethod
    def from_state(
        cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> CalibrationMeter:
        """Put a meter together from what ``to_state`` gave.

        Parameters
        ----------
        document : mapping
            Settings, classes and the names of the scores.
        arrays : mapping of str to ndarray
            The flat vectors "counts" and "sums".

        Returns
        -------
        CalibrationMeter
            The same meter.

        Raises
        ------
        ValueError
            Where anything is not as a meter's state must be; the message has rule and value.
        """
        if "notion" not in document:  # files of meters that knew the confidence alone
            before = "confidence" if document.get("n_classes") == 2 else None
            document = {**document, "notion": before}
        wanted = dict.fromkeys((*_SETTINGS, "n_classes", "scores"), document)
        wanted |= dict.fromkeys(_DTYPES, arrays)
        for name, given in wanted.items():
            if name not in given:
                raise ValueError(
                    f"the state of a meter must have {name!r}, got {shown(list(given))}"
                )
        for name in _DTYPES:
            if arrays[name].ndim != 1:
                raise ValueError(f"{name} of a meter must be a vector, got {arrays[name].shape}")
        _check_types(document)
        meter = cls(**{name: document[name] for name in _SETTINGS})
        n_classes, counts, sums = document["n_classes"], arrays["counts"], arrays["sums"]
        if n_classes is not None:
            layout = meter._layout(n_classes, tuple(document["scores"]))
            meter._state = states.checked_state(layout, counts, sums)
        elif len(counts) or len(sums):
            raise ValueError(f"a meter without classes must have no sums, got {len(sums)}")
        return meter

    def to_json(self) -> str:
        """Write settings and state as JSON text, every bit kept, with a SHA-256 checksum.

        Returns
        -------
        str
            The text, on one line.
        """
        document, arrays = self.to_state()
        lists = {name: array.tolist() for name, array in arrays.items()}
        # Python writes floats so that they read back the same.
        return sealed(json.dumps({"format": _FORMAT, **document, **lists}, allow_nan=False))

    @classmethod
    def from_json(cls, text: str) -> CalibrationMeter:
        """Read what ``to_json`` wrote.

        Parameters
        ----------
        text : str
            The text, not changed in any way.

        Returns
        -------
        CalibrationMeter
            The same meter.

        Raises
        ------
        ValueError
            Where the text is not that of a meter, or was changed.
        """
        text = text.strip()
        body = unsealed(text)
        if body is None:
            if not text.startswith(START):
                try:
                    written = loads(text)
                except ValueError as error:
                    message = f"a meter must be JSON text, got {text[:40]!r}: {error}"
                    raise ValueError(message) from None
                _known(written)
            raise ValueError(_CHANGED)
        document = _known(loads(body))
        arrays = {}
        for name, dtype in _DTYPES.items():
            values = document.pop(name, ())
            # The numbers as they were written: whole ones stay whole, and are checked as such.
            arrays[name] = np.asarray(values) if values else np.zeros(0, dtype)
        return cls.from_state(document, arrays)

    def to_arrow(self) -> Any:
        """Write settings and state as an Arrow table of one row, with a SHA-256 checksum.

        Returns
        -------
        pyarrow.Table
            The table; tables of several meters concatenate.
        """
        arrow = need("pyarrow", "parquet", "Arrow tables need")
        document, arrays = self.to_state()
        body = json.dumps({"format": _FORMAT, **document})
        columns = {"settings": arrow.array([body]), "sha256": arrow.array([_digest(body, arrays)])}
        for name, kind in (("counts", arrow.int64()), ("sums", arrow.float64())):
            columns[name] = arrow.array([arrays[name]], arrow.list_(kind))
        return arrow.table(columns)

    @classmethod
    def from_arrow(cls, table: Any) -> CalibrationMeter:
        """Read what ``to_arrow`` wrote; several rows (tables of several meters) are merged.

        Parameters
        ----------
        table : pyarrow.Table
            The table.

        Returns
        -------
        CalibrationMeter
            The meter of all rows.

        Raises
        ------
        ValueError
            Where the table is not that of meters, or was changed.
        """
        for name in ("settings", "sha256", *_DTYPES):
            if name not in table.column_names:
                raise ValueError(f"a table of meters must have the column {name!r}")
        if table.num_rows == 0:
            raise ValueError("a table of meters must have at least one row, got none")
        documents = []
        for row in range(table.num_rows):
            body, written = (table[name][row].as_py() for name in ("settings", "sha256"))
            arrays = {name: _array_of_cell(table[name][row], name) for name in _DTYPES}
            if not isinstance(body, str) or written != _digest(body, arrays):
                raise ValueError(_CHANGED)
            documents.append((_known(loads(body)), arrays))
        return reduce(CalibrationMeter.merge, (cls.from_state(*one) for one in documents))

    # --- inside ---

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SETTINGS}

    def _layout(self, n_classes: int, scores: tuple[str, ...]) -> Layout:
        """What the state of rows with so many classes has room for."""
        notion = row_notion(self.notion, n_classes)
        return Layout(self.n_bins, n_classes, self.classwise, scores, notion)

    def _batch(self, scores: Any, labels: Any, sample_weight: Any = None, **rules: Any) -> Batch:
        """Rows of the kind that this meter takes."""
        return Batch.of(
            scores, labels, sample_weight, self.input, self.row_sums, notion=self.notion, **rules
        )

    def _measured(self, batch: Batch, state: MeterState | None) -> MeterState | None:
        """What the rows of a batch add to a state; None where it has none that count."""
        layout = self._layout(batch.rows.n_classes, states.score_names())
        if state is not None:
            states.check_same(state.layout, layout)
        if not len(batch.kept):
            return None
        added = MeterState.empty(layout)
        for rows in batch.tiles():
            added.add(rows)
        return added


def _known(document: Any) -> dict[str, Any]:
    """The settings and state of a document of the format that is read here."""
    found = document.get("format") if isinstance(document, dict) else None
    if found != _FORMAT:
        raise ValueError(f"a meter must have the format {_FORMAT!r}, got {shown(found)}")
    return {name: value for name, value in document.items() if name != "format"}


def _digest(body: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(body.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\0{name}\0{array.shape}\0".encode() + array.tobytes())
    return digest.hexdigest()


def _array_of_cell(cell: Any, name: str) -> NDArray[Any]:
    """A list of numbers of an Arrow table; nulls and other kinds are refused."""
    values = cell.as_py() if cell.values is None else cell.values.to_numpy(zero_copy_only=False)
    if values is None or np.asarray(values).dtype != _DTYPES[name]:
        raise ValueError(f"{name} of a table of meters must be lists of {_DTYPES[name].__name__}")
    return np.asarray(values)


def _check_types(document: Mapping[str, Any]) -> None:
    """Refuse settings of the wrong kind, which a damaged file may hold."""
    n_bins, n_classes, scores = (document[name] for name in ("n_bins", "n_classes", "scores"))
    if type(n_bins) is not int:
        raise ValueError(f"n_bins must be a whole number, got {shown(n_bins)}")
    if type(document["classwise"]) is not bool:
        raise ValueError(f"classwise must be true or false, got {shown(document['classwise'])}")
    if n_classes is not None and (type(n_classes) is not int or n_classes < 2):
        raise ValueError(
            f"n_classes must be a whole number from 2 on, or none, got {shown(n_classes)}"
        )
    if not isinstance(scores, list | tuple) or not all(isinstance(name, str) for name in scores):
        raise ValueError(f"scores must be a list of names, got {shown(scores)}")
    if len(set(scores)) < len(scores):
        raise ValueError(f"scores must be different names, got {shown(scores)}")


# --- of confidences alone ---------------------------------------------------------------------


class _TopLabels(Labelled):
    """Rows of which only the confidence is known, and whether the prediction is right."""

    @property
    def top_label(self) -> ScoresAndHits:
        return self.rows.scores[:, 0], self.rows.labels == 1

    normalized = top_label


@documented
class ConfidenceMeter:
    """Metrics of the predicted class' probability, in constant memory; meters merge.

    Parameters
    ----------
    {n_bins}

    See Also
    --------
    CalibrationMeter : The same for whole rows of probabilities, with all metrics.

    Notes
    -----
    Threads may share a meter: every row of every ``update`` is counted once.

    Examples
    --------
    >>> meter = ConfidenceMeter().update([0.9, 0.8, 0.6], [2, 0, 1], [2, 0, 0])
    >>> round(meter.compute().accuracy, 4)
    0.6667
    """

    def __init__(self, n_bins: int = DEFAULT_BINS) -> None:
        equal_width_edges(n_bins)  # refuses what is no number of bins
        self.n_bins = int(n_bins)
        layout = Layout(self.n_bins, 2, False, ("accuracy",), "confidence")
        self._seen = (MeterState.empty(layout), 0)  # and the number of classes; replaced together
        self._lock = OwnLock()  # held while they are replaced

    def __repr__(self) -> str:
        rows = counted(self._seen[0].n_rows, "row")
        return f"ConfidenceMeter({rows}, {counted(self.n_bins, 'bin')})"

    @documented
    def update(
        self,
        confidences: Any,
        predictions: Any,
        labels: Any,
        sample_weight: Any = None,
        *,
        ignore_index: int | None = None,
    ) -> Self:
        """Add rows. A refused array leaves the meter as it was.

        Parameters
        ----------
        confidences : array of shape (n_rows,)
            The probability of each predicted class.
        predictions : array of shape (n_rows,)
            The predicted classes.
        labels : array of shape (n_rows,)
            The true classes.
        {sample_weight}
        {ignore_index}

        Returns
        -------
        ConfidenceMeter
            The meter itself.

        Raises
        ------
        ValueError
            Where an array is refused.
        """
        said = as_numpy(confidences, "confidences").astype(np.float64)
        chosen, true = as_numpy(predictions, "predictions"), as_numpy(labels)
        for name, array in (("predictions", chosen), ("labels", true)):
            if array.shape != said.shape or said.ndim != 1:
                raise ValueError(
                    f"confidences and {name} must have one shape (rows,), got {said.shape} and "
                    f"{array.shape}"
                )
        weight = None if sample_weight is None else as_weights(sample_weight, len(said))
        kept = np.arange(len(said))
        if ignore_index is not None:
            kept = np.flatnonzero(true != ignore_index)
        # Errors name rows by their numbers in the arrays given.
        bad = kept[~((said[kept] >= 0.0) & (said[kept] <= 1.0 + 1e-6))]
        if len(bad):
            raise ValueError(f"confidences must lie in [0, 1], got {said[bad[0]]} in row {bad[0]}")
        for name, array in (("predictions", chosen[kept]), ("labels", true[kept])):
            if array.dtype.kind not in "iu" or (len(array) and array.min() < 0):
                raise ValueError(f"{name} must be classes: whole numbers of at least 0")
        if len(kept):
            right = (chosen == true).astype(np.int64)
            rows = Rows(said[:, None], right, weight, "probs").take(kept)
            added = MeterState.empty(self._seen[0].layout)
            added.add(_TopLabels(rows, "confidence", streamed=True))
            classes = 1 + int(max(chosen[kept].max(), true[kept].max()))
            with self._lock:
                state, n_classes = self._seen
                self._seen = (state + added, max(n_classes, classes))
        return self

    def merge(self, other: ConfidenceMeter) -> ConfidenceMeter:
        """Make a new meter of the rows of both; their bins must be the same.

        Parameters
        ----------
        other : ConfidenceMeter
            The meter of other rows.

        Returns
        -------
        ConfidenceMeter
            The meter of all rows.

        Raises
        ------
        ValueError
            Where the numbers of bins differ.
        """
        if self.n_bins != other.n_bins:
            raise ValueError(
                f"meters merge only where their bins are the same, got {self.n_bins} and "
                f"{other.n_bins}"
            )
        merged = ConfidenceMeter(self.n_bins)
        (mine, my_classes), (theirs, their_classes) = self._seen, other._seen
        merged._seen = (mine + theirs, max(my_classes, their_classes))
        return merged

    def compute(self) -> MeterReport:
        """Compute all metrics that the confidences determine.

        Returns
        -------
        MeterReport
            The metrics by name, and the bins. ``n_classes`` is one more than the largest class
            that was predicted or true.

        Raises
        ------
        ValueError
            Where the meter has not seen a row.
        """
        state, n_classes = self._seen
        if not state.n_rows:
            raise ValueError("a meter must see at least one row before compute, got none")
        full, known = report(state), {}
        for name, value in full.metrics.items():
            metric = METRICS[name]
            reads = metric.merging.reads if metric.merging is not None else None
            if name == "accuracy" or (reads or metric.reads) in _KNOWN_OF_CONFIDENCES:
                known[name] = value
        return replace(full, metrics=known, n_classes=n_classes)

    @property
    def counts(self) -> NDArray[np.int64]:
        """All counts as one flat vector (a copy)."""
        return self._seen[0].counts.copy()

    @property
    def sums(self) -> Floats:
        """All sums as one flat vector (a copy)."""
        return self._seen[0].sums.copy()
