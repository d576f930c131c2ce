"""scikit-learn's tests of ``CalibratedClassifierCV`` and ``calibration_curve``."""
# ruff: noqa: N803 - features are called X, as everywhere in scikit-learn

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import sklearn
from array_api_compat import array_namespace, device, is_array_api_obj
from sklearn.base import BaseEstimator

from calibrant.metrics import BinStats
from calibrant.sklearn import CalibratedClassifier, CalibratedPair
from peer_suite import Suite

DEFAULT = "without an estimator calibrant takes a logistic regression, which has probabilities"
WORDS = "folds that hold out one row are refused, too, in other words"
UNSEEN = "a class that a fold's classifier has never seen gets a small probability, not 0"
SCALE = (
    "between its blocks isotonic regression is linear in the probability, not in the margin, and "
    "1e-9 of the probability is added"
)
LABELS = "BinStats takes events, not labels: nothing has to be told about the positive class"


def calibrated_classifier_cv(
    estimator: Any = None,
    *,
    method: str = "sigmoid",
    cv: Any = None,
    n_jobs: int | None = None,
    ensemble: bool | str = "auto",
) -> CalibratedClassifier:
    """Stand for ``CalibratedClassifierCV``, whose names for methods are known to calibrant, too."""
    folds = True if ensemble == "auto" else ensemble  # a frozen classifier has none, in both
    return _Classifier(estimator, method, cv=cv, n_jobs=n_jobs, ensemble=folds)


class _Classifier(CalibratedClassifier):
    """Gives its pairs the attributes that the tests read."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        super().fit(X, y, sample_weight, **fit_params)
        self.calibrated_classifiers_ = [
            _Pair(pair.estimator, pair.calibrator, pair.reader, X)
            for pair in self.calibrated_classifiers_
        ]
        return self


@dataclass(frozen=True)
class _Pair(CalibratedPair):
    X: Any

    @property
    def calibrators(self) -> Sequence[_InverseTemperature]:
        temperature = self.calibrator.temperature_ * self.reader.scale
        return [_InverseTemperature(_as_number_of(self.X, 1.0 / temperature))]


class _InverseTemperature(BaseEstimator):
    """A fitted temperature as scikit-learn has it."""

    def __init__(self, beta: Any) -> None:
        self.beta = beta
        self.beta_ = beta

    def fit(self, X: Any, y: Any) -> Self:
        raise NotImplementedError("scikit-learn asks whether it is here, and does not call it")


def _as_number_of(X: Any, value: float) -> Any:
    """A float as a number of the kind of X: calibrant's own are Python floats everywhere."""
    if not is_array_api_obj(X):
        return np.float64(value)
    return array_namespace(X).asarray(value, dtype=X.dtype, device=device(X))


def calibration_curve(
    y_true: Any, y_prob: Any, *, pos_label: Any = None, n_bins: int = 5, strategy: str = "uniform"
) -> tuple[np.ndarray, np.ndarray]:
    """Stand for the function of this name: the filled bins of ``BinStats``."""
    hit = np.asarray(y_true) == (1 if pos_label is None else pos_label)
    scheme = {"uniform": "equal-width", "quantile": "equal-mass"}.get(strategy, strategy)
    stats = BinStats.from_confidence(y_prob, hit, n_bins, scheme=scheme)
    filled = stats.weight > 0.0
    return stats.accuracy[filled], stats.confidence[filled]


SUITE = Suite(
    package="scikit-learn",
    author="theirs",
    find=lambda: Path(sklearn.__file__).parent / "tests/test_calibration.py",
    replaced={
        "CalibratedClassifierCV": calibrated_classifier_cv,
        "calibration_curve": calibration_curve,
    },
    expected={
        r"test_calibration_default_estimator": DEFAULT,
        r"test_calibration_cv_nfold": WORDS,
        r"test_calibration_less_classes\[True\]": UNSEEN,
        r"test_calibration_ensemble_false\[isotonic-.*\]": SCALE,
        r"test_calibration_curve_pos_label_error_str\[.*\]": LABELS,
    },
)
