"""One increasing function of all logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant.common.types import Array, Floats
from calibrant.formulas._base import FormulaRows, LogitMap
from calibrant.formulas._operations import Ops
from calibrant.formulas._serialization import (
    LARGEST,
    SMALLEST,
    checked_array,
    checked_number,
    require,
)
from calibrant.formulas.networks import checked_layers, network_output

FINEST = 1e-6  # the narrowest table, relative to its place: its ends differ in float32, too
FARTHEST = 1e12  # logits beyond it count as this: a quadrature of them stays finite in float32
MOST_NODES = 512  # of a quadrature: it takes a pass over the logits for each


@dataclass(frozen=True, eq=False)
class IncreasingTable(LogitMap):
    """One increasing function m of all logits, given by a table: softmax(m(z)).

    Parameters
    ----------
    low : float
        The first node of the table.
    high : float
        The last node.
    table : array of shape (nodes,)
        m at evenly spaced nodes; linear in between.
    outer_slope : float
        The slope of m below ``low`` and above ``high``.
    just_below : float, default 4
        So many epsilons below the largest is put what rounds to it but has a smaller logit.

    Notes
    -----
    softmax(m(z)). Every operation on the way is monotone in floating point too: of two logits the
    smaller one never gets the larger value.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas._array_operations import NUMPY
    >>> formula = IncreasingTable(-1.0, 1.0, [-2.0, 0.0, 1.0], 0.5)
    >>> formula.scores(FormulaRows(np.array([[-0.5, 0.5, 3.0]])), NUMPY)
    array([[-1. ,  0.5,  2. ]])
    """

    kind: ClassVar[str] = "increasing-table"
    keeps_arg_max: ClassVar[bool] = True

    low: float
    high: float
    table: Floats
    outer_slope: float
    just_below: float = 4.0

    def __post_init__(self) -> None:
        low, high = checked_number(self, "low"), checked_number(self, "high")
        narrowest = max(FINEST * max(abs(low), abs(high)), SMALLEST)
        require(low + narrowest < high, f"low must lie below high, got {low} and {high}")
        table = checked_array(self, "table", ndim=1)
        require(len(table) >= 2, f"the table must have at least two nodes, got {len(table)}")
        require(bool((np.diff(table) >= 0.0).all()), "the table must not fall")
        checked_number(self, "outer_slope", SMALLEST)
        checked_number(self, "just_below", 1.0, 1e3)

    def scores(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        inner, outer = self._parts(logits, ops)
        return inner + outer * ops.constant(self.outer_slope, logits)

    def gaps(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        # by parts, so that nothing overflows; what rounds to the largest is put just below
        inner, outer = self._parts(logits, ops)
        slope = ops.constant(self.outer_slope, logits)
        below = ops.gaps(inner) + ops.gaps(outer) * slope
        below = ops.minimum(below, -ops.eps(logits) * ops.constant(self.just_below, logits))
        return ops.where(logits < ops.max(logits), below, 0.0)

    def _parts(self, logits: Array, ops: Ops) -> tuple[Array, Array]:
        """The table's value at the nearest logit within, and how far the logit lies outside."""
        low, high = ops.constant(self.low, logits), ops.constant(self.high, logits)
        inside = ops.clip(logits, low, high)
        cells = float(self.table.shape[0] - 1)
        position = (inside - low) * (cells / (high - low))
        position = ops.clip(position, 0.0, cells)
        table = ops.constant(self.table, logits)
        return ops.interpolate(table, position), logits - inside


@dataclass(frozen=True, eq=False)
class QuadratureMap(LogitMap):
    """One function m of all logits, the integral of a positive network: softmax(m(z)).

    Parameters
    ----------
    kernels : tuple of arrays of shape (inputs, outputs)
        The network's kernels; the first has one input and the last one output.
    biases : tuple of arrays of shape (outputs,)
        The network's biases.
    nodes : array of shape (nodes,)
        The nodes of the integration rule, in [0, 1].
    weights : array of shape (nodes,)
        Its weights.
    smallest : float
        The smallest value of the integrand.

    Notes
    -----
    m(x) is the integral from 0 to x of g(t) = ELU(network(t)) + 1 + smallest, with ReLU between
    the layers: x / 2 times the sum of weight * g(node x). The rule is applied anew for every logit
    and preserves the order only up to its own error.

    Examples
    --------
    >>> import numpy as np
    >>> formula = QuadratureMap(([[0.0]],), ([1.0],), [0.0, 1.0], [1.0, 1.0], 1e-6)  # g = 2
    >>> formula(np.array([[0.5, 0.0]])).round(3)
    array([[0.731, 0.269]])
    """

    kind: ClassVar[str] = "quadrature-map"
    keeps_arg_max: ClassVar[bool] = False

    kernels: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    nodes: Floats
    weights: Floats
    smallest: float

    def __post_init__(self) -> None:
        outputs = checked_layers(self, np.array([FARTHEST]))
        require(len(outputs) == 1, f"the network must have one output, got {len(outputs)}")
        size = len(checked_array(self, "nodes", ndim=1, low=0.0, high=1.0))
        require(2 <= size <= MOST_NODES, f"the rule must have 2 to {MOST_NODES} nodes, got {size}")
        weights = checked_array(self, "weights", ndim=1, shape=(size,), low=0.0)
        growth = float(outputs[0]) + 1.0 + checked_number(self, "smallest", SMALLEST, 1.0)
        reach = FARTHEST * growth * float(weights.max())
        require(
            reach * size <= LARGEST,
            f"the integrals must not reach beyond {LARGEST:g}, got {reach * size:g}",
        )

    @property
    def widest(self) -> int:  # type: ignore[override]
        """The most numbers that a layer gives."""
        return max(int(bias.shape[0]) for bias in self.biases)

    def scores(self, rows: FormulaRows, ops: Ops) -> Array:
        logits = rows.logits
        masked = ops.is_masked(logits)
        ends = ops.clip(ops.where(masked, 0.0, logits), -FARTHEST, FARTHEST)
        nodes, weights = ops.constant(self.nodes, logits), ops.constant(self.weights, logits)
        total = ops.full_like(ends, 0.0)
        for index in range(self.nodes.shape[0]):
            part = slice(index, index + 1)
            points = ends * nodes[part]
            raw = ops.drop(network_output(self, ops.expand(points), ops))
            growth = ops.where(raw < 0.0, ops.exp(ops.minimum(raw, 0.0)), raw + 1.0)
            total = total + weights[part] * (growth + ops.constant(self.smallest, points))
        return ops.where(masked, -np.inf, 0.5 * ends * total)
