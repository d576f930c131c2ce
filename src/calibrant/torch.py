"""Calibrators as PyTorch modules, and profiles of a model's logits from a data loader."""

from calibrant.backends.torch import CalibratedModule, CalibratorModule, collect_logits, to_module

__all__ = ["CalibratedModule", "CalibratorModule", "collect_logits", "to_module"]
