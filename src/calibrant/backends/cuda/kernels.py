"""CUDA kernels, compiled when first needed; importing this needs PyTorch, using it an NVIDIA GPU.

What each does is in its source: ``calibrate.cu`` and ``profile.cu`` on ``rows.cuh``, which says how
threads share rows. ``_layout`` chooses that, ``_driver`` compiles and launches.
"""

from __future__ import annotations

from calibrant.backends.cuda._calibrate import (
    CONSTANT,
    INPUTS,
    MIXTURE,
    NETWORK,
    Answer,
    Numbers,
    Plan,
    calibrate,
)
from calibrant.backends.cuda._profile import Grid, profile_of

__all__ = [
    "CONSTANT",
    "INPUTS",
    "MIXTURE",
    "NETWORK",
    "Answer",
    "Grid",
    "Numbers",
    "Plan",
    "calibrate",
    "profile_of",
]
