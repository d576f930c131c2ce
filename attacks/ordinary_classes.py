"""A class without calibration rows: three classes, 900 rows, none of them of class 2."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np

import calibrant
from calibrant import CalibrationWarning
from ordinary_measures import measure

ITEM = "2 missing class"
METHODS = (
    *("auto", "svs", "sms", "spts", "vector", "matrix", "dirichlet", "irova", "cir", "histogram"),
    *("bbq", "platt", "quadratic", "odds-spline", "venn-abers"),
)


def rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose best temperature grows with their size."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(count, 3))
    temperature = 1.3 + 0.7 * np.tanh(logits.max(axis=1) - 2.0)
    return logits, (logits / temperature[:, None] + rng.gumbel(size=logits.shape)).argmax(axis=1)


TEST, TEST_LABELS = rows(40_000, 1)


def calibration_rows() -> tuple[np.ndarray, np.ndarray]:
    """900 rows, none of class 2."""
    logits, labels = rows(1400, 0)
    seen = np.flatnonzero(labels != 2)[:900]
    return logits[seen], labels[seen]


@cache
def probabilities(method: str) -> np.ndarray:
    """What a method gives fresh rows of all classes."""
    model = calibrant.calibrator(method).fit(*calibration_rows())
    return np.asarray(model.predict_proba(TEST))


for _method in ("base", *METHODS):

    @measure(
        ITEM,
        f"NLL of {_method} on fresh rows of all classes (uncalibrated 0.724)",
        "at most 0.8",
        lambda x: x <= 0.8,
    )
    def nll(method: str = _method) -> float:
        return float(calibrant.metrics.nll(probabilities(method), TEST_LABELS))


@measure(ITEM, "accuracy of auto (uncalibrated 0.717)", "at least 0.71", lambda x: x >= 0.71)
def accuracy() -> float:
    return float((probabilities("auto").argmax(axis=1) == TEST_LABELS).mean())


@measure(ITEM, "warnings of auto", "one, that names class 2", lambda x: x == "1: class 2")
def told() -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrant.AutoCalibrator().fit(*calibration_rows())
    ours = [str(one.message) for one in caught if one.category is CalibrationWarning]
    return f"{len(ours)}: {'class 2' if any('class 2' in one for one in ours) else ''}"


@measure(
    ITEM,
    "NLL of CalibratedClassifier on a frozen logistic regression, less that of the regression",
    "at most 0.02",
    lambda x: x <= 0.02,
)
def frozen_classifier() -> float:
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    from calibrant.sklearn import CalibratedClassifier

    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=4000)
    given = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])[labels] + rng.normal(size=(4000, 2))
    model = LogisticRegression().fit(given[:500], labels[:500])
    some = np.flatnonzero(labels[500:1500] != 2) + 500
    wrapped = CalibratedClassifier(FrozenEstimator(model)).fit(given[some], labels[some])
    test, test_labels = given[1500:], labels[1500:]
    after = log_loss(test_labels, wrapped.predict_proba(test))
    return float(after - log_loss(test_labels, model.predict_proba(test)))
