"""Joint methods: an increasing map, a temperature per row and a class map, one after the other."""

from calibrant.calibrators.joint.monotone import MonotonePTS
from calibrant.calibrators.joint.structured import StructuredPTS

__all__ = ["MonotonePTS", "StructuredPTS"]
