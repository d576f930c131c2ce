"""Machine code by Numba: predictions of the temperature family, steps of the published PTS fit."""
