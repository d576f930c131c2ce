"""What all calibrator modules share: the working float, buffers that keep their digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calibrant._plan import Plan


class CalibratorModule(nn.Module):
    """Scores (.., classes) in, calibrated probabilities of the same shape out.

    The scores are what the calibrator was fitted on: logits, where masked classes are -inf, or
    probabilities. Computes in float32 at least, under autocast too, and returns that float. All
    fitted numbers are buffers; ``.half()`` and the like move them but do not round them.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan

    def forward(self, scores: Tensor) -> Tensor:
        """Calibrated probabilities."""
        with _full_precision(scores):
            return self._probabilities(self._logits(scores))

    def log_proba(self, scores: Tensor) -> Tensor:
        """Their logarithms, finite where a probability is too small for its own float."""
        with _full_precision(scores):
            return self._log_probabilities(self._logits(scores))

    def extra_repr(self) -> str:
        """The method and what it takes."""
        return f"{self.plan.method}, input={self.plan.input!r}"

    # --- what a method fills in: functions of valid logits in float32 or float64 ---

    def _probabilities(self, logits: Tensor) -> Tensor:
        raise NotImplementedError

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        return self._probabilities(logits).log()

    # --- helpers ---

    def _logits(self, scores: Tensor) -> Tensor:
        self.plan.check_classes(scores.shape[-1])
        if not scores.dtype.is_floating_point:
            scores = scores.double()
        elif scores.dtype not in (torch.float32, torch.float64):
            scores = scores.float()
        return log_odds(scores) if self.plan.input == "probs" else scores

    def _keep(self, name: str, values: float | NDArray[Any]) -> None:
        """Store fitted numbers as a buffer, with all their digits."""
        self.register_buffer(name, torch.from_numpy(np.array(values)))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move buffers, but leave their floats: a calibrator in float16 is another calibrator."""
        for name, buffer in self._buffers.items():
            if buffer is not None:
                moved = fn(buffer)
                same = moved.dtype == buffer.dtype
                self._buffers[name] = moved if same else buffer.to(moved.device)
        return self


class TemperatureModule(CalibratorModule):
    """softmax(z / T), with a temperature a row."""

    def temperature(self, scores: Tensor) -> Tensor:
        """One temperature a row: the shape of the scores without their last dimension."""
        with _full_precision(scores):
            logits = self._logits(scores)
            return self._temperature(logits).expand(*logits.shape[:-1], 1)[..., 0]

    def _temperature(self, logits: Tensor) -> Tensor:
        """Temperatures (.., 1), or a number."""
        raise NotImplementedError

    def _probabilities(self, logits: Tensor) -> Tensor:
        return scaled_gaps(logits, self._temperature(logits)).softmax(-1)

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        return scaled_gaps(logits, self._temperature(logits)).log_softmax(-1)


def scaled_gaps(logits: Tensor, temperature: Tensor) -> Tensor:
    """(z - max z) / T; -inf stays -inf, and sends no NaN back to the temperature."""
    # a shift does not change a softmax, so its gradient is exactly 0 and need not be computed
    gaps = logits - logits.detach().amax(-1, keepdim=True)
    if not (gaps.requires_grad or temperature.requires_grad):
        return gaps / temperature
    masked = gaps == -torch.inf
    return (gaps.masked_fill(masked, 0.0) / temperature).masked_fill(masked, -torch.inf)


def log_odds(probs: Tensor) -> Tensor:
    """Probabilities as logits: log p minus its mean over the classes with p > 0."""
    positive = probs > 0.0
    logs = torch.where(positive, probs, 1.0).log()
    centred = logs - logs.sum(-1, keepdim=True) / positive.sum(-1, keepdim=True)
    return centred.masked_fill(~positive, -torch.inf)


def _full_precision(scores: Tensor) -> torch.autocast:
    return torch.autocast(scores.device.type, enabled=False)
