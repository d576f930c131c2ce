"""The temperature family as modules."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from calibrant._plan import ConstantTemperature, Mixture, NetworkTemperature, Plan
from calibrant.calibrators._anchored import RANGE
from calibrant.calibrators._paper_recipe import LARGEST, SMALLEST
from calibrant.calibrators.hts import SMALLEST_ENTROPY
from calibrant.calibrators.parameterized import SMALLEST_GAP
from calibrant.torch._base import CalibratorModule, TemperatureModule, scaled_gaps


class ConstantTemperatureModule(TemperatureModule):
    """One temperature for all rows."""

    value: Tensor

    def __init__(self, plan: Plan, formula: ConstantTemperature) -> None:
        super().__init__(plan)
        self._keep("value", formula.temperature)

    def _temperature(self, logits: Tensor) -> Tensor:
        return self.value.to(logits.dtype)


class NetworkTemperatureModule(TemperatureModule):
    """A temperature from a small network on a few numbers of the row."""

    gap_unit: Tensor
    low: Tensor
    high: Tensor
    base_temperature: Tensor

    def __init__(self, plan: Plan, formula: NetworkTemperature) -> None:
        super().__init__(plan)
        self.reads, self.top = formula.reads, formula.top
        self.linear, self.clip_logits = formula.linear, formula.clip_logits
        self.published = formula.base_temperature is None
        self.depth = len(formula.layers)
        self._keep("gap_unit", formula.gap_unit)
        self._keep("low", formula.low)
        self._keep("high", formula.high)
        self._keep("base_temperature", formula.base_temperature or 1.0)
        for index, (kernel, bias) in enumerate(formula.layers):
            self._keep(f"kernel{index}", kernel.T)
            self._keep(f"bias{index}", bias)

    def _logits(self, scores: Tensor) -> Tensor:
        logits = super()._logits(scores)
        if self.clip_logits is None:
            return logits
        return logits.clamp(-self.clip_logits, self.clip_logits)

    def _temperature(self, logits: Tensor) -> Tensor:
        values = self._inputs(logits)
        kind = values.dtype
        values = values.clamp(self.low.to(kind), self.high.to(kind))
        for index in range(self.depth):
            kernel, bias = getattr(self, f"kernel{index}"), getattr(self, f"bias{index}")
            values = functional.linear(values, kernel.to(kind), bias.to(kind))
            if index < self.depth - 1 and not self.linear:
                values = values.relu()
        if self.published:
            return values.abs().clamp(SMALLEST, LARGEST)
        mean = (values / RANGE).tanh().mean(-1, keepdim=True)
        return self.base_temperature.to(kind) * (RANGE * mean).exp()

    def _inputs(self, logits: Tensor) -> Tensor:
        if self.reads == "entropy":
            return entropy_share(logits)
        top = top_k(logits, self.top)
        if self.reads == "logits":
            return top
        gaps = top[..., :1] - top[..., 1:]
        if self.reads == "margin":
            return gaps
        gaps = (gaps / self.gap_unit.to(gaps.dtype) + SMALLEST_GAP).log()
        return torch.cat([top[..., :1], gaps], dim=-1)


class MixtureModule(CalibratorModule):
    """w1 softmax(z / T) + w2 softmax(z) + w3 uniform over the finite classes."""

    fitted_temperature: Tensor
    scaled: Tensor
    plain: Tensor
    uniform: Tensor

    def __init__(self, plan: Plan, formula: Mixture) -> None:
        super().__init__(plan)
        self._keep("fitted_temperature", formula.temperature)
        self._keep("scaled", formula.weights[0])
        self._keep("plain", formula.weights[1])
        self._keep("uniform", formula.weights[2])

    def _probabilities(self, logits: Tensor) -> Tensor:
        kind = logits.dtype
        finite = (logits > -torch.inf).to(kind)
        parts = self.scaled.to(kind) * scaled_gaps(
            logits, self.fitted_temperature.to(kind)
        ).softmax(-1)
        parts = parts + self.plain.to(kind) * logits.softmax(-1)
        return parts + self.uniform.to(kind) * (finite / finite.sum(-1, keepdim=True))

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        kind = logits.dtype
        masked = logits == -torch.inf
        count = (~masked).sum(-1, keepdim=True).to(kind)
        uniform = torch.zeros_like(logits) - count.log()
        logs = [
            scaled_gaps(logits, self.fitted_temperature.to(kind)).log_softmax(-1),
            logits.log_softmax(-1),
            uniform,
        ]
        weights = [self.scaled, self.plain, self.uniform]
        parts = [part + weight.to(kind).log() for part, weight in zip(logs, weights, strict=True)]
        safe = [part.masked_fill(masked, 0.0) for part in parts]
        return torch.stack(safe).logsumexp(0).masked_fill(masked, -torch.inf)


def top_k(logits: Tensor, k: int) -> Tensor:
    """The k largest logits; the smallest finite one among them stands for masked classes."""
    top = logits.topk(k, dim=-1).values
    masked = top == -torch.inf
    smallest = torch.where(masked, top[..., :1], top).amin(-1, keepdim=True)
    return torch.where(masked, smallest, top)


def entropy_share(logits: Tensor) -> Tensor:
    """log of the entropy of softmax(z) over that of the uniform distribution.

    With g = z - max z and r the sum of exp(g) over all classes but one of the largest, the entropy
    is log(1 + r) - sum(g exp(g)) / (1 + r): no digit of a certain row's small entropy is lost.
    """
    top = logits.argmax(-1, keepdim=True)
    masked = logits == -torch.inf
    gaps = (logits - logits.gather(-1, top)).masked_fill(masked, 0.0)
    weight = gaps.exp().masked_fill(masked, 0.0)
    first = torch.zeros_like(gaps).scatter(-1, top, 1.0)
    rest = (weight * (1.0 - first)).sum(-1, keepdim=True)
    entropy = rest.log1p() - (gaps * weight).sum(-1, keepdim=True) / (1.0 + rest)
    classes = (~masked).sum(-1, keepdim=True).to(logits.dtype)
    return (entropy / classes.clamp(min=2.0).log()).clamp(min=SMALLEST_ENTROPY).log()
