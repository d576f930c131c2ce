"""What all calibrators share: the door, the tiles, and scikit-learn's estimator rules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from calibrant._arrays import (
    DEVICE_TILE_ELEMENTS,
    Array,
    InputKind,
    as_labels,
    as_scores,
    as_weights,
    as_working_float,
    check_label_logits,
    check_peaks,
    check_probabilities,
    like,
    log_odds,
    on_host,
    row_tiles,
    to_numpy,
    warn_if_probabilities,
)
from calibrant._errors import CalibrationWarning
from calibrant._losses import ProfileLoss
from calibrant._numerics import log_softmax, softmax
from calibrant._optimize import ScalarResult, best_of_scan, falling_then_rising
from calibrant.profile import DEFAULT_TOP_K, TemperatureProfile, available_cores

TEMPERATURE_BOUNDS = (1e-2, 1e4)


class Calibrator(BaseEstimator):
    """A map from a classifier's scores to probabilities, fitted on labelled scores.

    ``input`` says what the scores are: ``"logits"`` or ``"probs"`` (probabilities, which are taken
    as the logits log p minus their row mean). It is never guessed.
    """

    #: True where no class ever gets a higher probability than the arg max of the logits.
    accuracy_preserving: ClassVar[bool]
    #: True where the method computes in NumPy, wherever the array lies.
    _host_only: ClassVar[bool] = False
    #: The fitted attributes that a file holds besides ``n_classes_`` and ``fit_info_``.
    _state: ClassVar[tuple[str, ...]] = ()

    input: InputKind
    n_classes_: int
    fit_info_: dict[str, Any]

    def fit(self, logits: Any, labels: Any = None, sample_weight: Any = None) -> Self:
        """Fit on scores (rows, classes) and class indices (rows,); returns self."""
        raise NotImplementedError

    def predict_proba(self, logits: Any) -> Array:
        """Calibrated probabilities, of the same kind of array and on the same device."""
        return self._map_rows(logits, self._probabilities, columns=None)

    def predict_log_proba(self, logits: Any) -> Array:
        """Their logarithms, finite where a probability is too small for its own float."""
        return self._map_rows(logits, self._log_probabilities, columns=None)

    def predict(self, logits: Any) -> Array:
        """The predicted classes."""
        if self.accuracy_preserving:
            return self._map_rows(logits, _first_arg_max, columns=0)
        return self._map_rows(logits, lambda z: _first_arg_max(self._probabilities(z)), columns=0)

    # --- what a method fills in: functions of a tile of valid logits in any array namespace ---

    def _probabilities(self, logits: Array) -> Array:
        raise NotImplementedError

    def _log_probabilities(self, logits: Array) -> Array:
        xp = array_namespace(logits)
        with np.errstate(divide="ignore"):
            return xp.log(self._probabilities(logits))

    def _check_classes(self, classes: int) -> None:
        """Refuse another number of classes than the fitted one, where that matters."""

    # --- the way through the tiles ---

    def _prepare(self, tile: Array, first_row: int = 0) -> Array:
        tile = as_working_float(tile)
        if self.input == "probs":
            check_probabilities(tile, first_row=first_row)
            return log_odds(tile)
        check_peaks(tile, array_namespace(tile).max(tile, axis=1), first_row)
        return tile

    def _map_rows(
        self, scores: Any, function: Callable[[Array], Array], columns: int | None
    ) -> Array:
        """Apply a function of logits tile by tile: on threads in main memory, else on the device.

        ``columns`` is the width of the result: None for one a class, 0 for one number a row.
        """
        check_is_fitted(self)
        scores = as_scores(scores, self.input)
        rows, classes = scores.shape
        self._check_classes(classes)
        if not (self._host_only or on_host(scores)):
            tiles = row_tiles(scores, DEVICE_TILE_ELEMENTS)
            parts = [function(self._prepare(scores[tile], tile.start)) for tile in tiles]
            return array_namespace(scores).concat(parts, axis=0)
        host = scores if is_numpy_array(scores) else to_numpy(scores)
        tiles = row_tiles(scores)
        first = function(self._prepare(host[tiles[0]]))
        result = np.empty((rows,) if columns == 0 else (rows, classes), first.dtype)
        result[tiles[0]] = first

        def fill(tile: slice) -> None:
            result[tile] = function(self._prepare(host[tile], tile.start))

        if len(tiles) > 1:
            with ThreadPoolExecutor(min(available_cores(), len(tiles) - 1)) as pool:
                list(pool.map(fill, tiles[1:]))
        return like(result, scores)


class LogitCalibrator(Calibrator):
    """A calibrator that is fitted on the logits themselves, with parameters of each class."""

    def fit(self, logits: Any, labels: Any = None, sample_weight: Any = None) -> Self:
        """Fit on scores (rows, classes) and class indices (rows,); returns self."""
        if isinstance(logits, TemperatureProfile):
            raise TypeError(
                f"{type(self).__name__} is fitted on logits: a TemperatureProfile serves only the "
                "temperature family"
            )
        if labels is None:
            raise TypeError("fit needs labels")
        scores = as_scores(logits, self.input)
        rows, classes = scores.shape
        target = as_labels(labels, rows, classes)
        weight = as_weights(sample_weight, rows)
        if self.input == "logits":
            warn_if_probabilities(scores)
        values = self._prepare(to_numpy(scores)).astype(np.float64)
        check_label_logits(values[np.arange(rows), target], target, kind=self.input)
        self._fit_logits(values, target, weight)
        self.n_classes_ = classes
        return self

    def _fit_logits(
        self, logits: NDArray[np.float64], labels: NDArray[np.int64], weight: NDArray[np.float64]
    ) -> None:
        """Fit on valid logits (masked classes are -inf), labels and weights (not all 0)."""
        raise NotImplementedError

    def _check_classes(self, classes: int) -> None:
        if classes != self.n_classes_:
            raise ValueError(f"fitted with {self.n_classes_} classes, got {classes}")


class TemperatureCalibrator(Calibrator):
    """A calibrator that is fitted from a ``TemperatureProfile`` alone."""

    accuracy_preserving = True

    def fit(self, logits: Any, labels: Any = None, sample_weight: Any = None) -> Self:
        """Fit on scores and class indices, or on a ``TemperatureProfile`` alone; returns self."""
        if isinstance(logits, TemperatureProfile):
            if labels is not None or sample_weight is not None:
                raise TypeError("a profile holds labels and weights: fit(profile) takes no others")
            profile = logits
        else:
            if labels is None:
                raise TypeError("fit needs labels, unless it is given a TemperatureProfile")
            profile = self._profile(logits, labels, sample_weight)
        self._fit_profile(profile)
        self.n_classes_ = profile.n_classes
        return self

    def _fit_profile(self, profile: TemperatureProfile) -> None:
        raise NotImplementedError

    def _profile(self, scores: Any, labels: Any, sample_weight: Any) -> TemperatureProfile:
        """The profile of the scores; of another scale where theirs is far from that of logits."""
        options: dict[str, Any] = {"top_k": getattr(self, "top_k", DEFAULT_TOP_K)}

        def build(scale: float) -> TemperatureProfile:
            profile = TemperatureProfile(scale=scale, **options)
            return profile.update(scores, labels, sample_weight=sample_weight, input=self.input)

        profile = build(1.0)
        slope = ProfileLoss(profile, "nll").mean_slope
        if slope(-np.log(25.0)) <= 0.0 <= slope(-np.log(0.1)):  # the best temperature is between
            return profile
        best = best_temperature(profile, "nll", TEMPERATURE_BOUNDS).x
        return build(2.0 ** round(np.log2(best)))


class TemperatureMap(TemperatureCalibrator):
    """softmax(z / T), T being a number or a function of the row."""

    def temperature(self, logits: Any) -> Array:
        """One temperature a row."""
        return self._map_rows(logits, self._temperature_rows, columns=0)

    def transform(self, logits: Any) -> Array:
        """The scaled logits z / T, whose softmax is ``predict_proba``."""
        return self._map_rows(logits, self._scaled, columns=None)

    def _temperature(self, logits: Array) -> Array | float:
        raise NotImplementedError

    def _temperature_rows(self, logits: Array) -> Array:
        xp = array_namespace(logits)
        temperature = self._temperature(logits)
        if isinstance(temperature, float):
            return xp.full((logits.shape[0],), temperature, dtype=logits.dtype, **_place(logits))
        return temperature

    def _scaled(self, logits: Array) -> Array:
        temperature = self._temperature(logits)
        return logits / (temperature if isinstance(temperature, float) else temperature[:, None])

    def _probabilities(self, logits: Array) -> Array:
        return softmax(logits, self._temperature(logits))

    def _log_probabilities(self, logits: Array) -> Array:
        return log_softmax(logits, self._temperature(logits))


def best_temperature(
    profile: TemperatureProfile, loss: str, bounds: tuple[float, float]
) -> ScalarResult:
    """The one temperature that minimises a loss; exact for the NLL, which is convex in 1/T."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"bounds must be two numbers (low, high), got {bounds!r}") from None
    if not 0.0 < low < high < np.inf:
        raise ValueError(f"bounds must be 0 < low < high < inf, got {bounds}")
    problem = ProfileLoss(profile, loss)
    search = (-np.log(high), -np.log(low), "inverse temperature")
    if loss == "nll":
        result = falling_then_rising(problem.mean_slope, *search, start=0.0)
    else:
        result = best_of_scan(problem.mean, problem.mean_slope, *search)
    return ScalarResult(float(np.exp(-result.x)), result.converged, result.message)


def warn_at_bound(result: ScalarResult, method: str) -> None:
    if not result.converged:
        warnings.warn(
            f"{method}: the best temperature {result.x:.4g} is an end of the allowed range: the "
            "labels look either separable or unrelated to the logits",
            CalibrationWarning,
            stacklevel=4,
        )


def _first_arg_max(values: Array) -> Array:
    return array_namespace(values).argmax(values, axis=1)


def _place(array: Array) -> dict[str, Any]:
    return {} if is_numpy_array(array) else {"device": array.device}
