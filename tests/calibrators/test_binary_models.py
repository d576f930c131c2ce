"""The methods for binary classifiers on scores as scikit-learn's models give them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

from calibrant.calibrators import calibrator
from calibrant.sklearn import CalibratedClassifier

METHODS = ["platt", "beta", "quadratic", "odds-spline", "cir", "venn-abers"]
MODELS = {
    "forest": lambda: RandomForestClassifier(20, random_state=0),  # votes of exactly 0 and 1
    "bayes": GaussianNB,  # almost always certain
    "balanced": lambda: LogisticRegression(class_weight="balanced"),  # with 1% of class 1
}
FIT, CALIBRATE = slice(0, 2000), slice(2000, 4000)
TEST = slice(4000, None)


@cache
def case(name):
    X, y = make_classification(
        8000,
        n_informative=6,
        weights=[0.99] if name == "balanced" else None,
        flip_y=0.002 if name == "balanced" else 0.1,
        random_state=0,
    )
    return MODELS[name]().fit(X[FIT], y[FIT]), X, y


def calibrated(name, method, rows):
    """Fitted on so many rows, at least two of them of either class."""
    model, X, y = case(name)
    place = np.arange(CALIBRATE.start, CALIBRATE.start + rows)
    place[:2] = CALIBRATE.start + np.flatnonzero(y[CALIBRATE] == 1)[:2]
    place[2:4] = CALIBRATE.start + np.flatnonzero(y[CALIBRATE] == 0)[:2]
    return CalibratedClassifier(model, method=method, cv="prefit").fit(X[place], y[place])


@pytest.mark.parametrize("rows", [20, 60, 2000])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_finite_and_the_log_loss_is_bounded(name, method, rows):
    _, X, y = case(name)
    probs = calibrated(name, method, rows).predict_proba(X[TEST])
    assert np.isfinite(probs).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-9)
    logs = calibrated(name, method, rows).calibrated_classifiers_[0].predict_log_proba(X[TEST])
    assert np.isfinite(logs).all()
    assert np.isfinite(-logs[np.arange(len(logs)), y[TEST]].mean())


@pytest.mark.parametrize("method", ["quadratic", "odds-spline", "venn-abers"])
@pytest.mark.parametrize("name", MODELS)
def test_twenty_rows_do_no_great_harm_and_many_help(name, method):
    model, X, y = case(name)
    constant = log_loss(y[TEST], np.full(len(y[TEST]), y[CALIBRATE].mean()))
    before = log_loss(y[TEST], model.predict_proba(X[TEST]))
    few, many = (
        log_loss(y[TEST], calibrated(name, method, rows).predict_proba(X[TEST]))
        for rows in (20, 2000)
    )
    assert few < max(before, constant) + 0.35
    assert many < min(before, constant)


@pytest.mark.parametrize("method", METHODS)
def test_certain_scores_of_both_classes(method):
    """All scores at two places, both of them wrong at times."""
    score = np.repeat([-27.6, 27.6], 20)
    labels = np.repeat([0, 1, 1, 0], [18, 2, 17, 3])
    probs = calibrator(method).fit(score, labels).predict_proba([-27.6, 27.6])[:, 1]
    assert 0.03 < probs[0] < 0.3
    assert 0.6 < probs[1] < 0.97
