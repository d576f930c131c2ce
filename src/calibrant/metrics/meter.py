"""A meter that sees rows once, in any order and on any machine, and forgets them."""

from __future__ import annotations

from typing import Any, Self, get_args

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant._arrays import (
    Array,
    InputKind,
    RowRule,
    as_labels,
    as_scores,
    as_weights,
    as_working_float,
    check_label_logits,
    check_peaks,
    check_probabilities,
    normalize_rows,
    row_tiles,
    to_numpy,
)
from calibrant._binning import BinStats, Floats, bin_index, equal_width_edges
from calibrant._numerics import log_softmax
from calibrant.metrics import _meter_files as files
from calibrant.metrics._cells import cell_stats
from calibrant.metrics._door import Labelled, take_class
from calibrant.metrics._meter_report import MeterReport, report
from calibrant.metrics._meter_state import MeterState
from calibrant.metrics.binned import DEFAULT_BINS
from calibrant.metrics.classwise import class_stats
from calibrant.metrics.kde import kde_columns
from calibrant.metrics.scores import brier_rows, nll_rows

_TILE = 2**20  # elements that are looked at together: the meter's working memory


class CalibrationMeter:
    """Calibration metrics in constant memory; meters of different rows merge.

    ``input`` says what the scores are, ``rows`` what to do with rows of probabilities that do not
    sum to 1, ``classwise=False`` leaves out the (classes x bins) part, for very many classes.

    >>> meter = CalibrationMeter().update([[0.8, 0.2], [0.6, 0.4]], [0, 1])
    >>> meter.merge(CalibrationMeter().update([[0.9, 0.1]], [0])).compute().rows
    3
    """

    def __init__(
        self,
        bins: int = DEFAULT_BINS,
        input: InputKind = "probs",  # noqa: A002 -- the package's word for it
        *,
        rows: RowRule = "strict",
        classwise: bool = True,
    ) -> None:
        equal_width_edges(bins)  # refuses what is no number of bins
        if input not in get_args(InputKind):
            raise ValueError(f'input must be "logits" or "probs", got {input!r}')
        if rows not in get_args(RowRule):
            raise ValueError(f'rows must be "strict", "normalize" or "raw", got {rows!r}')
        self.bins = bins
        self.input: InputKind = input
        self.rows: RowRule = rows
        self.classwise = classwise
        self._state: MeterState | None = None

    # --- rows in, numbers out ---

    def update(self, scores: Any, labels: Any, sample_weight: Any = None) -> Self:
        """Add rows; returns self. A refused array leaves the meter as it was."""
        array = as_scores(scores, self.input)
        height, classes = array.shape
        added = self._fresh(classes)
        target = as_labels(labels, height, classes)
        weight = as_weights(sample_weight, height)
        for tile in row_tiles(array, _TILE):
            probs, nll = self._enter(array[tile], target[tile], tile.start)
            data = Labelled(probs, target[tile], weight[tile], sample_weight is not None)
            _add_rows(added, data, nll_rows(data) if nll is None else nll)
        self._state = added if self._state is None else self._state + added
        return self

    def merge(self, other: CalibrationMeter) -> CalibrationMeter:
        """A new meter of the rows of both; the settings must be the same."""
        if self._settings() != other._settings():
            raise ValueError(
                "meters merge only where their settings are the same, "
                f"got {self._settings()} and {other._settings()}"
            )
        merged = CalibrationMeter(**self._settings())
        states = [state for state in (self._state, other._state) if state is not None]
        if len(states) == 2:
            _check_classes(states[0].classes, states[1].classes)
        if states:
            merged._state = sum(states[1:], start=states[0] + merged._fresh(states[0].classes))
        return merged

    def compute(self) -> MeterReport:
        """All metrics of the rows so far."""
        if self._state is None:
            raise ValueError("a meter must see at least one row before compute, got none")
        return report(self._state)

    # --- the state as flat vectors ---

    @property
    def counts(self) -> NDArray[np.int64]:
        """All counts as one flat vector (a copy); empty before the first row."""
        return np.zeros(0, np.int64) if self._state is None else self._state.counts.copy()

    @property
    def sums(self) -> Floats:
        """All sums as one flat vector (a copy); empty before the first row."""
        return np.zeros(0) if self._state is None else self._state.sums.copy()

    def to_json(self) -> str:
        """Settings and state as JSON text, every bit kept."""
        return files.to_json(self._document(), self.counts, self.sums)

    @classmethod
    def from_json(cls, text: str) -> CalibrationMeter:
        """The meter that ``to_json`` wrote."""
        return cls._from_document(files.from_json(text))

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table`` of one row (settings, counts, sums)."""
        return files.to_arrow(self._document(), self.counts, self.sums)

    @classmethod
    def from_arrow(cls, table: Any) -> CalibrationMeter:
        """The meter of a table; several rows (tables of several meters, joined) are merged."""
        first, *others = (cls._from_document(document) for document in files.from_arrow(table))
        for other in others:
            first = first.merge(other)
        return first

    # --- inside ---

    def _settings(self) -> dict[str, Any]:
        names = ("bins", "input", "rows", "classwise")
        return {name: getattr(self, name) for name in names}

    def _document(self) -> dict[str, Any]:
        classes = None if self._state is None else self._state.classes
        return {"settings": self._settings(), "classes": classes}

    @classmethod
    def _from_document(cls, document: dict[str, Any]) -> CalibrationMeter:
        meter = cls(**document["settings"])
        classes = document["classes"]
        if classes is None:
            return meter
        state = meter._fresh(classes)
        for mine, name in ((state.counts, "counts"), (state.sums, "sums")):
            if len(document[name]) != len(mine):
                raise ValueError(
                    f"{name} of a meter with {classes} classes must have {len(mine)} numbers, "
                    f"got {len(document[name])}"
                )
            mine[:] = document[name]
        meter._state = state
        return meter

    def _fresh(self, classes: int) -> MeterState:
        if self._state is not None:
            _check_classes(self._state.classes, classes)
        return MeterState.empty(self.bins, classes, self.classwise)

    def _enter(
        self, tile: Array, labels: NDArray[np.int64], first_row: int
    ) -> tuple[Array, Floats | None]:
        """Valid probabilities, and the rows' NLL where logits know it better."""
        tile = as_working_float(tile)
        xp = array_namespace(tile)
        if self.input == "probs":
            check_probabilities(tile, rows=self.rows, first_row=first_row)
            return (normalize_rows(tile) if self.rows == "normalize" else tile), None
        check_peaks(tile, xp.max(tile, axis=1), first_row)
        check_label_logits(to_numpy(take_class(tile, labels)), labels, first_row)
        logs = log_softmax(tile)
        return xp.exp(logs), -to_numpy(take_class(logs, labels)).astype(np.float64)


def _check_classes(first: int, second: int) -> None:
    if first != second:
        raise ValueError(f"a meter's rows must have the same classes, got {first} and {second}")


def _add_rows(state: MeterState, data: Labelled, nll: Floats) -> None:
    """Add the rows' counts and sums to a state, in place."""
    confidence, correct = data.top()
    index = bin_index(confidence, equal_width_edges(state.bins))
    squares = data.weight**2
    possible = np.isfinite(nll)
    state.count("rows")[...] += len(nll)
    state.count("impossible")[...] += np.count_nonzero(~possible & (data.weight > 0.0))
    state.count("bin_rows")[...] += np.bincount(index, minlength=state.bins)
    state.sum("weight")[...] += data.weight.sum()
    state.sum("weight_squares")[...] += squares.sum()
    scores = np.stack([correct, np.where(possible, nll, 0.0), brier_rows(data)])
    moments = [scores @ data.weight, scores @ squares, scores**2 @ squares]
    state.sum("moments")[...] += np.stack(moments, axis=1)
    state.sum("null_variance")[...] += np.bincount(
        index, squares * confidence * (1.0 - confidence), state.bins
    )
    state.sum("label_weight")[...] += np.bincount(data.labels, data.weight, data.classes)
    weight = data.given_weight
    bins = BinStats.from_confidence(confidence, correct, state.bins, weight)
    _add(state, "bins", bins)
    _add(state, "cells", cell_stats(confidence, correct, weight))
    _add(state, "kde_cells", cell_stats(*kde_columns(data), weight))
    if state.classwise:
        _add(state, "class_bins", class_stats(data, bins.edges))


def _add(state: MeterState, name: str, stats: BinStats) -> None:
    columns = (stats.weight, stats.confidence_sum, stats.correct_sum, stats.weight_squares)
    for mine, theirs in zip(state.sum(name), columns, strict=True):
        mine += theirs
