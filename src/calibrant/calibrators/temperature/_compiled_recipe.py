"""Steps of the published fit in machine code, where there is a Numba that works."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.backends.numba import paper_steps as code
from calibrant.calibrators.profile.log_partition import (
    B_MIN,
    HERMITE,
    HERMITE_SLOPE,
    NODES_PER_OCTAVE,
    STEP,
    GapRows,
)
from calibrant.calibrators.temperature._paper_recipe import (
    BETA1,
    BETA2,
    EPSILON,
    LARGEST,
    SMALLEST,
    Descent,
)
from calibrant.common.types import Floats


class CompiledSteps:
    """What ``_paper_recipe.NumpySteps`` does, several times faster.

    Rows outside of a profile's grid, mostly those of the first steps, have their slopes from
    ``ProfileLoss``.
    """

    def __init__(self, descent: Descent) -> None:
        problem, profile = descent.problem, descent.problem.profile
        rows = profile._block.rows
        self.problem = problem
        self.widths = np.array([fan_in for fan_in, _ in descent.sizes] + [1], np.int64)
        self.network = descent.flat, self.widths, descent.linear
        self.inputs, self.label_gap = _plain(descent.inputs), _plain(problem.label_gap)
        self.row_weight, self.decay = _plain(descent.row_weight), _plain(descent.decay)
        self.clip = np.array([SMALLEST, LARGEST])
        self.constants = np.array([1.0 - BETA1, 1.0 - BETA2, EPSILON])
        self.moments = np.zeros((2, len(descent.flat)))
        self.scratch: dict[int, tuple[Floats, Floats]] = {}
        shares = np.array([problem.brier_share, problem.nll_share])
        self.source: tuple[Any, ...] = shares, float(profile.scale)
        if isinstance(rows, GapRows):
            self.slopes = code.slopes_on_gaps
            self.source += (_plain(rows.by_row, np.float32),)
        else:
            self.slopes = code.slopes_on_nodes
            nodes = _plain(rows.nodes, np.float32).reshape(len(rows.nodes), -1)
            grid = np.array([np.log(B_MIN), STEP])
            self.source += (nodes, HERMITE, HERMITE_SLOPE, grid, NODES_PER_OCTAVE)

    def __call__(self, batch: NDArray[np.intp], rate: float) -> None:
        """Move the weights by one step."""
        layers, slope = self._scratch(-(-len(batch) // code.ROWS))
        code.forward(*self.network, self.inputs, batch, layers)
        if self.slopes(batch, layers, slope, self.clip, self.label_gap, *self.source):
            self._slopes_outside(batch, layers, slope.reshape(-1))
        code.descend(
            *(*self.network, batch, layers, slope, self.clip, self.row_weight),
            *(self.decay, self.moments, rate, self.constants),
        )

    def _slopes_outside(self, batch: NDArray[np.intp], layers: Floats, slope: Floats) -> None:
        where = np.flatnonzero(np.isnan(slope[: len(batch)]))
        raw = layers[where // code.ROWS, -1, where % code.ROWS]
        temperature = np.clip(np.abs(raw), *self.clip)
        slope[where] = self.problem.slopes(-np.log(temperature), batch[where])

    def _scratch(self, blocks: int) -> tuple[Floats, Floats]:
        """Room for the layers of a batch and for its slopes."""
        if blocks not in self.scratch:
            units = int(self.widths.sum())
            self.scratch[blocks] = (
                np.empty((blocks, units, code.PITCH)),
                np.empty((blocks, code.ROWS)),
            )
        return self.scratch[blocks]


def _plain(values: Any, kind: type = np.float64) -> NDArray[Any]:
    """The array as machine code reads it: of this kind, in one piece, aligned."""
    return np.require(values, kind, ["C", "A"])
