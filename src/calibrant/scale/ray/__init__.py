"""Clusters: the work of ``calibrant.streams`` on Ray, where states are merged and rows stay put.

``fit``, ``apply`` and ``evaluate`` take a ``ray.data.Dataset`` (``pip install "calibrant[ray]"``).
The results are those of one machine: the same rows are drawn, and meters add up.
"""

from __future__ import annotations

from calibrant.scale.ray._cluster import connected
from calibrant.scale.ray._datasets import apply, evaluate, fit

__all__ = ["apply", "connected", "evaluate", "fit"]
