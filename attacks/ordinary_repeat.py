"""The same rows give the same result: in any order, on any number of threads, in float32."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_limits

import calibrant
from calibrant.sklearn import CalibratedClassifier
from ordinary_measures import Value, measure

ITEM = "repeatable results"
NOTHING = "0"


def _rows(classes: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Labelled logits whose best temperature depends on the row."""
    rng = np.random.default_rng(classes)
    logits = rng.standard_normal((rows, classes)) * rng.uniform(0.5, 5.0, (rows, 1))
    temperature = 0.6 + 0.5 * np.ptp(logits, axis=1, keepdims=True) / 3.0
    return logits, np.argmax(logits / temperature + rng.gumbel(size=logits.shape), axis=1)


def _pairs(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of two classes for which mpts and spts keep a network, and no increasing map."""
    rng = np.random.default_rng(3)
    logits = rng.standard_normal((rows, 2)) * rng.uniform(0.2, 1.0, (rows, 1))
    temperature = 1.0 + 0.5 * np.sqrt(np.ptp(logits, axis=1, keepdims=True))
    return logits, np.argmax(logits / temperature + rng.gumbel(size=logits.shape), axis=1)


def _by_order(method: str, classes: int) -> float:
    """How far probabilities move when the rows of the fit are shuffled."""
    logits, labels = _rows(classes, 6000)
    order, other = np.random.default_rng(1).permutation(5000), logits[5000:]
    given = calibrant.calibrator(method).fit(logits[:5000], labels[:5000])
    shuffled = calibrant.calibrator(method).fit(logits[order], labels[order])
    return float(np.abs(given.predict_proba(other) - shuffled.predict_proba(other)).max())


def _by_threads(classes: int, rows: int) -> tuple[float, float]:
    """How far the probabilities and the ECE of diag move from one to two threads of BLAS."""
    logits, labels = _rows(classes, rows + 1000)
    probs = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            diag = calibrant.calibrator("diag").fit(logits[:rows], labels[:rows])
            probs.append(diag.predict_proba(logits[rows:]))
    errors = [calibrant.metrics.ece(one, labels[rows:]) for one in probs]
    return float(np.abs(probs[0] - probs[1]).max()), abs(errors[0] - errors[1])


def _by_precision(method: str, classes: int) -> float:
    """How far float32 logits with an offset of 1e6 differ from the same values in float64."""
    logits, labels = _rows(classes, 2000) if classes > 2 else _pairs(2000)
    narrow = (logits + 1e6).astype(np.float32)
    model = calibrant.calibrator(method).fit(narrow, labels)
    wide = model.predict_proba(narrow.astype(np.float64))
    return float(np.abs(model.predict_proba(narrow) - wide).max())


@measure(ITEM, "diag, 10 classes: shuffled rows", NOTHING, lambda v: v == 0.0)
def diag_order() -> Value:
    """The order of the rows."""
    return _by_order("diag", 10)


@measure(ITEM, "diag, 100 classes: shuffled rows", NOTHING, lambda v: v == 0.0)
def diag_order_of_many_classes() -> Value:
    """The order of the rows."""
    return _by_order("diag", 100)


@measure(ITEM, "mpts, 10 classes: shuffled rows", NOTHING, lambda v: v == 0.0)
def mpts_order() -> Value:
    """The order of the rows."""
    return _by_order("mpts", 10)


@measure(ITEM, "pts, 100 classes: shuffled rows", NOTHING, lambda v: v == 0.0)
def pts_order() -> Value:
    """The order of the rows."""
    return _by_order("pts", 100)


@measure(ITEM, "matrix, 100 classes: shuffled rows", NOTHING, lambda v: v == 0.0)
def matrix_order() -> Value:
    """The order of the rows."""
    return _by_order("matrix", 100)


@measure(ITEM, "diag, 10 classes: 1 or 2 threads, probabilities", NOTHING, lambda v: v == 0.0)
def diag_threads() -> Value:
    """The number of threads."""
    return _by_threads(10, 5000)[0]


@measure(ITEM, "diag, 10 classes: 1 or 2 threads, ECE", NOTHING, lambda v: v == 0.0)
def diag_threads_ece() -> Value:
    """The number of threads."""
    return _by_threads(10, 5000)[1]


@measure(ITEM, "mpts, 2 classes + 1e6: float32 or float64", "at most 1e-5", lambda v: v <= 1e-5)
def mpts_precision() -> Value:
    """The precision of logits with an offset."""
    return _by_precision("mpts", 2)


@measure(ITEM, "spts, 2 classes + 1e6: float32 or float64", "at most 1e-5", lambda v: v <= 1e-5)
def spts_precision() -> Value:
    """The precision of logits with an offset."""
    return _by_precision("spts", 2)


@measure(ITEM, "pts, 10 classes + 1e6: float32 or float64", "at most 1e-5", lambda v: v <= 1e-5)
def pts_precision() -> Value:
    """The precision of logits with an offset."""
    return _by_precision("pts", 10)


@measure(ITEM, "diag, 3 classes + 1e6: float32 or float64", "at most 1e-5", lambda v: v <= 1e-5)
def diag_precision() -> Value:
    """The precision of logits with an offset."""
    return _by_precision("diag", 3)


class _Negative(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its probabilities."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> _Negative:  # noqa: N803
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        return self.classes_[X.argmax(axis=1)]


@measure(
    ITEM,
    "a classifier's predict_proba gives -0.2",
    "an error with row, class and value",
    lambda v: isinstance(v, str) and "-0.2 at row 1, class dog" in v,
)
def negative_probabilities() -> Value:
    """Probabilities below 0."""
    probs = np.array([[0.4, 0.6], [1.2, -0.2], [0.7, 0.3], [0.2, 0.8]])
    labels = np.array(["dog", "cat", "cat", "dog"])
    fitted = _Negative().fit(probs, labels)
    CalibratedClassifier(fitted, "ts", cv="prefit", response_method="predict_proba").fit(
        probs, labels
    )
    return "clipped silently"
