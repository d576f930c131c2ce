"""Scores that do not fit into memory: many files, or one that is larger than it.

A stream yields a few rows at a time. A calibrator is fitted on a reservoir of its rows, applied
shard by shard, and judged by meters, all of which add up: the same functions serve an array, a
folder of files, and (``calibrant.ray``) a cluster.
"""

from __future__ import annotations

from calibrant.scale.streams._applying import AppliedShards, apply_stream
from calibrant.scale.streams._evaluating import evaluate_stream
from calibrant.scale.streams._evaluating import judged as judged  # for the command line
from calibrant.scale.streams._fitting import fit_stream
from calibrant.scale.streams._sources import Batch
from calibrant.scale.streams._stream import ScoreStream, open_stream

__all__ = [
    "AppliedShards",
    "Batch",
    "ScoreStream",
    "apply_stream",
    "evaluate_stream",
    "fit_stream",
    "open_stream",
]
