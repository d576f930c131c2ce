"""Probabilities judged by the metrics that a table shows."""

from __future__ import annotations

import inspect
from typing import Any


def judge(probs: Any, labels: Any, bins: int) -> dict[str, float]:
    """The metrics of one set of probabilities, as fractions."""
    from calibrant import metrics

    return {
        "accuracy": metrics.accuracy(probs, labels),
        "ece": metrics.ece(probs, labels, n_bins=bins),
        "brier": metrics.brier(probs, labels),
        "nll": metrics.nll(probs, labels),
    }


def default_bins() -> int:
    """The bins that `calibrant.metrics.ece` takes where none are given."""
    from calibrant.metrics import ece

    return int(inspect.signature(ece).parameters["n_bins"].default)
