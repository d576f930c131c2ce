"""TemperatureProfile: all that temperatures can do to a set of logits, from one pass over them."""

from calibrant.calibrators.profile.temperature_profile import TemperatureProfile

__all__ = ["TemperatureProfile"]
