"""Real logits that come with the package."""

from calibrant.data.datasets import LogitData, load, names, read

__all__ = ["LogitData", "load", "names", "read"]
