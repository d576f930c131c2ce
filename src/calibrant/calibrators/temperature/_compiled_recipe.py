"""Steps of the published fit in machine code, where there is a Numba that works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant import _compiled_steps as code
from calibrant._losses import ProfileLoss
from calibrant._partition import (
    B_MIN,
    HERMITE,
    HERMITE_SLOPE,
    NODES_PER_OCTAVE,
    STEP,
    GapRows,
)
from calibrant._types import Floats


class CompiledSteps:
    """What ``_paper_recipe.NumpySteps`` does, several times faster.

    Rows outside of a profile's grid are few, and have their slopes from ``ProfileLoss``.
    """

    def __init__(
        self,
        problem: ProfileLoss,
        inputs: Floats,
        flat: Floats,
        sizes: Sequence[tuple[int, int]],
        *,
        linear: bool,
        decay: Floats,
        row_weight: Floats,
        clip: tuple[float, float],
        constants: tuple[float, float, float],
    ) -> None:
        profile, rows = problem.profile, problem.profile._block.rows
        self.problem, self.flat, self.clip = problem, flat, np.array(clip)
        self.widths = np.array([fan_in for fan_in, _ in sizes] + [1])
        self.network = flat, self.widths, linear
        self.inputs, self.label_gap = np.ascontiguousarray(inputs), problem.label_gap
        self.row_weight, self.decay = row_weight, decay
        self.moments = np.zeros((2, len(flat)))
        self.constants = np.array(constants)
        self.scratch: dict[int, tuple[Floats, Floats]] = {}
        numbers = np.array([np.log(B_MIN), STEP, problem.brier_share, problem.nll_share])
        self.source: tuple[Any, ...]
        if isinstance(rows, GapRows):
            self.slopes = code.on_gaps
            self.source = rows.by_row, profile.scale, numbers
        else:
            self.slopes = code.on_nodes
            pieces = HERMITE, HERMITE_SLOPE, numbers, NODES_PER_OCTAVE
            self.source = rows.nodes.reshape(-1), profile.scale, *pieces

    def __call__(self, batch: NDArray[np.intp], rate: float) -> None:
        """Move the weights by one step."""
        layers, slope = self._scratch(-(-len(batch) // code.ROWS))
        given = self.inputs, batch, layers, slope, self.clip, self.label_gap
        if self.slopes(*self.network, *given, *self.source):
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
