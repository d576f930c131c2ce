"""Maps of the log-odds of two classes as a module, in float64."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from calibrant._plan import Plan, TwoClassMap
from calibrant.torch._base import CalibratorModule


class TwoClassModule(CalibratorModule):
    """Log-odds a ln p - b ln(1 - p) + c; Platt scaling is a = b."""

    a: Tensor
    b: Tensor
    c: Tensor

    def __init__(self, plan: Plan, formula: TwoClassMap) -> None:
        super().__init__(plan)
        self._keep("a", formula.a)
        self._keep("b", formula.b)
        self._keep("c", formula.c)

    def _probabilities(self, logits: Tensor) -> Tensor:
        return self._margins(logits).sigmoid().to(logits.dtype)

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        return logsigmoid(self._margins(logits)).to(logits.dtype)

    def _margins(self, logits: Tensor) -> Tensor:
        """The new log-odds of class 0 and of class 1; infinite where a class is masked."""
        score = logits[..., 1].double() - logits[..., 0].double()
        finite = score.isfinite()
        safe = score.where(finite, 0.0)
        new = self.a * logsigmoid(safe) - self.b * logsigmoid(-safe) + self.c
        margin = torch.where(finite, new, score)
        return torch.stack([-margin, margin], dim=-1)
