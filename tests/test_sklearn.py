"""CalibratedClassifier: scikit-learn's own checks, and the laws that tie it to the calibrators."""
# ruff: noqa: N803 - features are called X, as everywhere in scikit-learn

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import calibrant
from calibrant import PTS, TS, CalibrationWarning
from calibrant.calibrators import REGISTRY, calibrator
from calibrant.sklearn import (
    SMALLEST_PROBABILITY,
    CalibratedClassifier,
    CalibratedPair,
    ScoreReader,
)

# The checks fit on a handful of rows: a temperature at its bound and classes with fewer members
# than folds are then no news. The cast is scikit-learn's own, of an infinite label.
expected_on_tiny_data = pytest.mark.filterwarnings(
    "ignore::calibrant.CalibrationWarning",
    "ignore:The least populated class:UserWarning",
    "ignore:invalid value encountered in cast:RuntimeWarning",
)
SKLEARN = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
ENSEMBLES = ("shared", True, False)
QUICK_PTS = PTS(hidden=(2,), members=1)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return StandardScaler().fit_transform(X[order]), y[order]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


# --- scikit-learn's own checks: none is expected to fail ----------------------------------------


def wrong_checks(estimator):
    """In scikit-learn 1.6, two checks compare two fits to other pairs of classes."""
    if estimator.method != "beta" or not sklearn.__version__.startswith("1.6."):
        return {}
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(names, "of three classes it keeps two, and not the same ones")


@expected_on_tiny_data
@parametrize_with_checks(
    [
        CalibratedClassifier(method="ts"),
        CalibratedClassifier(method="ts", cv=3, ensemble=True),
        CalibratedClassifier(method="ts", cv=3, ensemble=False),
        CalibratedClassifier(GaussianNB(), "ets", cv=3),
        CalibratedClassifier(method="platt", cv=3),
        CalibratedClassifier(method="beta", cv=3),
        CalibratedClassifier(method=QUICK_PTS, cv=3, ensemble=False),
    ],
    expected_failed_checks=wrong_checks,
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@expected_on_tiny_data
@parametrize_with_checks([CalibratedClassifier()])
def test_estimator_checks_of_the_defaults(estimator, check):
    check(estimator)


# --- the same as doing it by hand --------------------------------------------------------------


def test_ensemble_is_the_mean_of_one_pair_a_fold(iris):
    X, y = iris
    model = CalibratedClassifier(GaussianNB(), "ts", cv=3, ensemble=True).fit(X, y)
    expected = np.zeros((len(y), 3))
    for train, test in StratifiedKFold(3).split(X, y):
        fold = GaussianNB().fit(X[train], y[train])
        ts = TS().fit(by_hand(fold, X[test]), y[test])
        expected += ts.predict_proba(by_hand(fold, X)) / 3
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-10)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), expected, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))


def test_the_classifiers_of_all_folds_share_a_calibrator(iris):
    X, y = iris
    model = CalibratedClassifier(GaussianNB(), "ts", cv=3).fit(X, y)
    assert model.ensemble == "shared"
    splits = list(StratifiedKFold(3).split(X, y))
    folds = [GaussianNB().fit(X[train], y[train]) for train, _ in splits]
    held_out = [by_hand(one, X[test]) for one, (_, test) in zip(folds, splits, strict=True)]
    ts = TS().fit(np.concatenate(held_out), np.concatenate([y[test] for _, test in splits]))
    expected = sum(ts.predict_proba(by_hand(one, X)) for one in folds) / 3
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-10)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), expected, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))
    assert len(model.calibrated_classifiers_) == 3
    [shared] = model.calibrators_
    assert all(pair.calibrator is shared for pair in model.calibrated_classifiers_)
    assert shared.temperature_ == pytest.approx(ts.temperature_)


def by_hand(classifier, X):
    return np.log(np.maximum(classifier.predict_proba(X), 1e-12))


def test_one_calibrator_on_held_out_scores(iris):
    X, y = iris
    model = CalibratedClassifier(method="ts", cv=3, ensemble=False).fit(X, y)
    lr = LogisticRegression(max_iter=1000)
    held_out = cross_val_predict(lr, X, y, cv=3, method="decision_function")
    expected = TS().fit(held_out, y).predict_proba(lr.fit(X, y).decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), lr.predict(X))


@pytest.mark.skipif(SKLEARN < (1, 8), reason="scikit-learn has temperature scaling since 1.8")
@pytest.mark.parametrize("ensemble", [True, False])
def test_temperature_scaling_agrees_with_scikit_learn(ensemble, digits):
    X, y = digits
    svc = LinearSVC(C=0.01, random_state=0)
    theirs = CalibratedClassifierCV(svc, method="temperature", cv=3, ensemble=ensemble)
    ours = CalibratedClassifier(svc, "ts", cv=3, ensemble=ensemble)
    a, b = theirs.fit(X, y).predict_proba(X), ours.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(a, b, atol=1e-4)


def test_splits_need_not_be_a_partition(iris):
    X, y = iris
    cv = ShuffleSplit(4, test_size=0.4, random_state=0)
    for ensemble in ENSEMBLES:
        model = CalibratedClassifier(method="ts", cv=cv, ensemble=ensemble).fit(X, y)
        assert model.score(X, y) > 0.9
    assert len(model.calibrated_classifiers_) == 1


# --- fitted classifiers ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:class .* has the mean probability")
@pytest.mark.parametrize("method", ["ts", "pts"])
@pytest.mark.parametrize("classifier", [LinearSVC(random_state=0), GaussianNB()])
def test_frozen(classifier, method, digits):
    X, y = digits
    names = np.array([f"digit {i}" for i in range(10)])[y]
    classifier = clone(classifier).fit(X[:600], names[:600])
    model = CalibratedClassifier(FrozenEstimator(classifier), method).fit(X[600:], names[600:])
    [pair] = model.calibrated_classifiers_
    np.testing.assert_array_equal(model.classes_, classifier.classes_)
    np.testing.assert_array_equal(model.predict(X), classifier.predict(X))  # accuracy is preserved
    direct = REGISTRY[method]().fit(pair.logits(X[600:]), y[600:])
    np.testing.assert_array_equal(
        model.predict_proba(X), direct.predict_proba(pair.logits(X)), strict=True
    )
    assert model.n_features_in_ == 64


def test_frozen_keeps_classes_that_calibration_does_not_see(iris):
    X, y = iris
    lr = LogisticRegression().fit(X, y)
    model = CalibratedClassifier(FrozenEstimator(lr), "ts").fit(X[y > 0], y[y > 0])
    assert model.predict_proba(X).shape == (150, 3)
    np.testing.assert_array_equal(model.predict(X), lr.predict(X))
    with pytest.raises(ValueError, match=r"labels must be classes of \[0, 1, 2\], got 7"):
        model.fit(X, np.where(y == 2, 7, y))


def test_prefit_is_short_for_frozen(iris):
    X, y = iris
    lr = LogisticRegression().fit(X[:100], y[:100])
    short = CalibratedClassifier(lr, "ts", cv="prefit").fit(X[100:], y[100:])
    frozen = CalibratedClassifier(FrozenEstimator(lr), "ts").fit(X[100:], y[100:])
    np.testing.assert_array_equal(short.predict_proba(X), frozen.predict_proba(X))
    with pytest.raises(NotFittedError):
        CalibratedClassifier(LogisticRegression(), "ts", cv="prefit").fit(X, y)


# --- which scores, and what they mean ----------------------------------------------------------


@pytest.mark.parametrize(
    ("classifier", "chosen"),
    [
        (LogisticRegression(), "decision_function"),
        (make_pipeline(StandardScaler(), SVC()), "decision_function"),
        (LinearDiscriminantAnalysis(), "decision_function"),
        (GridSearchCV(LinearSVC(random_state=0), {"C": [0.1, 1.0]}, cv=2), "decision_function"),
        (GaussianNB(), "predict_proba"),
        (KNeighborsClassifier(), "predict_proba"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_automatic_choice(classifier, chosen, iris):
    model = CalibratedClassifier(classifier, "ts", cv=2).fit(*iris)
    assert model.response_method_ == chosen
    assert model.score(*iris) > 0.9


class OneVsOneWithProbabilities(SVC):
    def predict_proba(self, X):
        return softmax(SVC(decision_function_shape="ovr").fit(*self.seen_).decision_function(X), 1)

    def fit(self, X, y):
        self.seen_ = X, y
        return super().fit(X, y)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda svc: svc,
        lambda svc: make_pipeline(StandardScaler(), svc),
        lambda svc: GridSearchCV(SVC(), {"decision_function_shape": ["ovo"]}, cv=2),
    ],
)
def test_pairwise_scores_are_not_class_scores(wrap, iris):
    """With three classes there are three pairs: the shape alone does not tell."""
    X, y = iris
    svc = wrap(SVC(decision_function_shape="ovo"))
    for estimator in (svc, FrozenEstimator(clone(svc).fit(X, y))):
        with pytest.raises(TypeError, match="has no predict_proba"):
            CalibratedClassifier(estimator, "ts", cv=3).fit(X, y)
        with pytest.raises(ValueError, match="pairwise scores"):
            CalibratedClassifier(estimator, "ts", cv=3, response_method="decision_function").fit(
                X, y
            )


def test_a_fitted_classifier_is_fitted_anew_and_that_is_told(iris):
    X, y = iris
    fitted = GaussianNB().fit(X[::2], y[::2])
    with pytest.warns(CalibrationWarning, match=r"is fitted already: .* FrozenEstimator\(estim"):
        model = CalibratedClassifier(fitted, "ts", cv=3).fit(X, y)
    assert len(model.calibrated_classifiers_) == 3
    assert all(pair.estimator is not fitted for pair in model.calibrated_classifiers_)
    again = CalibratedClassifier(clone(fitted), "ts", cv=3).fit(X, y)  # no warning
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_frozen_classifier_stays_as_it_is(iris):
    X, y = iris
    fitted = GaussianNB().fit(X[::2], y[::2])
    means = fitted.theta_.copy()
    for wrapped, cv in ((FrozenEstimator(fitted), 5), (fitted, "prefit")):
        model = CalibratedClassifier(wrapped, "ts", cv=cv).fit(X[1::2], y[1::2])
        [pair] = model.calibrated_classifiers_
        np.testing.assert_array_equal(pair.estimator.theta_, means)
        np.testing.assert_array_equal(model.predict(X), fitted.predict(X))


def test_falls_back_to_probabilities_from_pairwise_scores(iris):
    svc = OneVsOneWithProbabilities(decision_function_shape="ovo")
    assert CalibratedClassifier(svc, "ts", cv=2).fit(*iris).response_method_ == "predict_proba"


@expected_on_tiny_data
def test_pairwise_and_binary_is_a_margin(cancer):
    X, y = cancer
    svc = make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo"))
    assert CalibratedClassifier(svc, "ts").fit(X, y).response_method_ == "decision_function"


def test_a_binary_margin_means_the_logits_0_and_s(cancer):
    X, y = cancer
    lr = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    logits = ScoreReader("decision_function", lr.classes_).logits(lr, X)
    np.testing.assert_array_equal(logits[:, 0], 0.0)
    np.testing.assert_array_equal(logits[:, 1], lr.decision_function(X))
    np.testing.assert_allclose(softmax(logits, axis=1), lr.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("response", ["predict_proba", "predict_log_proba"])
def test_logs_of_probabilities_are_centred(response, iris):
    X, y = iris
    nb = GaussianNB().fit(X, y)
    logits = ScoreReader(response, nb.classes_).logits(nb, X)
    np.testing.assert_allclose(logits.mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(softmax(logits, axis=1), nb.predict_proba(X), atol=1e-11)


@pytest.mark.parametrize("response", ["predict_proba", "predict_log_proba"])
@pytest.mark.parametrize("method", ["ts", "ets", "pts"])
def test_labels_on_zero_probabilities(response, method, digits):
    """Trees say 0 and 1 only, and are wrong at times."""
    X, y = digits
    tree = DecisionTreeClassifier(random_state=0).fit(X[:900], y[:900])
    assert (tree.predict_proba(X[900:])[np.arange(897), y[900:]] == 0.0).any()
    frozen = CalibratedClassifier(FrozenEstimator(tree), method, response_method=response)
    model = frozen.fit(X[900:], y[900:])
    assert np.isfinite(model.predict_log_proba(X)).all()
    np.testing.assert_array_equal(model.predict(X), tree.predict(X))
    accuracy = tree.score(X[900:], y[900:])
    assert model.predict_proba(X[900:]).max(axis=1).mean() == pytest.approx(accuracy, abs=0.02)


class Scripted(ClassifierMixin, BaseEstimator):
    """A classifier whose scores are its features."""

    def __init__(self, response="decision_function"):
        self.response = response

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def __getattr__(self, name):
        if not name.startswith("_") and name == self.response:
            return np.asarray
        raise AttributeError(name)


def test_minus_infinity_stays_lowest_of_its_row():
    classifier = Scripted("predict_log_proba").fit(None, [0, 1, 2])
    scores = np.array([[0.0, -1.0, -np.inf], [0.0, -np.inf, -80.0], [-np.inf, 0.0, -np.inf]])
    logits = ScoreReader("predict_log_proba", classifier.classes_).logits(classifier, scores)
    floor = np.log(SMALLEST_PROBABILITY)
    expected = np.array([[0.0, -1.0, floor], [0.0, -80.0, -80.0], [floor, 0.0, floor]])
    np.testing.assert_allclose(logits, expected - expected.mean(axis=1, keepdims=True))


@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 4)])
def test_scores_of_another_shape(shape):
    y = [0, 1, 2, 0, 1, 2]
    model = CalibratedClassifier(Scripted(), "ts", cv="prefit")
    model.estimator.fit(None, y)
    with pytest.raises(TypeError, match="has no predict_proba"):  # "auto" looks elsewhere
        model.fit(np.zeros(shape), y)
    model.set_params(response_method="decision_function")
    with pytest.raises(ValueError, match=rf"shape \(rows, 3\), got shape \({shape[0]},"):
        model.fit(np.zeros(shape), y)


def test_negative_probabilities_are_refused():
    classifier = Scripted("predict_proba").fit(None, ["a", "b", "c"])
    reader = ScoreReader("predict_proba", classifier.classes_)
    probs = np.array([[0.5, 0.5, 0.0], [0.7, 0.6, -0.3]])
    told = r"predict_proba must .* got -0\.3 at row 1, class c\. If these are scores"
    with pytest.raises(ValueError, match=told):
        reader.logits(classifier, probs)
    model = CalibratedClassifier(classifier, "ts", cv="prefit", response_method="predict_proba")
    with pytest.raises(ValueError, match=told):
        model.fit(probs, ["a", "b"])


def test_probabilities_below_zero_by_rounding_count_as_zero():
    classifier = Scripted("predict_proba").fit(None, [0, 1, 2])
    reader = ScoreReader("predict_proba", classifier.classes_)
    np.testing.assert_array_equal(
        reader.logits(classifier, np.array([[0.5, 0.5, -5e-7]])),
        reader.logits(classifier, np.array([[0.5, 0.5, 0.0]])),
    )


# --- folds that lack a class -------------------------------------------------------------------


def test_scores_of_a_class_that_was_never_seen():
    classifier = Scripted().fit(None, ["b", "d"])
    reader = ScoreReader("decision_function", np.array(["a", "b", "c", "d"]))
    logits = reader.logits(classifier, np.array([2.0, -3.0, 0.0]))
    expected = [[-2.0, 0.0, -2.0, 2.0], [-6.0, 0.0, -6.0, -3.0], [-1.0, 0.0, -1.0, 0.0]]
    np.testing.assert_array_equal(logits, expected)


@pytest.mark.filterwarnings("ignore:class .* has the mean probability")
@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize("classifier", [LogisticRegression(), GaussianNB(), SVC()])
def test_fold_without_a_class(classifier, ensemble, iris):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    without = np.flatnonzero(y != 1)
    splits = [(without, np.arange(150)), (np.arange(0, 150, 2), np.arange(1, 150, 2))]
    model = CalibratedClassifier(classifier, "ts", cv=splits, ensemble=ensemble).fit(X, names)
    probs = model.predict_proba(X)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    if ensemble is True:  # the fold that has never seen the class gives it the least
        lacking = model.calibrated_classifiers_[0].predict_proba(X)
        assert (lacking.argmin(axis=1) == 1).all()
    assert np.mean(model.predict(X) == names) > (0.9 if ensemble is False else 0.6)


@expected_on_tiny_data
def test_a_class_with_one_member(iris):
    X, y = iris
    y = y.copy()
    y[0] = 9
    model = CalibratedClassifier(method="ts").fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 9])
    assert np.isfinite(model.predict_log_proba(X)).all()


# --- every method, on little data --------------------------------------------------------------


@expected_on_tiny_data
@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", sorted(REGISTRY))
def test_methods_on_tens_of_rows(method, classes, ensemble, iris):
    X, y = iris[0][iris[1] < classes][:40], iris[1][iris[1] < classes][:40]
    model = CalibratedClassifier(method=method, cv=3, ensemble=ensemble, random_state=0)
    if classes > 2 and not get_tags(model).classifier_tags.multi_class:
        with pytest.raises(ValueError, match="is for two classes, got 3"):
            model.fit(X, y)
        return
    probs = model.fit(X, y).predict_proba(X)
    assert np.isfinite(probs).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-6)
    assert model.score(X, y) > 0.85


def test_calibrator_instances_are_cloned(iris):
    ts = TS(loss="brier")
    model = CalibratedClassifier(method=ts, cv=3).fit(*iris)
    assert not hasattr(ts, "temperature_")
    assert model.calibrated_classifiers_[0].calibrator.loss == "brier"
    assert model.get_params()["method__loss"] == "brier"


# --- what was chosen ---------------------------------------------------------------------------


@expected_on_tiny_data
def test_every_fold_tells_its_method(digits):
    X, y = digits[0][:500], digits[1][:500]
    shared = CalibratedClassifier(GaussianNB(), cv=3).fit(X, y)
    assert shared.method_ == (shared.calibrators_[0].method_,)
    model = CalibratedClassifier(GaussianNB(), cv=3, ensemble=True).fit(X, y)
    assert model.method_ == tuple(one.method_ for one in model.calibrators_)
    assert model.calibrators_ == tuple(p.calibrator for p in model.calibrated_classifiers_)
    for method in ("ts", "temperature", "TS", TS(loss="brier")):
        assert (
            CalibratedClassifier(method=method, cv=3, ensemble=True).fit(X, y).method_
            == ("ts",) * 3
        )
    assert CalibratedClassifier(method="pts", cv=2, ensemble=False).fit(X, y).method_ == ("pts",)
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    assert CalibratedClassifier(frozen, "ets").fit(X, y).method_ == ("ets",)


class OwnTemperature(TS):
    """A calibrator that is not registered."""


class Pooled(TS):
    """Stands for a calibrator that averages several methods."""

    method_, members_, weights_ = "pool", ("ts", "svs"), np.array([0.75, 0.25])


def test_methods_of_ones_own_are_told_by_their_class(iris):
    model = CalibratedClassifier(method=OwnTemperature(), cv=2, ensemble=True).fit(*iris)
    assert model.method_ == ("OwnTemperature",) * 2


def test_nothing_was_chosen_before_the_fit():
    model = CalibratedClassifier()
    for name in ("method_", "calibrators_", "calibrated_classifiers_"):
        assert not hasattr(model, name)


PIPELINE = make_pipeline(
    StandardScaler(), RandomForestClassifier(min_samples_leaf=5, n_estimators=300, random_state=0)
)


@pytest.mark.parametrize(
    "model",
    [
        CalibratedClassifier(),
        CalibratedClassifier(GaussianNB(), "ts", cv=3, n_jobs=2),
        CalibratedClassifier(PIPELINE, TS(loss="brier"), cv=3, response_method="predict_proba"),
    ],
    ids=["defaults", "short", "long"],
)
def test_before_the_fit_the_repr_is_that_of_scikit_learn(model):
    class CalibratedClassifieR(BaseEstimator):  # as long, so that lines break at the same places
        __init__ = CalibratedClassifier.__init__

    plain = CalibratedClassifieR(**model.get_params(deep=False))
    assert repr(model) == str(model) == repr(plain).replace("fieR", "fier")
    inside, expected = (repr(make_pipeline(StandardScaler(), one)) for one in (model, plain))
    assert inside == expected.replace("fieR", "fier")


def test_after_the_fit_the_repr_tells_the_methods(iris):
    model = CalibratedClassifier(GaussianNB(), "ts", cv=3, ensemble=True)
    before = repr(model)
    assert repr(model.fit(*iris)) == f"{before}\n# method_ = ('ts', 'ts', 'ts')"
    assert repr(clone(model)) == before
    assert repr(make_pipeline(model)).endswith("])")  # no comment inside of another
    many = CalibratedClassifier(method="base", cv=25, ensemble=True)
    before = repr(many)
    after = repr(many.fit(*iris))
    assert after.startswith(f"{before}\n# method_ = ('base', ")
    assert len(after) < len(before) + 100
    assert after.endswith("...)")


def test_the_html_tells_the_methods(iris):
    model = CalibratedClassifier(GaussianNB(), Pooled(), cv=2, ensemble=True)
    assert "Chosen methods" not in model._repr_html_()
    model.fit(*iris)
    shown = [model._repr_html_(), model._repr_mimebundle_()["text/html"]]
    for html in shown:
        assert "method_" in html
        assert html.count("pool: 75% ts + 25% svs") == 2
        assert html.count("<div") == html.count("</div>")
    assert model._repr_mimebundle_()["text/plain"] == repr(model)
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert model._repr_mimebundle_() == {"text/plain": repr(model)}
    assert "method_" in estimator_html_repr(model)  # scikit-learn's alone


# --- to files ----------------------------------------------------------------------------------


@expected_on_tiny_data
@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize(
    "classifier", [GaussianNB(), RandomForestClassifier(10, random_state=0), SGDClassifier()]
)
def test_calibrators_go_to_a_file_and_back(classifier, ensemble, tmp_path):
    """Probabilities, some of them 0, and margins of thousands: scores that are read differently."""
    X, y = load_digits(return_X_y=True)
    model = CalibratedClassifier(classifier, cv=3, ensemble=ensemble, random_state=0)
    model.fit(X[:600], y[:600])
    path = tmp_path / "calibrators.safetensors"
    calibrant.save(model.calibrators_, path)
    loaded = calibrant.load(path)
    assert len(loaded) == len(model.calibrators_) == (3 if ensemble is True else 1)
    records = [(one, record) for one in loaded for record in one.fit_info_.details["readers"]]
    for pair, (one, record) in zip(model.calibrated_classifiers_, records, strict=True):
        reader = ScoreReader(classes=pair.estimator.classes_, **record)
        again = CalibratedPair(pair.estimator, one, reader)
        for name in ("predict_proba", "predict_log_proba", "predict"):
            np.testing.assert_array_equal(getattr(again, name)(X), getattr(pair, name)(X))
    if isinstance(classifier, SGDClassifier):
        assert all(pair.reader.scale > 1.0 for pair in model.calibrated_classifiers_)


def test_the_whole_classifier_is_not_written(iris, tmp_path):
    model = CalibratedClassifier(method="ts", cv=2)
    fitted = clone(model).fit(*iris)
    for thing in (model, fitted, *fitted.calibrated_classifiers_, fitted.calibrated_classifiers_):
        with pytest.raises(TypeError, match=r"save writes no Cal.*\(model\.calibrators_, .*skops"):
            calibrant.save(thing, tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_skops_writes_the_whole(iris, tmp_path):
    skops = pytest.importorskip("skops.io")
    X, y = iris
    model = CalibratedClassifier(GaussianNB()).fit(X, y)
    skops.dump(model, tmp_path / "model.skops")
    unknown = skops.get_untrusted_types(file=tmp_path / "model.skops")
    assert all(name.startswith("calibrant.") for name in unknown)
    again = skops.load(tmp_path / "model.skops", trusted=unknown)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


# --- weights and other metadata ----------------------------------------------------------------


@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_weight_zero_is_absence(ensemble, iris):
    X, y = iris
    weight = np.where(np.arange(150) < 60, 0.0, 2.0)
    halves = [
        (np.arange(0, 150, 2), np.arange(1, 150, 2)),
        (np.arange(1, 150, 2), np.arange(0, 150, 2)),
    ]
    kept = [(train[train >= 60] - 60, test[test >= 60] - 60) for train, test in halves]
    X, model = X[:, :2], GaussianNB()  # no probability is exactly 0
    a = CalibratedClassifier(model, "ts", cv=halves, ensemble=ensemble).fit(X, y, weight)
    b = CalibratedClassifier(model, "ts", cv=kept, ensemble=ensemble).fit(X[60:], y[60:])
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=1e-6)


def test_a_classifier_without_weights_is_told(iris):
    X, y = iris
    knn = KNeighborsClassifier()
    with pytest.warns(CalibrationWarning, match="KNeighborsClassifier.fit takes no sample_weight"):
        weighted = CalibratedClassifier(knn, "ts", cv=3).fit(X, y, np.arange(150.0))
    plain = CalibratedClassifier(knn, "ts", cv=3).fit(X, y)
    assert not np.allclose(weighted.predict_proba(X), plain.predict_proba(X))


class Recorder(GaussianNB):
    """Keeps what ``fit`` was given."""

    def fit(self, X, y, sample_weight=None, note=None, tags=None, table=None):
        self.given_ = {"rows": X[:, 0], "weight": sample_weight, "note": note}
        self.given_ |= {"tags": tags, "table": table}
        return super().fit(X, y, sample_weight)


def test_fit_parameters_are_split_with_the_rows(iris):
    X, y = np.column_stack([np.arange(150.0), iris[0]]), iris[1]
    table = sparse.csr_matrix(np.arange(150.0)[:, None])
    model = CalibratedClassifier(Recorder(), "ts", cv=3)
    model.fit(X, y, 1.0 + np.arange(150), note="a" * 150, tags=list(range(150)), table=table)
    for pair in model.calibrated_classifiers_:
        given = pair.estimator.given_
        np.testing.assert_array_equal(given["weight"], 1.0 + given["rows"])
        np.testing.assert_array_equal(given["tags"], given["rows"])
        np.testing.assert_array_equal(given["table"].toarray()[:, 0], given["rows"])
        assert given["note"] == "a" * 150
        assert len(given["rows"]) == 100


@expected_on_tiny_data
def test_metadata_routing(iris):
    X, y = np.column_stack([np.arange(150.0), iris[0]]), iris[1]
    weight, groups = 1.0 + np.arange(150), np.arange(150) % 5
    with sklearn.config_context(enable_metadata_routing=True):
        asking = Recorder().set_fit_request(sample_weight=True, note=True)
        model = CalibratedClassifier(asking, "ts", cv=GroupKFold(5))
        model.fit(X, y, sample_weight=weight, note="hello", groups=groups)
        for pair in model.calibrated_classifiers_:
            given = pair.estimator.given_
            np.testing.assert_array_equal(given["weight"], 1.0 + given["rows"])
            assert given["note"] == "hello"
            assert len(set(given["rows"] % 5)) == 4  # a group is held out as a whole
        declining = Recorder().set_fit_request(sample_weight=False)
        model = CalibratedClassifier(declining, "ts", cv=3).fit(X, y, sample_weight=weight)
        assert model.calibrated_classifiers_[0].estimator.given_["weight"] is None
        frozen = FrozenEstimator(GaussianNB().fit(X, y))
        assert CalibratedClassifier(frozen, "ts").fit(X, y).score(X, y) > 0.9
        assert CalibratedClassifier(method="ts").fit(X, y, sample_weight=weight).score(X, y) > 0.9


# --- inputs go through untouched ---------------------------------------------------------------


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse(container, digits):
    X, y = digits[0][:300], digits[1][:300]
    for method in (True, False):
        model = CalibratedClassifier(MultinomialNB(), "ts", cv=3, ensemble=method)
        dense, thin = clone(model).fit(X, y), model.fit(container(X), y)
        np.testing.assert_allclose(
            thin.predict_proba(container(X)), dense.predict_proba(X), rtol=1e-6
        )
    assert get_tags(model).input_tags.sparse
    assert not get_tags(CalibratedClassifier(GaussianNB())).input_tags.sparse


def test_lists_of_texts():
    texts = ["a good day", "a bad day", "good things", "bad things", "so good", "so bad"] * 5
    labels = ["up", "down"] * 15
    model = CalibratedClassifier(make_pipeline(CountVectorizer(), MultinomialNB()), "ets", cv=3)
    assert model.fit(texts, labels).predict(["good", "bad"]).tolist() == ["up", "down"]
    assert not hasattr(model, "n_features_in_")  # a vectorizer has none


def test_data_frames(iris):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(iris[0], columns=list("abcd"), index=np.arange(150)[::-1])
    y = pandas.Series(np.array(["x", "y", "z"])[iris[1]], index=frame.index)
    weight = pandas.Series(np.linspace(1.0, 2.0, 150), index=frame.index)
    for ensemble in (True, False):
        model = CalibratedClassifier(method="ts", cv=3, ensemble=ensemble)
        plain = clone(model).fit(iris[0], y.to_numpy(), weight.to_numpy())
        model.fit(frame, y, weight)
        assert model.feature_names_in_.tolist() == list("abcd")
        np.testing.assert_allclose(model.predict_proba(frame), plain.predict_proba(iris[0]))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame.rename(columns={"a": "e"}))
        assert not hasattr(model.fit(iris[0], y), "feature_names_in_")


def test_string_labels_and_row_order(iris):
    X, y = iris
    names = np.array(["zebra", "ant", "moth"])[y]
    model = CalibratedClassifier(method="ts", cv=3).fit(X, names)
    assert model.classes_.tolist() == ["ant", "moth", "zebra"]
    shuffled = np.random.default_rng(1).permutation(150)
    np.testing.assert_array_equal(model.predict(X)[shuffled], model.predict(X[shuffled]))
    numbers = CalibratedClassifier(method="ts", cv=3).fit(X, y)
    np.testing.assert_allclose(
        model.predict_proba(X)[:, [2, 0, 1]], numbers.predict_proba(X), rtol=1e-5
    )


@pytest.mark.parametrize("labels", [(False, True), (1.0, 2.0), (-1, 1), ("no", "yes")])
def test_kinds_of_binary_labels(labels, cancer):
    X, y = cancer
    y = np.array(labels)[y]
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    model = CalibratedClassifier(scaled, "ts", cv=3).fit(X, y)
    assert model.classes_.dtype == y.dtype
    assert model.score(X, y) > 0.95


# --- in the company of other estimators --------------------------------------------------------


@pytest.mark.filterwarnings("ignore:class .* has the mean probability")
def test_search_over_methods_and_the_classifiers_parameters(digits):
    X, y = digits[0][:500], digits[1][:500]
    grid = {"method": ["base", "ts", "ets"], "estimator__var_smoothing": [1e-9, 1e-2]}
    search = GridSearchCV(
        CalibratedClassifier(GaussianNB(), cv=3), grid, scoring="neg_log_loss", cv=2
    ).fit(X, y)
    assert search.best_params_["method"] != "base"
    assert search.best_params_["estimator__var_smoothing"] == 1e-2


@expected_on_tiny_data
def test_pipelines_and_cross_val_predict(digits):
    X, y = digits[0][:500], digits[1][:500]
    model = make_pipeline(StandardScaler(), CalibratedClassifier(LinearSVC(random_state=0), "ts"))
    probs = cross_val_predict(model, X, y, cv=3, method="predict_proba")
    assert log_loss(y, probs) < 0.5


def test_frozen_survives_a_search(iris):
    X, y = iris
    lr = LogisticRegression().fit(X[:75], y[:75])
    frozen = CalibratedClassifier(FrozenEstimator(lr))
    search = GridSearchCV(frozen, {"method": ["base", "ts"]}, cv=2).fit(X[75:], y[75:])
    assert search.best_estimator_.calibrated_classifiers_[0].estimator.estimator is lr


def test_clone_and_pickle(iris):
    X, y = iris
    model = CalibratedClassifier(method=QUICK_PTS, cv=2).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_jobs_change_nothing(ensemble, iris):
    forest = RandomForestClassifier(5)
    one = CalibratedClassifier(forest, QUICK_PTS, cv=3, ensemble=ensemble, random_state=0)
    two = clone(one).set_params(n_jobs=2)
    a, b = one.fit(*iris).predict_proba(iris[0]), two.fit(*iris).predict_proba(iris[0])
    np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_random_state_fills_what_is_open(iris):
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(5))
    fitted = [CalibratedClassifier(forest, cv=2, random_state=s).fit(*iris) for s in (0, 0, 1)]
    a, b, c = (model.predict_proba(iris[0]) for model in fitted)
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    pairs = fitted[0].calibrated_classifiers_
    assert len({pair.estimator[-1].random_state for pair in pairs}) == 2
    assert isinstance(pairs[0].calibrator.random_state, int)
    chosen = CalibratedClassifier(RandomForestClassifier(5, random_state=7), "ts", random_state=0)
    assert chosen.fit(*iris).calibrated_classifiers_[0].estimator.random_state == 7
    assert (
        CalibratedClassifier().fit(*iris).calibrated_classifiers_[0].calibrator.random_state is None
    )


def test_tags_are_the_classifiers():
    tags = get_tags(CalibratedClassifier(HistGradientBoostingClassifier()))
    assert tags.input_tags.allow_nan
    assert tags.estimator_type == "classifier"
    assert not get_tags(CalibratedClassifier()).input_tags.allow_nan


def test_missing_values_go_to_the_classifier(iris):
    X, y = iris[0].copy(), iris[1]
    X[::3, 1] = np.nan
    model = CalibratedClassifier(HistGradientBoostingClassifier(max_iter=10), "ts", cv=3)
    assert model.fit(X, y).score(X, y) > 0.9


# --- errors and warnings -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"method": "nope"}, ValueError, "method must be one of .* got 'nope'"),
        ({"method": 3}, TypeError, "method must be an acronym or a calibrator, got 3"),
        ({"method": TS(input="probs")}, ValueError, "input='logits', got input='probs'"),
        ({"response_method": "predict"}, ValueError, "response_method must be in .* got 'predict'"),
        ({"ensemble": "auto"}, ValueError, 'ensemble must be "shared", True or False, got .auto'),
        ({"cv": "prefit"}, ValueError, "needs a fitted estimator, got estimator=None"),
        (
            {"cv": LeaveOneOut(), "ensemble": True},
            ValueError,
            'at least 2, got 1.*ensemble="shared"',
        ),
    ],
)
def test_errors_state_the_rule_and_the_value(parameters, error, message, iris):
    with pytest.raises(error, match=message):
        CalibratedClassifier(**parameters).fit(*iris)


def test_errors_of_the_data(iris):
    X, y = iris
    with pytest.raises(ValueError, match="at least two classes, got 1 class"):
        CalibratedClassifier().fit(X, np.zeros(150, int))
    with pytest.raises(ValueError, match="sample_weight must not be zero everywhere"):
        CalibratedClassifier().fit(X, y, np.zeros(150))
    with pytest.raises(ValueError, match="sample_weight must be finite and at least 0, got -1"):
        CalibratedClassifier().fit(X, y, -np.ones(150))
    model = CalibratedClassifier(Scripted("predict_proba"), "ts", cv="prefit")
    model.estimator.fit(None, y)
    with pytest.raises(ValueError, match="finite or -inf, got nan at row 1, class 0"):
        model.fit(np.array([[0.2, 0.3, 0.5], [np.nan, 0.5, 0.5]]), [0, 1])


def test_leave_one_out_pools(iris):
    X, y = iris[0][:40], iris[1][:40]
    for ensemble in ("shared", False):
        model = CalibratedClassifier(method="ts", cv=LeaveOneOut(), ensemble=ensemble).fit(X, y)
        assert model.score(X, y) > 0.9


def test_importing_calibrant_does_not_import_it():
    code = "import sys, calibrant; calibrant.TS; print('calibrant.sklearn' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "False"


@pytest.mark.parametrize("method", ["ts", "svs"])
def test_votes_are_read_as_calibrators_read_them(method):
    """A class without a vote is no certainty, whichever way the votes are given."""
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(10, random_state=0).fit(X[:500], y[:500])
    votes = forest.predict_proba(X)
    assert (votes[500:1200] == 0.0).any()
    wrapped = CalibratedClassifier(FrozenEstimator(forest), method=method)
    wrapped.fit(X[500:1200], y[500:1200])
    direct = calibrator(method, input="probs").fit(votes[500:1200], y[500:1200])
    (pair,) = wrapped.calibrated_classifiers_
    assert pair.reader.uniform_share == direct.formula_.share > 0.001
    np.testing.assert_allclose(
        wrapped.predict_proba(X[1200:]), direct.predict_proba(votes[1200:]), atol=1e-4
    )


def test_zeros_of_the_baseline_stay():
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(10, random_state=0).fit(X[:500], y[:500])
    wrapped = CalibratedClassifier(FrozenEstimator(forest), method="base").fit(X[500:], y[500:])
    np.testing.assert_allclose(
        wrapped.predict_proba(X[500:]), forest.predict_proba(X[500:]), atol=1e-10
    )


def test_the_default_repairs_class_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = (X[:, 0] - 3.5 + rng.logistic(size=6000) > 0.0).astype(int)
    balanced = LogisticRegression(class_weight="balanced")
    model = CalibratedClassifier(balanced, cv=3).fit(X[:3000], y[:3000])
    assert model.method == "auto"
    plain = LogisticRegression().fit(X[:3000], y[:3000])
    losses = [log_loss(y[3000:], one.predict_proba(X[3000:])) for one in (model, plain)]
    assert losses[0] < 1.02 * losses[1]


# --- margins of any size ---


class Margin(ClassifierMixin, BaseEstimator):
    """A classifier whose margins are a column of X, in a unit of its own."""

    def __init__(self, unit=1.0):
        self.unit = unit

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return self.unit * X[:, 0]

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0.0).astype(int)]


def margins(rows=400):
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(rows, 1))
    return X, (X[:, 0] + rng.logistic(size=rows) > 0.0).astype(int)


@pytest.mark.parametrize(
    "method", ["auto", "ts", "pts", "irova", "irm", "spline", "histogram", "bbq", "venn-abers"]
)
def test_the_unit_of_margins_does_not_matter(method):
    X, y = margins()
    few, many = (
        CalibratedClassifier(Margin(unit), method, cv=2).fit(X, y).predict_proba(X)
        for unit in (2.0**4, 2.0**30)
    )
    np.testing.assert_allclose(few, many, atol=1e-6)
    assert len(np.unique(many)) > (1 if method in ("histogram", "irova") else 50)


def test_the_temperature_of_margins_of_millions_is_no_bound():
    X, y = margins()
    model = CalibratedClassifier(Margin(1e7), "ts", cv=2).fit(X, y)  # a bound would be a warning
    expected = CalibratedClassifier(Margin(1.0), "ts", cv=2).fit(X, y)
    for pair, small in zip(
        model.calibrated_classifiers_, expected.calibrated_classifiers_, strict=True
    ):
        temperature = pair.calibrator.temperature_ * pair.reader.scale
        assert temperature == pytest.approx(1e7 * small.calibrator.temperature_, rel=1e-4)
        assert small.reader.scale == 1.0
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-5)


class InTwoUnits(Margin):
    """The unit of its margins depends on the rows that it was fitted on."""

    def fit(self, X, y):
        self.unit_ = self.unit * (2.0**20 if X[0, 1] else 1.0)
        return super().fit(X, y)

    def decision_function(self, X):
        return self.unit_ * X[:, 0]


def test_classifiers_that_share_a_calibrator_have_units_of_their_own():
    X, y = margins()
    half = np.repeat([0.0, 1.0], 400)  # the same rows twice
    X, y = np.column_stack([np.tile(X[:, 0], 2), half]), np.tile(y, 2)
    splits = [(np.flatnonzero(half == one), np.flatnonzero(half != one)) for one in (0, 1)]
    for method in ("ts", "platt", "irova"):
        same = CalibratedClassifier(Margin(16.0), method, cv=splits).fit(X, y)
        both = CalibratedClassifier(InTwoUnits(16.0), method, cv=splits).fit(X, y)
        scales = [pair.reader.scale for pair in both.calibrated_classifiers_]
        assert scales[1] == 2.0**20 * scales[0]
        np.testing.assert_allclose(both.predict_proba(X), same.predict_proba(X), atol=1e-6)
    base = CalibratedClassifier(InTwoUnits(16.0), "base", cv=splits).fit(X, y)
    assert [pair.reader.scale for pair in base.calibrated_classifiers_] == [1.0, 1.0]


def test_folds_of_a_few_rows_have_one_scale():
    X, y = margins(24)
    for folds in (2, 3):
        model = CalibratedClassifier(Margin(1e6), "ts", cv=folds).fit(X, y)
        scales = {pair.reader.scale for pair in model.calibrated_classifiers_}
        assert (len(scales) == 1) == (folds == 3)


@pytest.mark.parametrize("classifier", [GaussianNB(), LogisticRegression()])
def test_a_fold_without_weight_shares_the_calibrator(classifier):
    X, y = margins()
    halves = np.arange(200), np.arange(200, 400)
    weight = np.where(np.arange(400) < 200, 0.0, 1.0)
    splits = [(halves[1], halves[0]), (halves[1], halves[1])]
    model = CalibratedClassifier(classifier, "ts", cv=splits).fit(X, y, weight)
    alone = CalibratedClassifier(classifier, "ts", cv=splits[1:]).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), rtol=1e-6)
    with pytest.raises(ValueError, match="sample_weight must not be zero everywhere"):
        CalibratedClassifier(classifier, "ts", cv=splits, ensemble=True).fit(X, y, weight)


def test_margins_that_tell_nothing_are_scaled_all_the_same():
    X, _ = margins()
    y = np.random.default_rng(1).integers(0, 2, len(X))
    model = CalibratedClassifier(Margin(1e9), "platt", cv=2).fit(X, y)
    assert np.abs(model.predict_proba(X) - 0.5).max() < 0.3


def test_base_reads_margins_as_they_are():
    X, y = margins()
    [pair] = (
        CalibratedClassifier(Margin(100.0), "base", ensemble=False)
        .fit(X, y)
        .calibrated_classifiers_
    )
    assert pair.reader.scale == 1.0
    np.testing.assert_array_equal(pair.logits(X)[:, 1], 100.0 * X[:, 0])


def test_isotonic_regression_of_large_margins_is_that_of_scikit_learn():
    """SGD on features that were not scaled: its margins are millions."""
    X, y = load_breast_cancer(return_X_y=True)
    train, test = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    sgd = SGDClassifier(random_state=0)
    ours = CalibratedClassifier(sgd, "irova", ensemble=True).fit(X[train], y[train])
    theirs = CalibratedClassifierCV(sgd, method="isotonic", cv=5).fit(X[train], y[train])
    scores = [brier_score_loss(y[test], m.predict_proba(X[test])[:, 1]) for m in (ours, theirs)]
    assert scores[0] < scores[1] + 0.002


# --- arrays of other kinds ---

ON_TENSORS = """
import numpy as np, sklearn, torch
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeClassifier
from calibrant.sklearn import CalibratedClassifier

X, y = load_digits(return_X_y=True)
X, y = X[:500, :40] + np.random.default_rng(0).normal(size=(500, 40)), y[:500]
weight = 1.0 + (y == 3)
tensor, labels = torch.asarray(X), torch.asarray(y)
lda = LinearDiscriminantAnalysis()
plain = CalibratedClassifier(lda, "ts", cv=3, ensemble=True).fit(X, y)
shared_plain = CalibratedClassifier(lda, "ts", cv=3).fit(X, y)
pooled_plain = CalibratedClassifier(lda, "ts", cv=3, ensemble=False).fit(X, y)
ridge = CalibratedClassifier(RidgeClassifier(), "ts", cv=3).fit(X, y, weight)
with sklearn.config_context(array_api_dispatch=True):
    for given in (labels, y):
        model = CalibratedClassifier(lda, "ts", cv=3, ensemble=True).fit(tensor, given)
        for name in ("predict_proba", "predict_log_proba", "predict"):
            result = getattr(model, name)(tensor)
            assert isinstance(result, torch.Tensor), name
            np.testing.assert_allclose(result.numpy(), getattr(plain, name)(X), atol=1e-6)
        assert model.score(tensor, labels) > 0.8
        pooled = CalibratedClassifier(lda, "ts", cv=3, ensemble=False).fit(tensor, given)
        assert isinstance(pooled.predict(tensor), torch.Tensor)
        frozen = FrozenEstimator(LinearDiscriminantAnalysis().fit(tensor, labels))
        on_frozen = CalibratedClassifier(frozen, "irova").fit(tensor, given)
        assert isinstance(on_frozen.predict_proba(tensor), torch.Tensor)
        weighted = CalibratedClassifier(RidgeClassifier(), "ts", cv=3).fit(tensor, given, weight)
        probs = weighted.predict_proba(tensor).numpy()
        np.testing.assert_allclose(probs, ridge.predict_proba(X), atol=1e-6)
    for ensemble in ("shared", True, False):
        texts = np.array(list("abcdefghij"))[y]
        named = CalibratedClassifier(lda, "ts", cv=3, ensemble=ensemble).fit(tensor, texts)
        assert list(named.classes_) == list("abcdefghij")
        assert (named.predict(tensor) == texts).mean() > 0.8
        expected = {"shared": shared_plain, True: plain, False: pooled_plain}[ensemble]
        probs = named.predict_proba(tensor).numpy()
        np.testing.assert_allclose(probs, expected.predict_proba(X), atol=1e-6)
    assert isinstance(plain.predict(X), np.ndarray)
"""


@pytest.mark.slow
def test_tensors_under_array_api_dispatch():
    """In a process of its own: SciPy reads SCIPY_ARRAY_API once, when it is imported."""
    pytest.importorskip("torch")
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ON_TENSORS],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
