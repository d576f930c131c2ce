"""Maps through one table for all classes, in float64: a step is as sharp as its float."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._plan import ColumnMap, Plan, Table
from calibrant.torch._base import CalibratorModule, scaled_gaps


class TableModule(CalibratorModule):
    """Numbers looked up in a table."""

    edges: Tensor
    value: Tensor
    slope: Tensor
    anchor: Tensor

    def __init__(self, plan: Plan, table: Table) -> None:
        super().__init__(plan)
        self.inclusive = table.inclusive
        self._keep("edges", table.edges[0])
        self._keep("value", table.value[0])
        if table.slope is not None and table.anchor is not None:
            self._keep("slope", table.slope[0])
            self._keep("anchor", table.anchor[0])

    def _look_up(self, values: Tensor) -> Tensor:
        place = torch.searchsorted(self.edges, values.detach().contiguous(), right=self.inclusive)
        if not self.inclusive:
            return self.value[place]
        return self.value[place] + self.slope[place] * (values - self.anchor[place])


class SharedMapModule(TableModule):
    """Every probability through the same increasing function."""

    fitted_temperature: Tensor
    tie_break: Tensor

    def __init__(self, plan: Plan, formula: ColumnMap) -> None:
        super().__init__(plan, formula.table)
        self.normalize = formula.normalize
        self._keep("fitted_temperature", formula.temperature)
        self._keep("tie_break", formula.tie_break)

    def _probabilities(self, logits: Tensor) -> Tensor:
        values, total = self._values(logits)
        return keep_arg_max((values / total).to(logits.dtype), logits)

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        """Where a value underflows, only its tie break is left, whose logarithm is known."""
        values, total = self._values(logits)
        gaps = scaled_gaps(logits.double(), self.fitted_temperature)
        floor = self.tie_break.log() + gaps.log_softmax(-1)
        logs = torch.where(values > 0.0, torch.where(values > 0.0, values, 1.0).log(), floor)
        return (logs - total.log()).to(logits.dtype)

    def _values(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        probs = scaled_gaps(logits.double(), self.fitted_temperature).softmax(-1)
        values = self._look_up(probs) + self.tie_break * probs
        values = values.masked_fill(logits == -torch.inf, 0.0)
        total = values.sum(-1, keepdim=True)
        return values, total if self.normalize else torch.ones_like(total)


def keep_arg_max(values: Tensor, logits: Tensor) -> Tensor:
    """Values in which no class with a smaller logit reaches that of the (first) largest one."""
    top = logits.argmax(-1, keepdim=True)
    best = values.gather(-1, top)
    reached = (values >= best) & (logits < logits.gather(-1, top))
    # half an epsilon less is the float below
    return torch.where(reached, best * (1.0 - torch.finfo(values.dtype).eps / 2.0), values)
