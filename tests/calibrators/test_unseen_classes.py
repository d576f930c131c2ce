"""A class without a row to fit on: nothing is learned about it, in any method."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationWarning
from calibrant.calibrators import REGISTRY
from calibrant.formulas import ConstantTemperature, SeenClasses

METHODS = [name for name, cls in REGISTRY.items() if not cls.two_classes_only]
CLASSWISE = [name for name in METHODS if not calibrant.calibrator(name).accuracy_preserving]


def uneven(rows: int, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose best temperature grows with their size."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(rows, classes))
    temperature = 1.3 + 0.7 * np.tanh(logits.max(axis=1) - 2.0)
    return logits, (logits / temperature[:, None] + rng.gumbel(size=logits.shape)).argmax(axis=1)


LOGITS, LABELS = uneven(1400)
SEEN = np.flatnonzero(LABELS != 2)[:900]
TEST, TEST_LABELS = uneven(20_000, seed=1)


def fitted(name: str, logits=LOGITS[SEEN], labels=LABELS[SEEN]):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return calibrant.calibrator(name).fit(logits, labels)


@pytest.mark.parametrize("name", METHODS)
def test_no_method_is_wrecked(name):
    probs = fitted(name).predict_proba(TEST)
    before = calibrant.Uncalibrated().fit(TEST, TEST_LABELS).predict_proba(TEST)
    accuracy = (probs.argmax(axis=1) == TEST_LABELS).mean()
    assert accuracy > (before.argmax(axis=1) == TEST_LABELS).mean() - 0.01
    assert calibrant.metrics.nll(probs, TEST_LABELS) < 0.83  # 0.72 uncalibrated, up to 7.1 once


@pytest.mark.parametrize("name", [name for name in CLASSWISE if name != "auto"])
def test_the_class_has_the_probability_of_temperature_scaling(name):
    model = fitted(name)
    assert isinstance(model.formula_, SeenClasses)
    assert model.fit_info_.details["unseen_classes"] == [2]
    probs = model.predict_proba(TEST)
    scaled = calibrant.TS(prior_rows="auto").fit(LOGITS[SEEN], LABELS[SEEN]).predict_proba(TEST)
    np.testing.assert_allclose(probs[:, 2], scaled[:, 2], rtol=1e-4)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-6)
    alone = fitted(name, LOGITS[SEEN][:, :2]).predict_proba(TEST[:, :2])
    rest = 1.0 - probs[:, 2:]
    np.testing.assert_allclose(probs[:, :2], alone * rest, atol=2e-5)


@pytest.mark.parametrize("name", ["auto", "vector", "platt", "spts", "venn-abers"])
def test_one_warning_names_the_classes(name):
    with pytest.warns(CalibrationWarning, match="no row has class 2, although the scores") as seen:
        calibrant.calibrator(name).fit(LOGITS[SEEN], LABELS[SEEN])
    assert len(seen) == 1


def test_classes_that_chance_left_out_are_no_reason_to_warn():
    logits, labels = uneven(40, 30)
    assert len(set(labels)) < 30
    for name in ("svs", "vector", "irova"):
        model = calibrant.calibrator(name).fit(logits, labels)  # a warning would be an error
        assert isinstance(model.formula_, SeenClasses)


@pytest.mark.parametrize("name", ["vector", "histogram", "auto", "platt"])
def test_a_class_with_one_row_is_a_class_that_was_seen(name):
    rows = np.append(SEEN, np.flatnonzero(LABELS == 2)[:1])
    model = fitted(name, LOGITS[rows], LABELS[rows])
    assert not isinstance(model.formula_, SeenClasses)


@pytest.mark.parametrize("name", CLASSWISE)
def test_one_class_leaves_a_temperature(name):
    rows = LABELS == 1
    with pytest.warns(CalibrationWarning) as caught:
        model = calibrant.calibrator(name).fit(LOGITS[rows], LABELS[rows])
    assert len(caught) == 1
    probs = model.predict_proba(TEST)
    np.testing.assert_array_equal(probs.argmax(axis=1), TEST.argmax(axis=1))
    if name != "auto":
        assert isinstance(model.formula_, ConstantTemperature)
        assert "all rows have class 1" in str(caught[0].message)


def test_masked_rows_and_logarithms():
    formula = fitted("vector").formula_
    rows = np.array([[-np.inf, -np.inf, 1.0], [0.0, -np.inf, 1.0], [-np.inf, 2.0, -np.inf]])
    probs = formula(rows)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    assert (probs[np.isneginf(rows)] == 0.0).all()
    model = fitted("vector")
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(model.predict_log_proba(rows), np.log(probs), atol=1e-9)


def test_intervals_of_a_class_without_rows_say_nothing():
    model = fitted("venn-abers")
    lower, upper = model.predict_interval(TEST[:50])
    probs = model.predict_proba(TEST[:50])
    assert (lower[:, 2] == 0.0).all()
    assert (upper[:, 2] == 1.0).all()
    assert (lower <= probs + 1e-6).all()
    assert (probs <= upper + 1e-6).all()
    assert (upper[:, :2] < 1.0).all()


def test_fitted_attributes_are_those_of_the_classes_that_were_seen():
    assert fitted("vector").slopes_.shape == (2,)
    assert fitted("matrix").slopes_.shape == (2, 2)


def test_calibrated_classifiers_follow_the_same_rule():
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    from calibrant.sklearn import CalibratedClassifier

    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    labels = rng.integers(3, size=3000)
    rows = centres[labels] + rng.normal(size=(3000, 2))
    model = LogisticRegression().fit(rows[:500], labels[:500])
    some = np.flatnonzero(labels[500:1500] != 2) + 500
    for method in ("auto", "svs"):
        wrapped = CalibratedClassifier(FrozenEstimator(model), method=method)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrapped.fit(rows[some], labels[some])
        assert (
            wrapped.score(rows[1500:], labels[1500:])
            > model.score(rows[1500:], labels[1500:]) - 0.01
        )
