"""What the affine calibrators share: features in, softmax(features x slopes + intercept) out.

Masked classes (-inf) keep probability 0. As inputs of the other classes they count as the smallest
finite feature of their row, that of a class which the classifier has ruled out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant._arrays import Array
from calibrant._errors import CalibrationWarning
from calibrant._numerics import log_softmax, softmax
from calibrant._progress import reporter
from calibrant.calibrators._affine import (
    NARROW_CLASSES,
    AffineFit,
    Penalty,
    fit_affine,
    working_precision,
)
from calibrant.calibrators._base import LogitCalibrator
from calibrant.calibrators._lbfgs import one_thread
from calibrant.calibrators._start import effective_rows, fitted_temperature
from calibrant.calibrators.temperature import TemperatureScaling

Strength = float | str  # a penalty, or "auto"

LARGEST = 1e15  # larger scores count as this: sums of their products stay finite in float32
SLOPE_PULL = 2.0  # default penalties, times C / n: on slopes, times the mean square feature ...
INTERCEPT_PULL = 3.0  # ... and on intercepts


class AffineCalibrator(LogitCalibrator):
    """softmax(u W + b) or softmax(v * u + b) of features u of the logits."""

    accuracy_preserving = False
    _state: ClassVar[tuple[str, ...]] = ("slopes_", "intercept_", "temperature_")
    #: Whether the slopes are a matrix, or one number a class.
    _full: ClassVar[bool]
    #: What messages call the method.
    _method: ClassVar[str]

    max_iterations: int
    verbose: bool

    slopes_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    temperature_: float

    # --- what a method fills in ---

    def _features(self, logits: Array, finite: Array) -> Array:
        """Functions of bounded logits; their values for masked classes do not matter."""
        return logits

    def _penalty(self, features: NDArray[Any], rows: float) -> Penalty:
        """The penalties for these features of so many (effective) rows."""
        raise NotImplementedError

    def _centred(self) -> bool:
        """Whether a matrix reads the mean of a row's features apart."""
        return False

    def _unit(self) -> float:
        """The slope at which the map is temperature scaling."""
        return 1.0 / self.temperature_

    # --- fitting ---

    def _fit_logits(
        self, logits: NDArray[np.float64], labels: NDArray[np.int64], weight: NDArray[np.float64]
    ) -> None:
        self._check_parameters()
        present = weight > 0.0
        if not present.all():
            logits, labels, weight = logits[present], labels[present], weight[present]
        start = fitted_temperature(logits, labels, weight, self._method)
        self.temperature_ = start.temperature_
        self._before_features(effective_rows(weight))
        finite = np.isfinite(logits)
        bounded = _bounded(logits).astype(working_precision(logits.size), copy=False)
        features = self._unit() * _filled(self._features(bounded, finite), finite)
        with reporter(f"fitting {type(self).__name__}", self.verbose) as report:
            fit = fit_affine(
                features,
                None if finite.all() else finite,
                labels,
                weight,
                self._penalty(features, effective_rows(weight)),
                full=self._full,
                centred=self._centred(),
                iterations=self.max_iterations,
                report=report,
            )
        self.slopes_ = self._unit() * _plus_one(fit.change)
        self.intercept_ = fit.intercept.copy()
        self._tell(start, fit)

    def _before_features(self, rows: float) -> None:
        """Set what the features need besides the temperature."""

    def _check_parameters(self) -> None:
        if self.max_iterations < 1:
            raise ValueError(f"max_iterations must be at least 1, got {self.max_iterations}")
        for name, value in self.get_params(deep=False).items():
            if name.endswith("_penalty") and value != "auto":
                _check_strength(name, value)

    def _penalties(self) -> tuple[str, ...]:
        both = ("slope", "intercept")
        if not self._full:
            return both
        return (*both, "off_diagonal", *(("common",) if self._centred() else ()))

    def _tell(self, start: TemperatureScaling, fit: AffineFit) -> None:
        converged = start.fit_info_["converged"] and fit.minimum.converged
        told = fit.minimum if start.fit_info_["converged"] else None
        self.fit_info_ = {
            "converged": bool(converged),
            "message": told.message if told else start.fit_info_["message"],
            "iterations": fit.minimum.iterations,
            "loss": "nll",
            "loss_before": start.fit_info_["loss_before"],
            "loss_temperature_scaling": start.fit_info_["loss_after"],
            "loss_after": fit.nll,
            "penalised_loss": fit.minimum.value,
            "penalty": {name: getattr(fit.penalty, name) for name in self._penalties()},
        }
        if not fit.minimum.converged:
            warnings.warn(
                f"{self._method} {fit.minimum.message} before it converged (NLL {fit.nll:.6g}, "
                f"temperature scaling {start.fit_info_['loss_after']:.6g}): a larger "
                "max_iterations or larger penalties help",
                CalibrationWarning,
                stacklevel=4,
            )

    # --- predicting ---

    def _map_rows(
        self, scores: Any, function: Callable[[Array], Array], columns: int | None
    ) -> Array:
        """Tiles run on threads, in which large matrix products must not start their own."""
        check_is_fitted(self)
        with one_thread(unless=not (self._full and self.n_classes_ >= NARROW_CLASSES)):
            return super()._map_rows(scores, function, columns)

    def _probabilities(self, logits: Array) -> Array:
        return softmax(self._scores(logits))

    def _log_probabilities(self, logits: Array) -> Array:
        return log_softmax(self._scores(logits))

    def _scores(self, logits: Array) -> Array:
        xp = array_namespace(logits)
        finite = xp.isfinite(logits)
        features = _filled(self._features(_bounded(logits), finite), finite)
        slopes, intercept = _like(self.slopes_, logits), _like(self.intercept_, logits)
        scores = (features @ slopes if self._full else features * slopes) + intercept
        return xp.where(finite, scores, xp.full_like(scores, -np.inf))


def diagonal_penalty(
    features: NDArray[Any], rows: float, slope: Strength, intercept: Strength
) -> Penalty:
    """Given strengths multiply means of squares; "auto" is measured, see the docs."""
    classes = features.shape[1]
    automatic = INTERCEPT_PULL * classes / rows
    return Penalty(
        slope=slope_pull(features, rows, classes) if slope == "auto" else float(slope) / classes,
        off_diagonal=0.0,
        intercept=automatic if intercept == "auto" else float(intercept) / classes,
    )


def slope_pull(features: NDArray[Any], rows: float, classes: int) -> float:
    """The default penalty of the slopes on these features."""
    mean_square = float(np.mean(np.square(features), dtype=np.float64))
    return SLOPE_PULL * mean_square * classes / rows


def _check_strength(name: str, value: Any) -> None:
    if not (isinstance(value, int | float) and 0.0 <= value < np.inf):
        raise ValueError(f"{name} must be 'auto' or a number of at least 0, got {value!r}")


def _plus_one(change: NDArray[np.float64]) -> NDArray[np.float64]:
    return change + (np.eye(len(change)) if change.ndim == 2 else 1.0)


def _bounded(logits: Array) -> Array:
    """Logits of at most ``LARGEST``: masked classes too are finite, with probability 0."""
    return array_namespace(logits).clip(logits, -LARGEST, LARGEST)


def _filled(features: Array, finite: Array) -> Array:
    """Features in which masked classes have the smallest finite value of their row."""
    xp = array_namespace(features)
    if bool(xp.all(finite)):
        return features
    above = xp.where(finite, features, xp.full_like(features, np.inf))
    smallest = xp.min(above, axis=1, keepdims=True)
    return xp.where(finite, features, smallest)


def _like(values: NDArray[np.float64], reference: Array) -> Array:
    """Fitted values as an array of the reference's kind, precision and device."""
    if is_numpy_array(reference):
        return values.astype(reference.dtype, copy=False)
    return array_namespace(reference).asarray(
        values, dtype=reference.dtype, device=reference.device
    )
