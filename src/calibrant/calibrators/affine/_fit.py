"""From labelled logits to an affine map: temperature scaling first, then the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._base import Fitted
from calibrant.calibrators._best_temperature import Start, scaling_start
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._origin import origin_of
from calibrant.calibrators.affine._loss import (
    AffineFit,
    Penalty,
    fit_affine,
    working_precision,
)
from calibrant.common.arrays import row_tiles
from calibrant.common.progress import reporter
from calibrant.common.threads import available_cores, mapping
from calibrant.common.types import Floats, Progress
from calibrant.data.rows import Rows
from calibrant.data.weights import effective_rows, shares
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas.affine import AffineMap, Features, PlainLogits, affine_inputs

Strength = float | str  # a penalty, or "auto"

TILE = 1 << 18  # elements that are read at once
LARGEST = 1e15  # larger scores count as this: sums of their products stay finite in float32
SLOPE_PULL = 2.0  # default penalties, times C / n: on slopes, times the mean square feature ...
INTERCEPT_PULL = 3.0  # ... and on intercepts


@dataclass(frozen=True)
class AffineMethod:
    """What one affine method does its own way."""

    features: Callable[[Start, Rows], Features]
    unit: Callable[[Start], float]  # the slope at which the map is the start
    penalty: Callable[[NDArray[Any], Floats], Penalty]  # for features of rows with such weights
    full: bool  # whether the slopes are a matrix, or one number per class
    centred: bool = False  # whether a matrix reads the mean of a row's features apart


def fit_affine_map(
    data: Rows,
    method: AffineMethod,
    *,
    max_iter: int,
    title: str,
    progress: Progress,
) -> Fitted:
    """Temperature scaling, and from there the slopes and intercepts of least penalised NLL."""
    start = scaling_start(data)
    formula, info, _ = fit_from_start(
        data, method, start, max_iter=max_iter, title=title, progress=progress
    )
    return formula, info


def fit_from_start(
    data: Rows,
    method: AffineMethod,
    start: Start,
    *,
    max_iter: int,
    title: str,
    progress: Progress,
    first: Floats | None = None,
) -> tuple[AffineMap, FitInfo, Floats]:
    """The same from a given start; ``first`` is another fit's flat solution, the last one given."""
    read, unit = method.features(start, data), method.unit(start)
    masked = np.asarray(np.isneginf(data.logits))
    features = _features(read, unit, data.logits, masked)
    with reporter(f"fitting {title}", progress) as report:
        fit = fit_affine(
            features,
            ~masked if masked.any() else None,
            data.labels,
            data.weight,
            method.penalty(features, data.weight),
            full=method.full,
            centred=method.centred,
            max_iter=max_iter,
            report=report,
            first=first,
        )
    formula = AffineMap(read, unit * _plus_one(fit.change), fit.intercept, LARGEST)
    return formula, _info(start, fit, method), fit.minimum.x


def plain_logits(start: Start, data: Rows) -> Features:
    """The features of methods that read the logits themselves."""
    return PlainLogits(origin_of(data.logits.max(axis=1), data.weight, start.temperature))


def _features(read: Features, unit: float, logits: Floats, masked: NDArray[np.bool_]) -> Any:
    """What the map reads, in the precision of the fit; some rows at a time, on threads."""
    precision = working_precision(logits.size)
    result = np.empty(logits.shape, precision)

    def fill(tile: slice) -> None:
        some = logits[tile]
        if precision is not np.float64:
            some = np.clip(some, -LARGEST, LARGEST).astype(precision)
        result[tile] = unit * affine_inputs(read, some, masked[tile], LARGEST, NUMPY)

    tiles = row_tiles(logits, TILE)
    with mapping(min(available_cores(), len(tiles))) as on_threads:
        list(on_threads(fill, tiles))
    return result


def _info(start: Start, fit: AffineFit, method: AffineMethod) -> FitInfo:
    minimum = fit.minimum
    message = minimum.message if start.converged else start.message
    if start.converged and not minimum.converged:
        message = (
            f"{message} before it converged (NLL {fit.nll:.6g}, temperature scaling "
            f"{start.loss:.6g}): a larger max_iter or larger penalties help"
        )
    return FitInfo(
        start.converged and minimum.converged,
        message,
        iterations=minimum.iterations,
        loss="nll",
        before=start.loss_before,
        after=fit.nll,
        details={
            "start_temperature": start.temperature,
            "loss_temperature_scaling": start.loss,
            "penalised_loss": minimum.value,
            "penalty": {name: getattr(fit.penalty, name) for name in _penalised(method)},
        },
    )


def _penalised(method: AffineMethod) -> tuple[str, ...]:
    both = ("slope", "intercept")
    if not method.full:
        return both
    return (*both, "off_diagonal", *(("common",) if method.centred else ()))


def diagonal_penalty(
    features: NDArray[Any],
    weight: Floats,
    slope: Strength,
    intercept: Strength,
    ease: float = 1.0,
) -> Penalty:
    """Given strengths multiply means of squares; "auto" is measured, see the docs, times ease."""
    classes = features.shape[1]
    slopes = ease * slope_pull(features, weight, classes)
    intercepts = ease * INTERCEPT_PULL * classes / effective_rows(weight)
    return Penalty(
        slope=slopes if slope == "auto" else float(slope) / classes,
        off_diagonal=0.0,
        intercept=intercepts if intercept == "auto" else float(intercept) / classes,
    )


def slope_pull(features: NDArray[Any], weight: Floats, classes: int) -> float:
    """The default penalty of the slopes on these features."""
    squares = np.mean(np.square(features), axis=1, dtype=np.float64)
    mean = float(np.sum(shares(weight) * squares))  # not by BLAS, whose sums depend on its threads
    return SLOPE_PULL * mean * classes / effective_rows(weight)


def _plus_one(change: Floats) -> Floats:
    return change + (np.eye(len(change)) if change.ndim == 2 else 1.0)
