"""Modules whose optional package is not installed have no examples to run."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("numba") else ["src/calibrant/_compiled.py"]
