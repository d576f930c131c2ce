"""Calibrators as PyTorch modules, and profiles of a model's logits from a data loader.

>>> import calibrant, torch
>>> from calibrant.torch import to_module
>>> ts = calibrant.TS().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
>>> to_module(ts)(torch.tensor([[1.0, 0.0]])).sum().item()
1.0
"""

from __future__ import annotations

from calibrant.common.extras import need

need("torch", "torch", "calibrant.torch needs")  # PyTorch: absolute imports do not see this package

from calibrant.backends.torch._collect import collect_logits  # noqa: E402
from calibrant.backends.torch._modules import (  # noqa: E402
    CalibratedModule,
    CalibratorModule,
    to_module,
)

__all__ = ["CalibratedModule", "CalibratorModule", "collect_logits", "to_module"]
