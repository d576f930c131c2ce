"""Clusters: the work of ``calibrant.streams`` on Ray, where states are merged and rows stay put."""

from calibrant.scale.ray import apply, connected, evaluate, fit

__all__ = ["apply", "connected", "evaluate", "fit"]
