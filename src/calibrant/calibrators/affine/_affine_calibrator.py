"""What the affine methods share: temperature scaling, and from there slopes and intercepts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._best_temperature import Start, origin_of, scaling_start
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._parameters import Count, constraints
from calibrant.calibrators.affine._affine_loss import (
    AffineFit,
    Penalty,
    fit_affine,
    working_precision,
)
from calibrant.common.arrays import row_tiles
from calibrant.common.progress import reporter
from calibrant.common.threads import available_cores, mapping
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.data.weights import effective_rows, shares
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas.affine import AffineMap, Features, PlainLogits, affine_inputs

Strength = float | str  # a penalty, or "auto"

MATRICES = 42  # float64 ones that a fit holds at once: L-BFGS keeps 25, the loss the others
NO_MATRIX = "vector, svs, ts, ets and pts need no matrix of classes by classes"
TILE = 1 << 18  # elements that are read at once
LARGEST = 1e15  # larger scores count as this: sums of their products stay finite in float32
SLOPE_PULL = 2.0  # default penalties, times C / n: on slopes, times the mean square feature ...
INTERCEPT_PULL = 3.0  # ... and on intercepts


class AffineCalibrator(LogitCalibrator, ABC):
    """softmax(u W + b) or softmax(v * u + b) of features u of the logits."""

    _gives = AffineMap
    _amplifies_rounding = True
    _constraints = constraints(max_iter=Count())
    #: Whether the slopes are a matrix, or one number per class.
    _full: ClassVar[bool] = False

    def __init__(
        self,
        max_iter: int = 500,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.max_iter = max_iter
        self.progress = progress
        self.input = input

    @property
    def slopes_(self) -> Floats:
        """The slopes: a matrix W, or one number v_c per class."""
        return self._own_formula(AffineMap).slopes

    @property
    def intercept_(self) -> Floats:
        """The intercepts b, one per class."""
        return self._own_formula(AffineMap).intercept

    @property
    def temperature_(self) -> float:
        """The temperature from which the fit started."""
        return float(self.fit_info_.details["start_temperature"])

    @final
    def _memory_needed(self, rows: int, classes: int) -> int:
        matrices = MATRICES * 8 * classes * classes if self._full else 0
        return super()._memory_needed(rows, classes) + matrices

    def _features(self, start: Start, data: Rows) -> tuple[Features, float]:
        """What the map reads, and the slope at which it is the start."""
        origin = origin_of(data.logits.max(axis=1), data.weight, start.temperature)
        return PlainLogits(origin), 1.0 / start.temperature

    @abstractmethod
    def _penalty(self, features: Rows) -> Penalty:
        """The penalty for rows whose scores are features."""

    def _fit_logits(self, data: Rows) -> Fitted:
        return self._fit_from(scaling_start(data), data, self._penalty, self.progress)[:2]

    @final
    def _fit_from(
        self,
        start: Start,
        data: Rows,
        penalty_of: Callable[[Rows], Penalty],
        progress: Progress,
        first: Floats | None = None,
    ) -> tuple[AffineMap, FitInfo, AffineFit]:
        """The slopes and intercepts of least penalised NLL, and the fit itself.

        ``first`` is another fit's flat solution to begin with.
        """
        read, unit = self._features(start, data)
        masked = np.asarray(np.isneginf(data.logits))
        features = data.with_scores(_read_features(read, unit, data.logits, masked))
        with reporter(f"fitting {type(self).__name__}", progress) as report:
            fit = fit_affine(
                features,
                ~masked if masked.any() else None,
                penalty_of(features),
                full=self._full,
                max_iter=self.max_iter,
                report=report,
                first=first,
            )
        minimum, penalty = fit.minimum, fit.penalty
        message = minimum.message if start.converged else start.message
        if start.converged and not minimum.converged:
            message = (
                f"{message} before it converged (NLL {fit.nll:.6g}, temperature scaling "
                f"{start.loss:.6g}): a larger max_iter or larger penalties help"
            )
        penalised = ["slope", "intercept"] + ["off_diagonal"] * self._full
        penalised += ["common"] * (penalty.common is not None)
        info = FitInfo(
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
                "penalty": {name: getattr(penalty, name) for name in penalised},
            },
        )
        slopes = unit * (fit.change + (np.eye(data.n_classes) if self._full else 1.0))
        return AffineMap(read, slopes, fit.intercept, LARGEST), info, fit


def _read_features(read: Features, unit: float, logits: Floats, masked: NDArray[np.bool_]) -> Any:
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


def diagonal_penalty(
    features: Rows, slope: Strength, intercept: Strength, ease: float = 1.0
) -> Penalty:
    """Given strengths multiply means of squares; "auto" is measured, see the docs, times ease."""
    classes = features.n_classes
    slopes = ease * slope_pull(features, classes)
    intercepts = ease * INTERCEPT_PULL * classes / effective_rows(features.weight)
    return Penalty(
        slope=slopes if slope == "auto" else float(slope) / classes,
        off_diagonal=0.0,
        intercept=intercepts if intercept == "auto" else float(intercept) / classes,
    )


def slope_pull(features: Rows, classes: int) -> float:
    """The default penalty of the slopes on these features."""
    squares = np.mean(np.square(features.scores), axis=1, dtype=np.float64)
    # not by BLAS, whose sums depend on its threads
    mean = float(np.sum(shares(features.weight) * squares))
    return SLOPE_PULL * mean * classes / effective_rows(features.weight)
