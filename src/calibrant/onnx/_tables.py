"""Step and line maps as nodes. All is computed in float64: a step is as sharp as its float."""

from __future__ import annotations

import numpy as np

from calibrant._plan import ColumnMap, Floats, Table, TopLabelMap
from calibrant.calibrators._arg_max import CERTAIN
from calibrant.calibrators.pbmc import CLIP
from calibrant.onnx._builder import Tensor, is_masked, where
from calibrant.onnx._temperatures import scaled_gaps, softmax

SMALLEST_DIVISOR = 1e-300


def column_map(logits: Tensor, formula: ColumnMap) -> Tensor:
    """Every class' probability through its table, then a distribution."""
    probs = softmax(logits.cast(np.float64), formula.temperature)
    values = look_up(probs if formula.sigmoid is None else _sigmoid(probs, formula), formula.table)
    if formula.kept is not None and formula.kept.any():
        kept = probs.graph.constant(formula.kept, bool)
        values = where(kept, probs, values)
    if formula.tie_break:
        values = values + probs * formula.tie_break
    values = where(is_masked(logits), values.filled_like(0.0), values)
    if formula.normalize:
        values = values / values.sum()
    result = values.cast(logits.dtype)
    return keep_arg_max(result, logits) if formula.keep_arg_max else result


def _sigmoid(probs: Tensor, formula: ColumnMap) -> Tensor:
    """sigma(a x + b) of each class' log-odds x."""
    assert formula.sigmoid is not None
    slope, intercept = (probs.graph.constant(row, np.float64) for row in formula.sigmoid)
    inside = probs.at_least(CLIP).at_most(1.0 - CLIP)
    log_odds = inside.log() - (1.0 - inside).log()
    return 1.0 / ((-(log_odds * slope + intercept)).exp() + 1.0)


def look_up(values: Tensor, table: Table) -> Tensor:
    """Values (.., columns) through the functions of a table."""
    width = 1 << (table.value.shape[1] - 1).bit_length()  # places a column, a power of two
    place = _place(values, table, width)
    found = _flat(values, table.value, width).gather(place)
    if table.slope is None or table.anchor is None:
        return found
    run = values - _flat(values, table.anchor, width).gather(place)
    return found + _flat(values, table.slope, width).gather(place) * run


def _place(values: Tensor, table: Table, width: int) -> Tensor:
    """Where each value stands in its column's flattened table: a binary search, unrolled.

    Every round compares the edge in the middle of what is left: the place moves past it or stays.
    """
    graph = values.graph
    start = graph.constant(np.arange(len(table.edges)) * width, np.int64)
    place = values.filled_like(0.0).cast(np.int64) + start
    if width == 1:
        return place
    edges = _flat(values, table.edges, width, np.inf)
    step = width // 2
    while step:
        probe = edges.gather(place + graph.number(step - 1, np.int64))
        passed = probe <= values if table.inclusive else probe < values
        place = place + passed.cast(np.int64) * graph.number(step, np.int64)
        step //= 2
    return place


def _flat(values: Tensor, part: Floats, width: int, fill: float = 0.0) -> Tensor:
    """A part of a table, its columns filled up to ``width`` and laid end to end."""
    wide = np.full((len(part), width), fill)
    wide[:, : part.shape[1]] = part
    return values.graph.constant(wide.reshape(-1), np.float64)


def top_label_map(logits: Tensor, formula: TopLabelMap, classes: int) -> Tensor:
    """A new confidence for the top class; the others share the rest."""
    wide = logits.cast(np.float64)
    confidence = 1.0 / scaled_gaps(wide, 1.0).exp().sum()
    result = _spread(wide, look_up(confidence, formula.table), classes)
    return keep_arg_max(result.cast(logits.dtype), logits)


def _spread(logits: Tensor, confidence: Tensor, classes: int) -> Tensor:
    """``calibrant.calibrators._arg_max.spread`` as nodes."""
    first = logits.arg_max().same_as(logits.graph.constant(np.arange(classes), np.int64))
    rest = where(first, logits.filled_like(-np.inf), logits)
    second = rest.max()
    alone = is_masked(second)  # no other class is left
    weight = (rest - where(alone, second.filled_like(0.0), second)).exp()
    share = weight / weight.sum().at_least(1.0)
    others = (rest > -np.inf).cast(np.float64).sum()
    confidence = confidence.at_least(1.0 / (others + 1.0)).at_most(CERTAIN)
    confidence = where(alone, confidence.filled_like(1.0), confidence)
    room = confidence / (1.0 - confidence).at_least(SMALLEST_DIVISOR)
    even = 1.0 / others.at_least(1.0)
    largest = share.max()
    excess = (largest - room).at_least(0.0) / (largest - even).at_least(SMALLEST_DIVISOR)
    evenly = (logits > -np.inf).cast(np.float64) * even
    share = share + excess.at_most(1.0) * (evenly - share)
    # a tied class may not pass the first by a rounding error either
    others_get = ((1.0 - confidence) * share).at_most(confidence)
    return where(first, confidence, others_get)


def keep_arg_max(values: Tensor, logits: Tensor) -> Tensor:
    """Values in which no class with a smaller logit reaches that of the (first) largest one."""
    best = values.pick(logits.arg_max())
    reached = (values >= best) & (logits < logits.max())
    below = best * (1.0 - float(np.finfo(values.dtype).eps) / 2.0)  # the float below
    return where(reached, below, values)
