"""How sure a difference is: a paired bootstrap over rows, nested in splits and trainings.

A seed is a split of its own and, where there are several, a training of its own. The methods of one
seed share its test rows, so that one drawing of rows serves all of them. A draw takes as many seeds
as there are with replacement, and rows of each. Deviations between seeds are widened by
sqrt(R / (R - 1)), for R draws out of R seeds vary too little; deviations between rows are centred,
for drawing rows again makes any ECE larger.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from calibrant.papers.pts.experiments import BINS
from calibrant.papers.pts.per_row import unpacked
from calibrant.papers.pts.summary import PERCENT, Results

Floats = NDArray[np.float64]
DRAWS = 200
LEVEL = 0.05


class Variant(NamedTuple):
    """A method as one experiment has it."""

    method: str
    fraction: float = 1.0
    width: int | None = None
    top_k: int | None = None


@dataclass(frozen=True)
class Sample:
    """A metric (points) of several variants, and how it moves from draw to draw."""

    points: Floats  # (variants,)
    draws: Floats  # (variants, DRAWS)
    row_draws: Floats  # (variants, DRAWS): of the rows of one seed alone, around 0

    def difference(self, one: int, other: int) -> Difference:
        """``one`` minus ``other``."""
        error = float(np.std(self.draws[one] - self.draws[other]))
        return Difference(float(self.points[one] - self.points[other]), error)

    def row_error(self, one: int, other: int) -> float:
        """The standard error of a difference by the test rows of a single split and training."""
        return float(np.std(self.row_draws[one] - self.row_draws[other]))


@dataclass(frozen=True)
class Difference:
    """A difference and its standard error."""

    value: float
    error: float

    @property
    def p(self) -> float:
        """The two-sided p-value of no difference."""
        if self.error == 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        return float(2.0 * ndtr(-abs(self.value) / self.error))


def sample(
    results: Results,
    name: str,
    variants: Sequence[Variant],
    metric: str = "ece",
    bins: int = BINS,
) -> Sample | None:
    """A metric of variants on one set, over the seeds that all have; None where there are none.

    "excess" is the ECE beyond what a calibrated model would show by chance. "kde_ece" has the
    errors of the ECE, of which it is another estimate.
    """
    found = [results.by_seed(name, *variant) for variant in variants]
    seeds = sorted(set.intersection(*(set(rows) for rows in found)))
    if not seeds:
        return None
    made = [
        [_point_and_draws(results, rows[seed], variant, metric, bins) for seed in seeds]
        for rows, variant in zip(found, variants, strict=True)
    ]
    both = np.array(made)  # (variants, seeds, 1 + DRAWS)
    return _nested(both[:, :, 0], both[:, :, 1:], name)


def _nested(points: Floats, row_draws: Floats, name: str) -> Sample:
    """From (variants, seeds) and (variants, seeds, DRAWS) to draws of the mean over seeds."""
    seeds = points.shape[1]
    mean = points.mean(axis=1)
    rng = np.random.default_rng(zlib.crc32(f"seeds of {name}".encode()))
    picked = rng.integers(seeds, size=(DRAWS, seeds))
    widened = np.sqrt(seeds / (seeds - 1.0)) if seeds > 1 else 0.0
    between = widened * (points[:, picked].mean(axis=2) - mean[:, None])
    places = (np.arange(DRAWS)[:, None] + np.arange(seeds)) % DRAWS  # a seed drawn twice: new rows
    within = row_draws[:, picked, places].mean(axis=2)
    return Sample(mean, mean[:, None] + between + within, row_draws[:, 0])


def pooled(samples: Sequence[Sample]) -> Sample:
    """The mean over sets."""
    parts = [(one.points, one.draws, one.row_draws) for one in samples]
    return Sample(*(np.mean([part[k] for part in parts], axis=0) for k in range(3)))


def over(
    results: Results,
    names: Sequence[str],
    variants: Sequence[Variant],
    metric: str = "ece",
    bins: int = BINS,
) -> list[Sample] | None:
    """``sample`` for all sets; None where one of them was not run."""
    found = [sample(results, name, variants, metric, bins) for name in names]
    known = [one for one in found if one is not None]
    return known if known and len(known) == len(found) else None


# --- one row of results -----------------------------------------------------------------------


def _point_and_draws(
    results: Results, row: dict[str, Any], variant: Variant, metric: str, bins: int
) -> Floats:
    """The metric, then its draws; made once, for many claims read the same."""
    key = (row["data"], row["seed"], variant, metric, bins)
    if key not in results.drawn:
        draws = _row_draws(row, "ece" if metric in ("excess", "kde_ece") else metric, bins)
        results.drawn[key] = np.concatenate([[_point(row, metric, bins)], draws])
    return results.drawn[key]


def _point(row: dict[str, Any], metric: str, bins: int) -> float:
    if metric == "excess":
        return PERCENT * (row["ece"] - chance(row))
    if metric == "ece" and bins != BINS:
        confidence, hit = _judged(row)
        return PERCENT * float(np.abs(_sums(confidence, confidence - hit, bins)).sum() / len(hit))
    value = row["gain" if metric == "gain" else metric]
    return PERCENT * value if value is not None else np.nan


def chance(row: dict[str, Any], bins: int = BINS) -> float:
    """The mean ECE where every row is right with the probability that it says.

    A bin's gap is then nearly normal, and its size has the mean sqrt(2 / pi) times its deviation.
    """
    confidence = np.minimum(_judged(row)[0], 1.0)
    variances = _sums(confidence, confidence * (1.0 - confidence), bins)
    return float(np.sqrt(2.0 / np.pi * variances).sum() / len(confidence))


def add_excess(results: Results) -> None:
    """Write the ECE beyond chance into every row that holds its confidences."""
    for row in results.rows:
        if "per_row" in row:
            row["excess"] = row["ece"] - chance(row)


def _row_draws(row: dict[str, Any], metric: str, bins: int) -> Floats:
    """The metric of rows drawn anew (points), around 0."""
    rows = row["test_rows"]
    weights = _weights(row["data"], row["seed"], rows)
    if metric in ("gain", "brier", "nll"):
        values = unpacked(row["per_row"], "nll" if metric == "nll" else "brier", rows)
        means = weights @ values.astype(np.float32)
        drawn = -means if metric == "gain" else means
    elif metric == "accuracy":
        drawn = weights @ _judged(row)[1].astype(np.float32)
    else:
        confidence, hit = _judged(row)
        table = np.zeros((rows, bins), np.float32)
        table[np.arange(rows), _bin_of(confidence, bins)] = confidence - hit
        drawn = np.abs(weights @ table).sum(axis=1)
    return np.asarray(PERCENT * (drawn - drawn.mean()), np.float64)


def _judged(row: dict[str, Any]) -> tuple[Floats, Floats]:
    confidence, hit = (
        unpacked(row["per_row"], what, row["test_rows"]) for what in ("confidence", "hit")
    )
    return confidence, hit


def _bin_of(confidence: Floats, bins: int) -> NDArray[np.int64]:
    return np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)


def _sums(confidence: Floats, values: Floats, bins: int) -> Floats:
    return np.asarray(np.bincount(_bin_of(confidence, bins), values, bins), np.float64)


@lru_cache(maxsize=32)
def _weights(name: str, seed: int, rows: int) -> NDArray[np.float32]:
    """(DRAWS, rows): how often each row was drawn, over the number of rows drawn."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    counts = rng.poisson(1.0, size=(DRAWS, rows)).astype(np.float32)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


# --- several comparisons ----------------------------------------------------------------------


def holm(p_values: Sequence[float]) -> Floats:
    """Holm's adjusted p-values: below 0.05 means that even the family's error is below 5%.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, np.float64)
    order = np.argsort(values)
    factors = len(values) - np.arange(len(values))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * values[order]), 1.0)
    return adjusted


def signs(differences: Sequence[Difference]) -> NDArray[np.int64]:
    """-1 and 1 for differences that are sure after Holm's correction, else 0."""
    sure = holm([one.p for one in differences]) < LEVEL
    return np.where(sure, np.sign([one.value for one in differences]), 0).astype(np.int64)
