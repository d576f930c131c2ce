"""Scores that do not fit into memory: many files, or one that is larger than it."""

from calibrant.scale.streams import (
    AppliedShards,
    Batch,
    ScoreStream,
    apply_stream,
    evaluate_stream,
    fit_stream,
    open_stream,
)

__all__ = [
    "AppliedShards",
    "Batch",
    "ScoreStream",
    "apply_stream",
    "evaluate_stream",
    "fit_stream",
    "open_stream",
]
