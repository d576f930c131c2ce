"""One increasing function of all logits as a module: DIAG."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._plan import IncreasingLogits, Plan
from calibrant.torch._base import CalibratorModule


class IncreasingModule(CalibratorModule):
    """softmax(m(z)), by the parts of m within its table and beyond, so that nothing overflows."""

    low: Tensor
    high: Tensor
    table: Tensor
    outer_slope: Tensor

    def __init__(self, plan: Plan, formula: IncreasingLogits) -> None:
        super().__init__(plan)
        self._keep("low", formula.low)
        self._keep("high", formula.high)
        self._keep("table", formula.table)
        self._keep("outer_slope", formula.outer_slope)

    def _probabilities(self, logits: Tensor) -> Tensor:
        return self._gaps(logits).softmax(-1)

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        return self._gaps(logits).log_softmax(-1)

    def _gaps(self, logits: Tensor) -> Tensor:
        """m(z) minus its row's maximum."""
        kind = logits.dtype
        inside = logits.clamp(self.low.to(kind), self.high.to(kind))
        inner, outer = self._interpolated(inside), logits - inside
        below = inner - inner.amax(-1, keepdim=True)
        below = below + (outer - outer.amax(-1, keepdim=True)) * self.outer_slope.to(kind)
        # a smaller logit whose m rounds to the same number is put just below
        below = below.clamp(max=-4.0 * torch.finfo(kind).eps)
        return torch.where(logits < logits.amax(-1, keepdim=True), below, 0.0)

    def _interpolated(self, inside: Tensor) -> Tensor:
        """The table at values within its range."""
        table, cells = self.table.to(inside.dtype), len(self.table) - 1
        scale = (cells / (self.high - self.low)).to(inside.dtype)
        position = ((inside - self.low.to(inside.dtype)) * scale).clamp(0.0, cells)
        cell = position.detach().long().clamp(max=cells - 1)
        left, right = table[cell], table[cell + 1]
        return torch.minimum(left + (position - cell) * (right - left), right)
