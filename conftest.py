"""What examples in modules and tests share.

Modules whose optional package is not installed have no examples to run; pictures open no window,
and figures are closed behind whoever made them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

os.environ.setdefault("MPLBACKEND", "agg")
collect_ignore = [] if find_spec("numba") else ["src/calibrant/_compiled.py"]
if not find_spec("matplotlib"):
    collect_ignore.append("src/calibrant/plots")


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """No figure outlives its test: pyplot warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
