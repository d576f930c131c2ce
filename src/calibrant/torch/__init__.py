"""Calibrators as PyTorch modules, and profiles of a model's logits from a data loader.

>>> import calibrant, torch
>>> from calibrant.torch import to_module
>>> ts = calibrant.TS().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
>>> to_module(ts)(torch.tensor([[1.0, 0.0]])).sum().item()
1.0
"""

from __future__ import annotations

try:
    import torch  # noqa: F401 - PyTorch itself: absolute imports do not see this package
except ImportError as error:
    raise ImportError('calibrant.torch needs PyTorch: pip install "calibrant[torch]"') from error

from calibrant.torch._base import CalibratorModule
from calibrant.torch._collect import collect_logits
from calibrant.torch._convert import CalibratedModule, to_module

__all__ = ["CalibratedModule", "CalibratorModule", "collect_logits", "to_module"]
