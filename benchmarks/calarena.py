"""calibrant's methods for the runner of CalArena, a public benchmark of calibrators.

CalArena (github.com/probkit/CalArena) reads further methods from ``custom_calibrators.py`` in its
own folder. In a clone of it, with its data downloaded and calibrant installed beside it:

    cp PATH/TO/calibrant/benchmarks/calarena.py custom_calibrators.py
    python run_benchmark.py --benchmark cv-multiclass --calibrator calibrant-auto

Every method of the registry is there as ``calibrant-`` and its acronym. The runner gives
probabilities, as (rows, classes) or, for two classes, as those of the second class; exact zeros are
mixed with a thousandth of the uniform distribution, as ``CalibratedClassifier`` does with votes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

import calibrant
from calibrant.calibrators import REGISTRY

UNIFORM_SHARE = 1e-3


class ForCalArena:
    """What the runner calls: ``fit`` and ``predict_proba``, of probabilities."""

    def __init__(self, method: str) -> None:
        self.model = calibrant.calibrator(method, input="probs")
        self.mixes = False

    def fit(self, p_cal: np.ndarray, y_cal: np.ndarray) -> ForCalArena:
        """Fit on one part."""
        probs = _as_rows(p_cal)
        self.mixes = bool((probs == 0.0).any())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", calibrant.CalibrationWarning)
            self.model.fit(self._mixed(probs), np.asarray(y_cal).astype(np.int64))
        return self

    def predict_proba(self, p_test: np.ndarray) -> np.ndarray:
        """Calibrated probabilities (rows, classes) of the other."""
        return np.asarray(self.model.predict_proba(self._mixed(_as_rows(p_test))))

    def _mixed(self, probs: np.ndarray) -> np.ndarray:
        if not self.mixes:
            return probs
        return (1.0 - UNIFORM_SHARE) * probs + UNIFORM_SHARE / probs.shape[1]


def _as_rows(probs: np.ndarray) -> np.ndarray:
    """(rows, classes) that sum to 1 in float64."""
    values = np.asarray(probs, np.float64)
    if values.ndim == 1 or values.shape[1] == 1:
        second = values.reshape(-1)
        return np.stack([1.0 - second, second], axis=1)
    return values / values.sum(axis=1, keepdims=True)


CUSTOM_CALIBRATORS: dict[str, Callable[[], ForCalArena]] = {
    f"calibrant-{method}": partial(ForCalArena, method) for method in REGISTRY
}
