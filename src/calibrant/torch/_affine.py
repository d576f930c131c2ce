"""Affine maps as a module."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from calibrant._plan import AffineMap, Plan
from calibrant.calibrators._affine import NARROW_CLASSES
from calibrant.calibrators._affine_map import LARGEST
from calibrant.torch._base import CalibratorModule, scaled_gaps


class AffineModule(CalibratorModule):
    """softmax(u W + b); masked classes keep 0, and are read as the smallest feature of a row."""

    slopes: Tensor
    intercept: Tensor
    fitted_temperature: Tensor
    smoothing: Tensor

    def __init__(self, plan: Plan, formula: AffineMap) -> None:
        super().__init__(plan)
        self.reads, self.full = formula.reads, formula.slopes.ndim == 2
        # large matrices are fitted in float32: another float would be cast on every call
        narrow = self.full and plan.n_classes >= NARROW_CLASSES
        self._keep("slopes", formula.slopes.astype(np.float32 if narrow else np.float64))
        self._keep("intercept", formula.intercept)
        self._keep("fitted_temperature", formula.temperature)
        self._keep("smoothing", formula.smoothing)

    def _probabilities(self, logits: Tensor) -> Tensor:
        return self._scores(logits).softmax(-1)

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        return self._scores(logits).log_softmax(-1)

    def _scores(self, logits: Tensor) -> Tensor:
        masked = logits == -torch.inf
        features = self._features(logits.clamp(-LARGEST, LARGEST), masked)
        smallest = features.masked_fill(masked, torch.inf).amin(-1, keepdim=True)
        features = torch.where(masked, smallest, features)
        slopes, intercept = self.slopes.to(logits.dtype), self.intercept.to(logits.dtype)
        moved = features @ slopes if self.full else features * slopes
        return (moved + intercept).masked_fill(masked, -torch.inf)

    def _features(self, logits: Tensor, masked: Tensor) -> Tensor:
        """What the map reads of bounded logits."""
        if self.reads == "logits":
            return logits
        if self.reads == "log-probs":
            return logits.log_softmax(-1)
        kind = logits.dtype
        present = (~masked).to(kind)
        uniform = present / present.sum(-1, keepdim=True)
        scaled = scaled_gaps(logits, self.fitted_temperature.to(kind)).softmax(-1)
        smooth = torch.lerp(scaled, uniform, self.smoothing.to(kind))
        return torch.where(smooth > 0.0, smooth, 1.0).log()
