"""The door: every kind of bad input is one error that names the rule, the row and the value."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant import CalibrationWarning, TemperatureProfile, metrics
from calibrant.calibrators import REGISTRY
from calibrant.calibrators.profile import temperature_profile

LOGITS = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.5], [1.0, 1.5, -1.0], [0.3, 0.1, 0.2]])
LABELS = np.array([0, 2, 1, 0])
PROBS = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.4, 0.3, 0.3]])

FITS: dict[str, Callable[..., Any]] = {
    "profile": TemperatureProfile.from_logits,
    **{name: lambda *a, cls=cls, **k: cls().fit(*a, **k) for name, cls in REGISTRY.items()},
}
METRICS = {name: getattr(metrics, name) for name in ("accuracy", "nll", "brier", "ece")}


def changed(array: np.ndarray, row: int, column: int, value: float) -> np.ndarray:
    result = array.astype(np.float64)
    result[row, column] = value
    return result


# --- logits -----------------------------------------------------------------------------------

BAD_LOGITS = {
    "rank 0": (np.float64(3.0), ValueError, r"logits must have shape \(rows, classes\), got shape"),
    "rank 3": (np.zeros((4, 3, 2)), ValueError, r"\(rows, classes\), got shape \(4, 3, 2\)"),
    "empty": (np.zeros((0, 3)), ValueError, r"at least one row, got shape \(0, 3\)"),
    "no class": (np.zeros((4, 0)), ValueError, r"at least two classes, got shape \(4, 0\)"),
    "one class": (np.zeros((4, 1)), ValueError, r"at least two classes, got shape \(4, 1\)"),
    "nan": (changed(LOGITS, 2, 1, np.nan), ValueError, r"got nan at row 2, class 1"),
    "+inf": (changed(LOGITS, 3, 0, np.inf), ValueError, r"got inf at row 3, class 0"),
    "no finite logit": (
        np.where(np.arange(4)[:, None] == 1, -np.inf, LOGITS),
        ValueError,
        "a finite value in every row, row 1 is all -inf",
    ),
    "strings": (np.full((4, 3), "0.5"), TypeError, "must be an array of numbers, got dtype <U3"),
    "objects": (np.full((4, 3), None), TypeError, "must be an array of numbers, got dtype object"),
    "booleans": (np.ones((4, 3), bool), TypeError, "must be an array of numbers, got dtype bool"),
    "complex": (np.ones((4, 3), complex), TypeError, "got dtype complex128"),
    "ragged": ([[1.0, 2.0], [3.0]], ValueError, "logits must be a rectangular array"),
}


@pytest.mark.parametrize("fault", BAD_LOGITS)
@pytest.mark.parametrize("door", FITS)
def test_bad_logits(door, fault):
    logits, error, message = BAD_LOGITS[fault]
    with pytest.raises(error, match=message):
        FITS[door](logits, LABELS)


@pytest.mark.parametrize("fault", BAD_LOGITS)
@pytest.mark.parametrize(
    "method", ["predict_proba", "predict_log_proba", "predict", "transform", "temperature"]
)
def test_bad_logits_at_prediction(method, fault):
    logits, error, message = BAD_LOGITS[fault]
    fitted = calibrant.Uncalibrated().fit(LOGITS, LABELS)
    if fault == "empty":
        assert len(getattr(fitted, method)(logits)) == 0
        return
    with pytest.raises(error, match=message):
        getattr(fitted, method)(logits)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("classes", [3, 300])
def test_the_row_is_counted_over_all_tiles(classes, value, monkeypatch):
    monkeypatch.setattr(
        "calibrant.calibrators.profile.temperature_profile.TILE_ELEMENTS", 10 * classes
    )
    logits = np.random.default_rng(0).standard_normal((60, classes))
    logits[47, 2] = value
    with pytest.raises(ValueError, match=f"got {value} at row 47, class 2"):
        TemperatureProfile.from_logits(logits, np.zeros(60, int))
    monkeypatch.setattr("calibrant.common.arrays.row_tiles.__defaults__", (10 * classes,))
    fitted = calibrant.Uncalibrated().fit(2.0 * np.eye(classes), range(classes))
    with pytest.raises(ValueError, match=f"got {value} at row 47, class 2"):
        fitted.predict_proba(logits)


def test_nan_beside_minus_inf_is_named():
    with pytest.raises(ValueError, match="got nan at row 0, class 2"):
        calibrant.TS().fit([[-np.inf, -np.inf, np.nan]], [0])


# --- probabilities ----------------------------------------------------------------------------

BAD_PROBS = {
    "negative": (changed(PROBS, 1, 2, -0.1), ValueError, r"\[0, 1\], got -0.1 at row 1, class 2"),
    "above 1": (changed(PROBS, 3, 0, 1.5), ValueError, r"\[0, 1\], got 1.5 at row 3, class 0"),
    "nan": (changed(PROBS, 2, 0, np.nan), ValueError, r"\[0, 1\], got nan at row 2, class 0"),
    "sum": (changed(PROBS, 1, 1, 0.9), ValueError, "sum to 1 in every row, row 1 sums to 1.1"),
    "one class": (np.ones((4, 1)), ValueError, r"probs must have at least two classes"),
    "four-dimensional": (np.ones((2, 3, 4, 4)), ValueError, r"np.moveaxis\(probs, 1, -1\)"),
    "empty": (np.ones((0, 3)), ValueError, "probs must have at least one row"),
    "strings": (np.full((4, 3), "x"), TypeError, "probs must be an array of numbers"),
}


@pytest.mark.parametrize("fault", BAD_PROBS)
@pytest.mark.parametrize("metric", METRICS)
def test_bad_probabilities_in_metrics(metric, fault):
    probs, error, message = BAD_PROBS[fault]
    with pytest.raises(error, match=message):
        METRICS[metric](probs, LABELS)


@pytest.mark.parametrize("fault", BAD_PROBS)
@pytest.mark.parametrize("name", REGISTRY)
def test_bad_probabilities_in_fits_and_predictions(name, fault):
    probs, error, message = BAD_PROBS[fault]
    with pytest.raises(error, match=message):
        calibrant.calibrator(name, input="probs").fit(probs, LABELS)
    with pytest.raises(error, match=message):
        TemperatureProfile.from_probs(probs, LABELS)
    fitted = calibrant.Uncalibrated(input="probs").fit(PROBS, LABELS)
    if fault == "empty":
        assert fitted.predict_proba(probs).shape == (0, 3)
        return
    with pytest.raises(error, match=message):
        fitted.predict_proba(probs)


def test_the_row_of_bad_probabilities_is_counted_over_all_tiles(monkeypatch):
    probs = np.tile(PROBS, (15, 1))
    probs[47] = 0.5, 0.5, 0.5
    monkeypatch.setattr(temperature_profile, "TILE_ELEMENTS", 30)
    with pytest.raises(ValueError, match=r"row 47 sums to 1\.5"):
        TemperatureProfile.from_probs(probs, np.zeros(60, int))


def test_the_row_of_bad_probabilities_is_counted_over_all_tiles_at_prediction(monkeypatch):
    probs = np.tile(PROBS, (15, 1))
    probs[47] = 0.5, 0.5, 0.5
    fitted = calibrant.Uncalibrated(input="probs").fit(PROBS, LABELS)
    monkeypatch.setattr("calibrant.common.arrays.row_tiles.__defaults__", (30,))
    with pytest.raises(ValueError, match=r"row 47 sums to 1\.5"):
        fitted.predict_proba(probs)


def test_rounding_of_probabilities_is_no_fault():
    rough = PROBS.astype(np.float16)
    rough[0] += np.float16(2e-4)
    assert metrics.brier(rough, LABELS) == pytest.approx(metrics.brier(PROBS, LABELS), abs=2e-3)
    assert metrics.brier(changed(PROBS, 0, 2, 0.2 + 5e-7), LABELS) > 0.0


def test_what_the_scores_are_must_be_said_in_known_words():
    for act in (
        lambda: calibrant.TS(input="probabilities").fit(LOGITS, LABELS),
        lambda: TemperatureProfile().update(LOGITS, LABELS, input="logit"),
    ):
        with pytest.raises(ValueError, match=r"input must be .*logits.*probs.*, got"):
            act()


# --- what looks like something else -----------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*an end of the allowed range")
@pytest.mark.parametrize("door", ["profile", "base", "ts", "ets", "pts", "pts-linear"])
def test_probabilities_given_as_logits_warn(door):
    with pytest.warns(CalibrationWarning, match='looks like probabilities. If it is, say input="'):
        FITS[door](PROBS, LABELS)


@pytest.mark.parametrize(
    "scores",
    [changed(PROBS, 2, 0, 0.3), PROBS - [0.4, 0.0, -0.4], LOGITS],
    ids=["one row does not sum to 1", "negative", "logits"],
)
def test_logits_do_not_warn(scores):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TemperatureProfile.from_logits(scores, LABELS)


# --- labels -----------------------------------------------------------------------------------

BAD_LABELS = {
    "too few": ([0, 1, 2], ValueError, "the same rows, got 3 and 4"),
    "too many": ([0, 1, 2, 0, 1], ValueError, "the same rows, got 5 and 4"),
    "none at all": ([], ValueError, "the same rows, got 0 and 4"),
    "too large": ([0, 1, 3, 0], ValueError, r"labels must lie in 0..2, got 3 at row 2"),
    "negative": ([0, -1, 2, 0], ValueError, r"labels must lie in 0..2, got -1 at row 1"),
    "infinite": ([0, np.inf, 2, 0], ValueError, r"labels must lie in 0..2, got inf at row 1"),
    "fractional": ([0, 1, 2, 0.5], ValueError, "whole numbers, got 0.5 at row 3"),
    "nan": ([np.nan, 1, 2, 0], ValueError, "whole numbers, got nan at row 0"),
    "strings": (["a", "b", "c", "a"], TypeError, "class indices .integers., got dtype <U1"),
    "rank 3": (np.zeros((4, 3, 1)), ValueError, r"labels must have shape \(rows,\), got shape"),
    "rank 0": (1, ValueError, r"labels must have shape \(rows,\), got shape \(\)"),
    "one-hot, narrow": (np.eye(2)[[0, 1, 1, 0]], ValueError, r"classes \(3\), got 2"),
    "one-hot, wide": (np.eye(4)[LABELS], ValueError, r"classes \(3\), got 4"),
    "one-hot, soft": (PROBS, ValueError, "exactly one 1 in every row, row 0 has not"),
    "one-hot, two ones": (
        changed(np.eye(3)[LABELS], 2, 0, 1.0),
        ValueError,
        "exactly one 1 in every row, row 2 has not",
    ),
    "one-hot, too many": (np.eye(3)[[0, 1, 2, 0, 1]], ValueError, "the same rows, got 5 and 4"),
}


@pytest.mark.parametrize("fault", BAD_LABELS)
@pytest.mark.parametrize("door", FITS)
def test_bad_labels(door, fault):
    labels, error, message = BAD_LABELS[fault]
    with pytest.raises(error, match=message):
        FITS[door](LOGITS, labels)


@pytest.mark.parametrize("fault", BAD_LABELS)
@pytest.mark.parametrize("metric", METRICS)
def test_bad_labels_in_metrics(metric, fault):
    labels, error, message = BAD_LABELS[fault]
    with pytest.raises(error, match=message):
        METRICS[metric](PROBS, labels)


@pytest.mark.parametrize("door", FITS)
def test_a_label_on_a_masked_class(door):
    logits = changed(LOGITS, 1, 2, -np.inf)
    message = "label must not lie on a masked class: row 1 has label 2, whose logit is -inf"
    with pytest.raises(ValueError, match=message):
        FITS[door](logits, LABELS)


@pytest.mark.parametrize(
    "labels",
    [
        np.eye(3)[LABELS],
        np.eye(3, dtype=bool)[LABELS],
        LABELS[:, None],
        LABELS.astype(np.uint8),
        LABELS.astype(np.float32),
        LABELS.tolist(),
    ],
    ids=["one-hot", "boolean one-hot", "column", "uint8", "float32", "list"],
)
def test_all_good_labels_mean_the_same(labels):
    assert metrics.brier(PROBS, labels) == metrics.brier(PROBS, LABELS)


def test_boolean_labels_of_a_binary_model():
    scores, labels = np.array([2.0, -1.0, 0.5]), np.array([True, False, False])
    one, other = (TemperatureProfile.from_logits(scores, y) for y in (labels, [1, 0, 0]))
    assert one.nll(1.0) == other.nll(1.0)


class Series:
    """What a data frame's column looks like: array-like, with a ``shape`` and a ``get(key)``."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape = values, values.shape

    def get(self, key: str) -> None:
        return None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.values, dtype)


def test_columns_of_a_data_frame_are_arrays():
    weight = np.array([1.0, 2.0, 0.5, 1.0])
    plain = TemperatureProfile.from_logits(LOGITS, LABELS, sample_weight=weight)
    framed = TemperatureProfile.from_logits(
        Series(LOGITS), Series(LABELS), sample_weight=Series(weight)
    )
    assert framed.nll(1.3) == plain.nll(1.3)


def test_fit_needs_labels():
    for name in REGISTRY:
        with pytest.raises(TypeError, match="fit needs labels"):
            calibrant.calibrator(name).fit(LOGITS)


def test_a_profile_brings_its_own_labels_and_weights():
    profile = TemperatureProfile.from_logits(LOGITS, LABELS)
    for extra in ({"labels": LABELS}, {"sample_weight": np.ones(4)}):
        with pytest.raises(TypeError, match="a profile holds labels and weights"):
            calibrant.TS().fit(profile, **extra)


# --- weights ----------------------------------------------------------------------------------

BAD_WEIGHTS = {
    "negative": ([1, 1, -0.5, 1], ValueError, "finite and at least 0, got -0.5 at row 2"),
    "nan": ([1, np.nan, 1, 1], ValueError, "finite and at least 0, got nan at row 1"),
    "infinite": ([np.inf, 1, 1, 1], ValueError, "finite and at least 0, got inf at row 0"),
    "too few": ([1, 1, 1], ValueError, r"shape \(4,\), got shape \(3,\)"),
    "a column": (np.ones((4, 1)), ValueError, r"shape \(4,\), got shape \(4, 1\)"),
    "a number": (2.0, ValueError, r"shape \(4,\), got shape \(\)"),
    "all zero": ([0, 0, 0, 0], ValueError, "must not be zero everywhere"),
    "strings": (["1", "1", "1", "1"], TypeError, "sample_weight must be numbers, got dtype <U1"),
}


@pytest.mark.parametrize("fault", BAD_WEIGHTS)
@pytest.mark.parametrize("door", FITS)
def test_bad_weights(door, fault):
    weights, error, message = BAD_WEIGHTS[fault]
    with pytest.raises(error, match=message):
        FITS[door](LOGITS, LABELS, sample_weight=weights)


@pytest.mark.parametrize("fault", BAD_WEIGHTS)
@pytest.mark.parametrize("metric", METRICS)
def test_bad_weights_in_metrics(metric, fault):
    weights, error, message = BAD_WEIGHTS[fault]
    with pytest.raises(error, match=message):
        METRICS[metric](PROBS, LABELS, sample_weight=weights)


# --- use before fit, and with other classes ---------------------------------------------------


@pytest.mark.parametrize("name", REGISTRY)
def test_nothing_is_predicted_before_fit(name, tmp_path):
    unfitted = calibrant.calibrator(name)
    for method in ("predict_proba", "predict_log_proba", "predict", "transform", "temperature"):
        if hasattr(unfitted, method):
            with pytest.raises(NotFittedError, match="is not fitted yet"):
                getattr(unfitted, method)(LOGITS)
    with pytest.raises(NotFittedError):
        calibrant.save(unfitted, tmp_path / "never.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_fewer_classes_than_the_network_reads():
    pts = calibrant.PTS.from_weights([np.zeros((3, 1)), np.ones(1)])
    with pytest.raises(ValueError, match="reads the top 3 logits, got 2 classes"):
        pts.predict_proba(LOGITS[:, :2])
    assert pts.predict_proba(np.c_[LOGITS, LOGITS]).shape == (4, 6)


def test_unknown_methods_and_data_sets_name_the_known_ones():
    with pytest.raises(ValueError, match=r"one of auto, base, ts, ets, pts, .*, got 'nonsense'"):
        calibrant.calibrator("nonsense")
    with pytest.raises(ValueError, match=r"one of .*fashion-mnist-lenet5.*, got 'mnist'"):
        calibrant.datasets.load("mnist")
