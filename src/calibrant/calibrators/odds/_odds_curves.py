"""One curve of the log-odds per class, fitted one class against all others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy.special import logit

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._one_vs_all import ClassColumns, Column
from calibrant.common.types import Floats, Progress
from calibrant.data.rows import Rows
from calibrant.data.weights import weighted_mean
from calibrant.formulas import ConstantTemperature, Formula, FormulaRows, OddsMap
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._curves import CLOSEST, Cubics

SAME = 1e-10  # log-odds that differ by less than this share of their size are taken as equal

Points = tuple[Floats, Floats, Floats]  # x, y and slope of a cubic


@dataclass(frozen=True)
class CurveFit:
    """The curve of one class, whether its optimiser converged, and what else there is to tell."""

    points: Points
    converged: bool = True
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Span:
    """The range of a class' log-odds."""

    low: float
    width: float

    @classmethod
    def of(cls, score: Floats) -> Span | None:
        """From the smallest to the largest; None where they are all but equal."""
        low, high = float(score.min()), float(score.max())
        narrow = max(1e4 * CLOSEST, SAME * max(abs(low), abs(high)))
        return cls(low, high - low) if high - low > narrow else None

    def unit(self, score: Floats) -> Floats:
        """Log-odds as numbers in [0, 1]."""
        return np.asarray((score - self.low) / self.width)

    def points(self, unit: Floats, value: Floats, slope: Floats) -> Points:
        """Points of a curve over [0, 1] as those of the curve of the log-odds."""
        return self.low + self.width * unit, value, slope / self.width


class OddsCalibrator(LogitCalibrator, ABC):
    """One curve of the log-odds per class."""

    _gives: ClassVar[type[Formula]] = OddsMap
    progress: Progress = False

    @abstractmethod
    def _fit_curve(self, column: Column, span: Span) -> CurveFit:
        """The curve of one class, whose log-odds differ."""

    def _fit_logits(self, data: Rows) -> Fitted:
        def fit(column: Column) -> CurveFit:
            """The identity where there are no rows, one level where the scores are equal."""
            if len(column) == 0:
                return CurveFit((np.zeros(1), np.zeros(1), np.ones(1)))
            span = Span.of(column.score)
            if span is not None:
                return self._fit_curve(column, span)
            rate = weighted_mean(column.platts_target, column.weight)
            return CurveFit((column.score[:1], np.array([logit(rate)]), np.zeros(1)))

        columns = ClassColumns.of_log_odds(data)
        if len(columns) == 2:
            second = fit(columns.column(1))
            x, y, slope = second.points  # the log-odds of the other class are the negative ones
            fits = [replace(second, points=(-x[::-1], -y[::-1], slope[::-1])), second]
        else:
            fits = columns.fit_each(fit, type(self).__name__, self.progress)
        formula = OddsMap(Cubics.join([one.points for one in fits]), data.n_classes)
        slow, message = sum(not one.converged for one in fits), "converged"
        if slow:
            message = f"stopped early in {slow} of {len(fits)} classes"
            message += ": check the scores for extreme values"
        names = sorted({name for one in fits for name in one.details})
        return formula, FitInfo(
            slow == 0,
            message,
            loss="nll",
            before=_mean_nll(ConstantTemperature(1.0), data),
            after=_mean_nll(formula, data),
            details={name: [one.details.get(name) for one in fits] for name in names},
        )


def _mean_nll(formula: Formula, data: Rows) -> float:
    with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
        logs = formula.log_probabilities(FormulaRows(data.logits), NUMPY)
    return weighted_mean(-logs[np.arange(len(logs)), data.labels], data.weight)
