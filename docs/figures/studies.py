"""What the figures of the two studies share: their results, and a color for each method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
COLORS = {
    "ts": "#0072b2",
    "ets": "#56b4e9",
    "vector": "#cc79a7",
    "irova": "#999999",
    "pts": "#e69f00",
    "mpts": "#d55e00",
    "monotone": "#f0e442",
    "auto": "#009e73",
}


def records(study: str) -> list[dict[str, Any]]:
    """The committed results of a study."""
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{study}.json").read_text())
    return found


def tidy(axes: Axes) -> None:
    """Leave out lines that say nothing."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
