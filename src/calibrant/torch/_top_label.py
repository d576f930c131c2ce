"""A new confidence for the top class alone: ``calibrators._arg_max.spread`` as a module."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._plan import Plan, TopLabelMap
from calibrant.calibrators._arg_max import CERTAIN
from calibrant.torch._tables import TableModule, keep_arg_max

SMALLEST_DIVISOR = 1e-300


class TopLabelModule(TableModule):
    """The largest probability through a table; the other classes share the rest."""

    def __init__(self, plan: Plan, formula: TopLabelMap) -> None:
        super().__init__(plan, formula.table)

    def _probabilities(self, logits: Tensor) -> Tensor:
        first, confidence, share, _ = self._spread(logits.double())
        # a tied class may not pass the first by a rounding error either
        others = ((1.0 - confidence) * share).minimum(confidence)
        return keep_arg_max(torch.where(first, confidence, others).to(logits.dtype), logits)

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        first, confidence, share, log_share = self._spread(logits.double())
        logs = torch.where(share > 0.0, share.log(), log_share) + (-confidence).log1p()
        return torch.where(first, confidence.log(), logs).to(logits.dtype)

    def _spread(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Which class is first, its confidence, and the others' shares and first log-shares."""
        gaps = logits - logits.amax(-1, keepdim=True)
        confidence = self._look_up(1.0 / gaps.exp().sum(-1, keepdim=True))
        top = logits.argmax(-1, keepdim=True)
        first = torch.zeros_like(logits).scatter(-1, top, 1.0) > 0.0
        rest = logits.masked_fill(first, -torch.inf)
        others = (rest > -torch.inf).sum(-1, keepdim=True).to(logits.dtype)
        second = rest.amax(-1, keepdim=True).masked_fill(others == 0.0, 0.0)
        weight = (rest - second).exp().sum(-1, keepdim=True)
        log_share = rest - second - weight.clamp(min=1.0).log()
        confidence = confidence.maximum(1.0 / (others + 1.0)).clamp(max=CERTAIN)
        confidence = confidence.masked_fill(others == 0.0, 1.0)
        finite = (rest > -torch.inf).to(logits.dtype)
        return (
            first,
            confidence,
            _evened(log_share.exp(), confidence, finite / others.clamp(min=1.0)),
            log_share,
        )


def _evened(share: Tensor, confidence: Tensor, equal: Tensor) -> Tensor:
    """Shares mixed with equal ones so far that (1 - confidence) * share <= confidence."""
    room = confidence / (1.0 - confidence).clamp(min=SMALLEST_DIVISOR)
    largest, even = share.amax(-1, keepdim=True), equal.amax(-1, keepdim=True)
    excess = (largest - room).clamp(min=0.0) / (largest - even).clamp(min=SMALLEST_DIVISOR)
    return share + excess.clamp(max=1.0) * (equal - share)
