"""probmetrics' metrics and calibrators, and ours: the same numbers, or at least as good ones.

Its source distribution comes without its tests, so these are ours. Every class has labels here:
``tests/metrics/test_peers.py`` says what it does where one has none.
"""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant import metrics

torch = pytest.importorskip("torch")
distributions = pytest.importorskip("probmetrics.distributions")
their_metrics = pytest.importorskip("probmetrics.metrics")
calibrators = pytest.importorskip("probmetrics.calibrators")

#: Of two classes probmetrics' errors are those of class 1, and ours have names of their own.
TWO_CLASSES = {
    "logloss": metrics.nll,
    "brier": metrics.brier,
    "accuracy": metrics.accuracy,
    "ece-10": lambda probs, labels: metrics.class1_ece(probs, labels, 10),
    "ece-15": metrics.class1_ece,
    "rmsce-15": lambda probs, labels: metrics.class1_ece(probs, labels, norm=2),
    "mce-15": lambda probs, labels: metrics.class1_ece(probs, labels, norm="max"),
    "kuiper": lambda probs, labels: metrics.kuiper_test(probs, labels).error,
}
MORE_CLASSES = {
    "logloss": metrics.nll,
    "brier": metrics.brier,
    "accuracy": metrics.accuracy,
    "ece-10": lambda probs, labels: metrics.ece(probs, labels, 10),
    "ece-15": metrics.ece,
    "rmsce-15": metrics.rms_ece,
    "mce-15": metrics.mce,
    "smece": metrics.smooth_ece,
}
TOLERANCE = {"smece": 5e-4}  # relplot looks for the bandwidth to within 0.001

#: Ours and theirs, the parameters that make them alike, and how far the probabilities may differ:
#: by the tie-break of isotonic regression (1e-9), and where theirs stop before the optimum.
CALIBRATORS = [
    ("ts", "temp-scaling", 2, {}, 1e-6),
    ("ts", "temp-scaling", 4, {}, 1e-6),
    ("quadratic", "quadratic-scaling", 2, {"smooth_targets": False}, 1e-3),
    ("irova", "isotonic", 2, {}, 1e-8),
    ("irova", "isotonic", 4, {}, 1e-8),
    ("svs", "svs", 4, {}, 1e-3),
    ("sms", "sms", 4, {}, 5e-3),
]


def rows(classes: int):
    """Over-confident probabilities with their labels."""
    rng = np.random.RandomState(classes)
    logits = 1.5 * rng.randn(1500, classes)
    labels = (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True), labels


@pytest.mark.parametrize(
    ("classes", "name"), [(2, name) for name in TWO_CLASSES] + [(4, name) for name in MORE_CLASSES]
)
def test_metrics(classes, name):
    probs, labels = rows(classes)
    theirs = their_metrics.Metrics.from_names([name]).compute_all(
        distributions.CategoricalDirac(torch.as_tensor(labels), n_classes=classes),
        distributions.CategoricalProbs(torch.as_tensor(probs)),
    )
    ours = (TWO_CLASSES if classes == 2 else MORE_CLASSES)[name](probs, labels)
    assert ours == pytest.approx(float(theirs[name]), abs=TOLERANCE.get(name, 1e-6))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # it calls scikit-learn in an older way
@pytest.mark.parametrize(("ours", "theirs", "classes", "parameters", "tolerance"), CALIBRATORS)
def test_calibrators(ours, theirs, classes, parameters, tolerance):
    probs, labels = rows(classes)
    expected = calibrators.get_calibrator(theirs).fit(probs, labels).predict_proba(probs)
    model = calibrant.calibrator(ours, input="probs", **parameters).fit(probs, labels)
    np.testing.assert_allclose(model.predict_proba(probs), expected, rtol=0.0, atol=tolerance)
