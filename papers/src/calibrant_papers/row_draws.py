"""A metric of one row of results, and how it moves where the test rows are drawn anew."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.metrics import kde_ece
from calibrant_papers._types import Floats
from calibrant_papers.experiments import BINS
from calibrant_papers.logit_sets import PAPER_ROWS, STAND_INS
from calibrant_papers.per_row import unpacked
from calibrant_papers.summary import PERCENT, Results

DRAWS = 400
KDE_DRAWS = 100  # each is a density: they are repeated to make as many as the others


def point_and_draws(results: Results, row: dict[str, Any], metric: str, bins: int) -> Floats:
    """The metric (points), then its deviations; made once, for many claims read the same.

    "excess" is the ECE beyond what a calibrated model would show by chance; its deviations are
    those of the ECE.
    """
    names = ("data", "method", "seed", "fraction", "width")
    key = (*(row[name] for name in names), row.get("top_k"), metric, bins)
    if key not in results.drawn:
        draws = _row_draws(row, "ece" if metric == "excess" else metric, bins)
        results.drawn[key] = np.concatenate([[_point(row, metric, bins)], draws])
    return results.drawn[key]


def _point(row: dict[str, Any], metric: str, bins: int) -> float:
    if metric == "excess":
        return PERCENT * (row["ece"] - chance(row))
    if metric == "ece" and bins != BINS:
        confidence, hit = _judged(row)
        return PERCENT * float(np.abs(_sums(confidence, confidence - hit, bins)).sum() / len(hit))
    value = row[metric]
    return PERCENT * value if value is not None else np.nan


def chance(row: dict[str, Any]) -> float:
    """The mean ECE where every row is right with the probability that it says.

    A bin's gap is then nearly normal, and its size has the mean sqrt(2 / pi) times its deviation.
    """
    confidence = np.minimum(_judged(row)[0], 1.0)
    variances = _sums(confidence, confidence * (1.0 - confidence), BINS)
    return float(np.sqrt(2.0 / np.pi * variances).sum() / len(confidence))


def add_excess(results: Results) -> None:
    """Write the ECE beyond chance into every row."""
    for row in results.rows:
        row["excess"] = row["ece"] - chance(row)


def _row_draws(row: dict[str, Any], metric: str, bins: int) -> Floats:
    """Deviations (points) around 0: drawing rows again makes any ECE larger, which is no news."""
    rows = row["test_rows"]
    weights = _weights(_images(row["data"]), row["seed"], rows)
    if metric in ("gain", "brier", "nll"):
        values = unpacked(row["per_row"], "nll" if metric == "nll" else "brier", rows)
        if not np.isfinite(values).all():  # a true class with 0: the metric itself has no value
            return np.zeros(DRAWS)
        means = weights @ values.astype(np.float32)
        drawn = -means if metric == "gain" else means
    elif metric == "accuracy":
        drawn = weights @ _judged(row)[1].astype(np.float32)
    elif metric == "kde_ece":
        drawn = np.resize(_kde_draws(row), DRAWS)
    else:
        confidence, hit = _judged(row)
        table = np.zeros((rows, bins), np.float32)
        table[np.arange(rows), _bin_of(confidence, bins)] = confidence - hit
        drawn = np.abs(weights @ table).sum(axis=1)
    return np.asarray(PERCENT * (drawn - drawn.mean()), np.float64)


def _kde_draws(row: dict[str, Any]) -> Floats:
    """The KDE-ECE of the first draws. That the row is right is class 1 of two."""
    texts, rows = row["per_row"], row["test_rows"]
    share = unpacked(texts, "share" if "share" in texts else "confidence", rows)
    hit = unpacked(texts, "hit", rows).astype(np.int64)
    draws = _counts(_images(row["data"]), row["seed"], rows)[:KDE_DRAWS]
    return np.array([kde_ece(share, hit, sample_weight=counts) for counts in draws])


def _judged(row: dict[str, Any]) -> tuple[Floats, Floats]:
    confidence, hit = (
        unpacked(row["per_row"], what, row["test_rows"]) for what in ("confidence", "hit")
    )
    return confidence, hit


def _bin_of(confidence: Floats, bins: int) -> NDArray[np.int64]:
    return np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)


def _sums(confidence: Floats, values: Floats, bins: int) -> Floats:
    return np.asarray(np.bincount(_bin_of(confidence, bins), values, bins), np.float64)


def _images(name: str) -> str:
    """What networks of the paper on the same images share; other sets are by themselves."""
    return name.split("-")[0] if name in {*PAPER_ROWS, *STAND_INS} else name


@lru_cache(maxsize=16)
def _weights(images: str, seed: int, rows: int) -> NDArray[np.float32]:
    """(DRAWS, rows): how often each row was drawn, over the number of rows drawn."""
    counts = _counts(images, seed, rows).astype(np.float32)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _counts(images: str, seed: int, rows: int) -> NDArray[np.int64]:
    """(DRAWS, rows): how often each row was drawn.

    Networks on the same images have the same test rows in a seed, and are drawn together.
    """
    rng = np.random.default_rng([zlib.crc32(images.encode()), seed])
    return rng.poisson(1.0, size=(DRAWS, rows))
