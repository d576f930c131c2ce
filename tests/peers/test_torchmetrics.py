"""torchmetrics' calibration errors and ours: the same numbers.

Its source distribution comes without its tests, so these are ours: two classes and more,
probabilities and logits, several norms and numbers of bins, labels to leave out, extra dimensions,
low precision, and a metric that is fed in batches.
"""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import metrics
from calibrant.metrics import CalibrationMeter

torch = pytest.importorskip("torch")
functional = pytest.importorskip("torchmetrics.functional.classification")

NORMS = {1: "l1", 2: "l2", "max": "max"}
BINS = [10, 15, 20]
CLASSES = 5
ROWS = 640


def scores(kind: str, classes: int):
    """Scores and labels of random rows; ``RandomState`` draws the same in every NumPy."""
    rng = np.random.RandomState(42)
    logits = 2.0 * rng.randn(ROWS, classes)
    labels = (0.6 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    if classes == 2:
        margin = logits[:, 1] - logits[:, 0]
        return (margin if kind == "logits" else 1.0 / (1.0 + np.exp(-margin))), labels
    shares = np.exp(logits)
    return (logits if kind == "logits" else shares / shares.sum(axis=1, keepdims=True)), labels


def with_ignored(labels: np.ndarray, ignored: int | None) -> np.ndarray:
    """The labels, some of them replaced by the one to leave out."""
    some = np.random.RandomState(1).rand(len(labels)) < 0.1
    return labels if ignored is None else np.where(some, ignored, labels)


@pytest.mark.parametrize("ignored", [None, -1, 0])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n_bins", BINS)
@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_two_classes(kind, n_bins, norm, ignored):
    # For two classes torchmetrics looks at the probability of class 1, not at the confidence.
    given, labels = scores(kind, 2)
    labels = with_ignored(labels, ignored)
    ours = metrics.class1_ece(given, labels, n_bins, norm, input=kind, ignore_index=ignored)
    theirs = functional.binary_calibration_error(
        torch.tensor(given), torch.tensor(labels), n_bins, NORMS[norm], ignored
    )
    assert ours == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize("ignored", [None, -1, 0])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n_bins", BINS)
@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_more_classes(kind, n_bins, norm, ignored):
    given, labels = scores(kind, CLASSES)
    labels = with_ignored(labels, ignored)
    ours = metrics.ece(given, labels, n_bins, norm, input=kind, ignore_index=ignored)
    theirs = functional.multiclass_calibration_error(
        torch.tensor(given), torch.tensor(labels), CLASSES, n_bins, NORMS[norm], ignored
    )
    assert ours == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_tensors_are_read_as_they_are(norm):
    given, labels = (torch.tensor(values) for values in scores("probs", CLASSES))
    theirs = functional.multiclass_calibration_error(given, labels, CLASSES, 15, NORMS[norm])
    assert metrics.ece(given, labels, 15, norm) == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_precision(dtype, norm):
    given, labels = scores("logits", CLASSES)
    rounded = given.astype(dtype)
    theirs = functional.multiclass_calibration_error(
        torch.tensor(rounded.astype(np.float64)), torch.tensor(labels), CLASSES, 15, NORMS[norm]
    )
    ours = metrics.ece(rounded, labels, 15, norm, input="logits")
    assert ours == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_extra_dimensions_are_rows(norm):
    # They take (N, C, ..): classes are the second axis. Ours is the last one of two.
    given, labels = scores("probs", CLASSES)
    pixels = torch.tensor(given).reshape(ROWS // 8, 8, CLASSES).movedim(-1, 1)
    theirs = functional.multiclass_calibration_error(
        pixels, torch.tensor(labels).reshape(ROWS // 8, 8), CLASSES, 15, NORMS[norm]
    )
    assert metrics.ece(given, labels, 15, norm) == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize(("norm", "name"), [("l1", "ece"), ("l2", "rms_ece"), ("max", "mce")])
def test_batch_by_batch(norm, name):
    from torchmetrics.classification import MulticlassCalibrationError

    given, labels = scores("probs", CLASSES)
    meter, theirs = CalibrationMeter(n_bins=15), MulticlassCalibrationError(CLASSES, 15, norm)
    for rows in np.split(np.arange(ROWS), 10):
        meter.update(given[rows], labels[rows])
        theirs.update(torch.tensor(given[rows]), torch.tensor(labels[rows]))
    value = getattr(meter.compute(), name)
    assert float(value) == pytest.approx(float(theirs.compute()), abs=1e-6)
