"""One increasing function of all logits as nodes: DIAG."""

from __future__ import annotations

import numpy as np

from calibrant._plan import IncreasingLogits
from calibrant.onnx._builder import Tensor, where
from calibrant.onnx._temperatures import softmax


def increasing_logits(logits: Tensor, formula: IncreasingLogits) -> Tensor:
    """softmax(m(z)), by the parts of m within its table and beyond, so that nothing overflows."""
    inside = logits.at_least(formula.low).at_most(formula.high)
    inner, outer = _interpolated(inside, formula), logits - inside
    gaps = inner - inner.max() + (outer - outer.max()) * formula.outer_slope
    # a smaller logit whose m rounds to the same number is put just below
    just_below = -4.0 * float(np.finfo(logits.dtype).eps)
    smaller = logits < logits.max()
    return softmax(where(smaller, gaps.at_most(just_below), 0.0))


def _interpolated(inside: Tensor, formula: IncreasingLogits) -> Tensor:
    """The table at values within its range."""
    graph, cells = inside.graph, len(formula.table) - 1
    table = graph.constant(formula.table, inside.dtype)
    position = (inside - formula.low) * (cells / (formula.high - formula.low))
    position = position.at_least(0.0).at_most(float(cells))
    cell = position.at_most(float(cells - 1)).cast(np.int64)
    left = table.gather(cell)
    right = table.gather(cell + graph.number(1, np.int64))
    fraction = position - cell.cast(inside.dtype)
    return (left + fraction * (right - left)).at_most(right)
