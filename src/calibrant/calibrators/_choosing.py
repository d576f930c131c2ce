"""Choosing among candidates by the losses of held-out rows, with patience for the simpler one.

With many rows a sample of them chooses: a few ten thousand decide as well as all. Which rows are in
the sample depends on their content and not on their places, so that their order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.arrays import TILE_ELEMENTS
from calibrant.common.types import Floats
from calibrant.data.copies import Keys, Values, binomials, row_keys, uniforms
from calibrant.data.rows import Rows
from calibrant.data.weights import copies, shares
from calibrant.formulas import Formula
from calibrant.formulas._array_operations import NUMPY

SAMPLE_ROWS = 20_000
MOST_FOREGONE = 0.1  # nats per row: patience with the scores as they are ends there
WORST = 1e100  # what a loss beyond all floats counts as: losses are subtracted and squared


class Candidate(NamedTuple):
    """A method or a part of one, among which rows choose."""

    name: str
    held_out: Floats  # the NLL of each row of the sample had it not been fitted on
    fit: Callable[[], tuple[Formula, FitInfo]]


def simplest_of_the_best(
    names: Sequence[str], held_out: Sequence[Floats], weight: Floats, patience: float
) -> tuple[int, list[dict[str, Any]]]:
    """The first candidate about as good as the best one, and the path as a table.

    ``held_out`` holds, for every candidate, the simplest first, the loss of each row had it not
    been fitted on. A candidate is as good as the best one where its mean loss is within
    ``patience`` standard errors of the difference: the best of several is often the luckiest.
    Scores that are not calibrated at all ("base") may lose ``MOST_FOREGONE`` by it: where a few
    rows are sure and wrong, the standard error is as large as the loss, and no proof of anything.
    """
    share = shares(weight)
    scores = [float(share @ losses) for losses in held_out]
    best = int(np.argmin(scores))
    errors = [error_of_difference(losses, held_out[best], weight) for losses in held_out]
    chosen = best
    for at, name in enumerate(names[:best]):
        allowed = patience * errors[at]
        if name == "base":
            allowed = min(allowed, MOST_FOREGONE)
        if scores[at] - scores[best] <= allowed:
            chosen = at
            break
    columns = ("candidate", "left_out_loss", "error_of_difference")
    rows = zip(names, scores, errors, strict=True)
    return chosen, [dict(zip(columns, row, strict=True)) for row in rows]


def error_of_difference(one: Floats, other: Floats, weight: Floats) -> float:
    """The standard error of the mean difference of two losses on the same rows."""
    share = shares(weight)
    difference = one - other
    mean = share @ difference
    return float(np.sqrt(share * (share / copies(weight)) @ (difference - mean) ** 2))


def held_out_nll(
    fit: Callable[[NDArray[np.intp]], Formula], data: Rows, folds: Sequence[NDArray[np.intp]]
) -> Floats:
    """The NLL of each row under fits on the other folds, whose rows ``fit`` is given."""
    result = np.empty(len(data.labels))
    for fold in folds:
        kept = np.setdiff1d(np.arange(len(result)), fold)
        result[fold] = row_nll(fit(kept), data.take(fold))
    return result


def row_nll(formula: Formula | None, data: Rows) -> Floats:
    """The NLL of each row under a formula, or of the softmax of the logits as they are."""
    parts = []
    for _, tile in data.tiles(TILE_ELEMENTS):
        logits = tile.logits
        with np.errstate(over="ignore"):
            if formula is None:
                gaps = logits - logits.max(axis=1, keepdims=True)
                logs = gaps - np.log(np.exp(gaps).sum(axis=1, keepdims=True))
            else:
                logs = formula.log_probabilities(tile.for_formula(formula, logits), NUMPY)
        parts.append(-logs[np.arange(len(logs)), tile.labels])
    return np.minimum(np.concatenate(parts), WORST)


# --- samples of many rows ---


@dataclass(frozen=True)
class Sample:
    """Rows with different values, each with the weight of its copies in the sample."""

    index: NDArray[np.intp]
    weight: Floats


def sampled(data: Rows, sample: Sample | None) -> Rows:
    """The rows of a sample; all of them where there is none."""
    return data if sample is None else data.take(sample.index).with_weight(sample.weight)


def sample_of_logits(data: Rows, times: int = 1) -> Sample | None:
    """The sample of labelled logits; None where there are so few rows that all of them serve.

    One of so many ``times`` the usual size begins with the usual one.
    """
    most = times * SAMPLE_ROWS
    few = len(data.labels) <= most
    return None if few else _sample(row_keys(data.scores, data.labels), data.weight, most)


def sample_of_profile(profile: TemperatureProfile) -> Sample | None:
    """The sample of a profile's rows, told apart by their largest logits and their labels'."""
    if len(profile) <= SAMPLE_ROWS:
        return None
    seen = np.column_stack([profile.top_logits(), profile.label_gap])
    return _sample(row_keys(seen, profile.finite_classes), profile.weight, SAMPLE_ROWS)


def _sample(keys: Keys, weight: Floats, most: int) -> Sample:
    """The copies with the smallest keys, of so many different values; few values stay whole."""
    values = Values.of(keys, weight)
    if len(values) <= most:
        return Sample(values.first, values.weight)
    value, key, copy_weight = values.copies()
    smallest = np.ones(len(values))
    np.minimum.at(smallest, value, key / 2.0**64)
    many, total = values.many, values.weight[values.many]
    uniform = uniforms(values.keys[many], 0)
    smallest[many] = -np.expm1(np.log1p(-uniform) / total)  # as of so many uniform keys
    limit = np.partition(smallest, most - 1)[most - 1]
    kept = key / 2.0**64 <= limit
    weights: Floats = np.bincount(value[kept], copy_weight[kept], len(values)).astype(np.float64)
    some = np.maximum(binomials(values.keys[many], 1, total, limit), 1.0)
    weights[many] = np.where(smallest[many] <= limit, some, 0.0)
    index = np.flatnonzero(weights)
    return Sample(values.first[index], weights[index])
