"""Spline recalibration of the top label; Platt scaling; beta calibration of two classes.

No golden records exist for these: they are held to their definitions and to SciPy's optimisers.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit

from calibrant.calibrators import BetaCalibration, PlattScaling, SplineCalibration, calibrator
from calibrant.common.errors import CalibrationWarning
from calibrant.formulas import ConstantTemperature
from row_functions import softmax

METHODS = [SplineCalibration, PlattScaling, BetaCalibration]
TWO_CLASSES = [PlattScaling, BetaCalibration]
quiet = pytest.mark.filterwarnings("ignore::calibrant.common.errors.CalibrationWarning")


def _some_logits(rows, classes=2, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes))
    logits[np.arange(rows), labels] += 1.0
    return scale * logits, labels


# --- spline ---


def test_spline_finds_the_true_accuracy():
    rng = np.random.default_rng(0)
    confidence = 0.5 + 0.5 * rng.random(100_000)
    truth = confidence**2  # overconfident everywhere
    logits = np.column_stack([np.log(confidence / (1 - confidence)), np.zeros(100_000)])
    labels = (rng.random(100_000) > truth).astype(int)
    spline = SplineCalibration().fit(logits, labels)
    expected = np.maximum(truth, 0.5)  # the arg max of two classes has at least 1/2
    assert np.abs(spline.predict_proba(logits)[:, 0] - expected).mean() < 0.01


def test_mean_confidence_is_the_accuracy():
    logits, labels = _some_logits(500, 5)
    spline = SplineCalibration().fit(logits, labels)
    confidence = spline.predict_proba(logits).max(axis=1)
    accuracy = (logits.argmax(axis=1) == labels).mean()
    assert confidence.mean() == pytest.approx(accuracy, abs=2e-3)
    assert spline.fit_info_.details["accuracy"] == pytest.approx(accuracy)


def test_spline_leaves_calibrated_confidences_as_they_are():
    """Accuracy minus confidence is fitted: what is right is not smoothed over its neighbours."""
    rng = np.random.default_rng(0)
    logits = np.column_stack([8.0 * rng.random(20_000), np.zeros(20_000)])
    labels = (rng.random(20_000) > expit(logits[:, 0])).astype(int)
    spline = SplineCalibration().fit(logits[:10_000], labels[:10_000])
    new, log_new = (f(logits[10_000:]) for f in (spline.predict_proba, spline.predict_log_proba))
    truth = np.log(softmax(logits[10_000:]))
    assert np.abs(new - np.exp(truth)).mean() < 0.005
    at = np.arange(10_000), labels[10_000:]
    assert truth[at].mean() - log_new[at].mean() < 0.003


def test_spline_is_no_surer_than_its_rows_allow():
    logits, _ = _some_logits(50, 3, scale=30.0)
    top = logits.argmax(axis=1)
    spline = SplineCalibration().fit(logits, top)
    assert spline.predict_proba(logits).max() == pytest.approx(51 / 52)
    doubled = SplineCalibration().fit(logits, top, np.full(50, 2.0))
    assert doubled.predict_proba(logits).max() == pytest.approx(101 / 102)


def test_other_classes_keep_their_proportions():
    logits, labels = _some_logits(500, 5)
    before, after = softmax(logits), SplineCalibration().fit(logits, labels).predict_proba(logits)
    top = logits.argmax(axis=1)
    for probs in (before, after):
        probs[np.arange(500), top] = 0.0
        probs /= probs.sum(axis=1, keepdims=True)
    evened = np.abs(before - after).max(axis=1) > 1e-9
    assert evened.mean() < 0.3
    assert np.array_equal(before[evened].argmax(axis=1), after[evened].argmax(axis=1))


@pytest.mark.filterwarnings("ignore:class .* has the mean probability")
@given(
    arrays(
        np.float32,
        st.tuples(st.integers(1, 12), st.just(4)),
        elements=st.one_of(
            st.sampled_from([np.float32(v) for v in (0.0, 1e-20, 1.0, 1.0000001, 40.0, -1e4)]),
            st.floats(-100, 100, width=32),
            st.just(np.float32(-np.inf)),
        ),
    ),
    st.integers(0, 3),
)
def test_spline_keeps_the_arg_max(logits, seed):
    logits[np.isneginf(logits).all(axis=1)] = 0.0
    val, labels = _some_logits(30, 4, seed, scale=0.5 + 3.0 * seed)
    labels[: 10 * seed] = 0  # even where it is hardly ever right
    spline = SplineCalibration().fit(val, labels)
    probs = spline.predict_proba(logits)
    assert np.array_equal(probs.argmax(axis=1), logits.argmax(axis=1))
    assert np.array_equal(spline.predict_log_proba(logits).argmax(axis=1), logits.argmax(axis=1))
    assert np.allclose(probs.sum(axis=1), 1.0, atol=1e-6)
    assert np.all(probs[np.isneginf(logits)] == 0.0)


@pytest.mark.filterwarnings("ignore:the labels look unrelated")
@pytest.mark.parametrize("classes", range(2, 12))
def test_equal_logits_do_not_move_the_arg_max(classes):
    val, _ = _some_logits(30, classes)
    spline = SplineCalibration().fit(val, (val.argmax(axis=1) + 1) % classes)  # always wrong
    for dtype in (np.float32, np.float64):
        probs = spline.predict_proba(np.zeros((1, classes), dtype))
        assert probs.argmax() == 0
        assert np.allclose(probs, 1.0 / classes)


def test_spline_needs_two_knots():
    with pytest.raises(ValueError, match="n_knots must be at least 2, got 1"):
        SplineCalibration(n_knots=1).fit(*_some_logits(20, 3))


# --- two classes ---


def test_platt_maximises_the_likelihood_of_his_targets():
    logits, labels = _some_logits(300)
    score, ones = logits[:, 1] - logits[:, 0], labels.sum()
    target = np.where(labels == 1, (ones + 1) / (ones + 2), 1 / (300 - ones + 2))

    def loss(theta):
        margin = theta[0] * score + theta[1]
        return -(target * log_expit(margin) + (1 - target) * log_expit(-margin)).sum()

    best = minimize(loss, [1.0, 0.0], tol=1e-10)
    platt = PlattScaling().fit(logits, labels)
    assert [platt.slope_, platt.intercept_] == pytest.approx(best.x, abs=1e-4)
    probs = platt.predict_proba(logits)[:, 1]
    assert np.allclose(probs, expit(platt.slope_ * score + platt.intercept_))
    residual = probs - target  # no gradient is left
    assert [residual @ score, residual.sum()] == pytest.approx([0.0, 0.0], abs=1e-7)


@pytest.mark.filterwarnings("ignore:the labels look unrelated")  # the last ones are
@pytest.mark.parametrize("slopes", [(0.4, 1.5), (1.5, -0.5), (-0.5, 1.5), (-1.0, -1.0)])
def test_beta_maximises_the_likelihood_under_its_bounds(slopes):
    rng = np.random.default_rng(0)
    score = 2.0 * rng.normal(size=2000)
    inputs = np.column_stack([log_expit(score), -log_expit(-score)])
    labels = (rng.random(2000) < expit(inputs @ slopes)).astype(int)

    def loss(theta):
        margin = inputs @ theta[:2] + theta[2]
        return -(labels * log_expit(margin) + (1 - labels) * log_expit(-margin)).mean()

    best = minimize(loss, [1.0, 1.0, 0.0], bounds=[(0, None), (0, None), (None, None)], tol=1e-12)
    beta = BetaCalibration().fit(score, labels)
    assert beta.coefficients_[:2].min() >= 0.0
    assert loss(beta.coefficients_) <= best.fun + 1e-9
    assert beta.coefficients_ == pytest.approx(best.x, abs=2e-3)
    rising = np.diff(beta.predict_proba(np.linspace(-50.0, 50.0, 500))[:, 1])
    assert np.all(rising >= 0.0)


def test_other_numbers_of_classes_are_refused():
    with pytest.raises(ValueError, match="BetaCalibration is for two classes, got 3"):
        BetaCalibration().fit(*_some_logits(20, 3))


@pytest.mark.parametrize("method", TWO_CLASSES)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_scores_does_not_break_the_fit(method, scale):
    logits, labels = _some_logits(300)
    plain = method().fit(logits, labels)
    scaled = method().fit(logits * scale, labels)
    assert scaled.fit_info_.converged
    assert scaled.fit_info_.after < plain.fit_info_.after + 0.05


def test_one_class_leaves_a_temperature():
    logits, _ = _some_logits(20)
    with pytest.warns(CalibrationWarning, match="all rows have class 1, which leaves") as caught:
        beta = BetaCalibration().fit(logits, np.ones(20, int))
    assert len(caught) == 1
    assert isinstance(beta.formula_, ConstantTemperature)
    with pytest.raises(AttributeError, match="a fit on rows of one class gives temperature"):
        _ = beta.coefficients_


def test_platt_of_constant_scores_is_the_smoothed_rate():
    probs = PlattScaling().fit(np.zeros(5), [0, 1, 1, 1, 1]).predict_proba([0.0])
    assert probs[0, 1] == pytest.approx((4 * 5 / 6 + 1 / 3) / 5, abs=1e-5)


def test_a_masked_class_of_two_has_probability_zero():
    logits, labels = _some_logits(40)
    logits[labels == 1, 0] = np.where(np.arange(40) % 3 == 0, -np.inf, logits[:, 0])[labels == 1]
    for method in TWO_CLASSES:
        probs = method().fit(logits, labels).predict_proba([[-np.inf, 1.0], [1.0, -np.inf]])
        assert np.array_equal(probs, [[0.0, 1.0], [1.0, 0.0]])


def test_platt_with_nothing_but_masked_rows_is_the_identity():
    platt = PlattScaling().fit([[-np.inf, 0.0], [0.0, -np.inf]], [1, 0])
    assert np.allclose(platt.predict_proba([[0.0, 2.0]]), softmax(np.array([[0.0, 2.0]])))


# --- one class against all others ---


def test_platt_of_more_classes_is_a_sigmoid_of_each():
    logits, labels = _some_logits(300, 4)
    weight = np.random.default_rng(1).integers(1, 4, 300)
    odds = logit(softmax(logits))
    platt = PlattScaling().fit(logits, labels, weight)
    alone = [PlattScaling().fit(odds[:, c], labels == c, weight) for c in range(4)]
    assert platt.slope_ == pytest.approx([one.slope_ for one in alone], abs=1e-6)
    assert platt.intercept_ == pytest.approx([one.intercept_ for one in alone], abs=1e-6)
    values = expit(platt.slope_ * odds + platt.intercept_)
    expected = values / values.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(platt.predict_proba(logits), expected, atol=1e-12)


def test_platt_of_a_class_that_no_label_names_is_that_of_a_temperature():
    logits, labels = _some_logits(300, 3)
    logits = np.column_stack([logits, logits.min(axis=1)])
    with pytest.warns(CalibrationWarning, match="no row has class 3"):
        probs = PlattScaling().fit(logits, labels).predict_proba(logits)
    scaled = calibrator("ts", prior_rows="auto").fit(logits, labels).predict_proba(logits)
    np.testing.assert_allclose(probs[:, 3], scaled[:, 3], rtol=1e-5)


# --- all three ---


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_output_is_a_distribution(method, dtype):
    logits, labels = _some_logits(300)
    logits = logits.astype(dtype)
    probs = method().fit(logits, labels).predict_proba(logits)
    wide = method().fit(logits.astype(np.float64), labels).predict_proba(logits.astype(np.float64))
    assert probs.dtype == dtype
    assert np.allclose(probs.sum(axis=1), 1.0, atol=1e-6)
    assert np.allclose(probs, wide, atol=2e-7)
    assert np.allclose(np.exp(method().fit(logits, labels).predict_log_proba(logits)), probs)


@pytest.mark.parametrize("method", METHODS)
def test_weight_two_is_a_row_twice(method):
    logits, labels = _some_logits(80)
    weight = np.ones(80)
    weight[::3] = 2.0
    weight[1::7] = 0.0
    again = np.repeat(np.arange(80), weight.astype(int))
    weighted = method().fit(logits, labels, sample_weight=weight).predict_proba(logits)
    repeated = method().fit(logits[again], labels[again]).predict_proba(logits)
    assert np.allclose(weighted, repeated, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_are_as_good_as_logits(method):
    logits, labels = _some_logits(120)
    probs = softmax(logits)
    from_logits = method().fit(logits, labels).predict_proba(logits)
    from_probs = method(input="probs").fit(probs, labels).predict_proba(probs)
    assert np.allclose(from_logits, from_probs, atol=1e-6)


@quiet
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("labels", [[1], [0, 1], [0, 0, 0], [0, 1, 0, 1, 1]])
def test_few_and_constant_rows(method, labels):
    fresh = np.array([[0.0, 1.0], [5.0, -5.0], [0.0, -5000.0]])
    for logits in (_some_logits(len(labels))[0], np.ones((len(labels), 2))):
        calibrator = method().fit(logits, labels)
        probs = calibrator.predict_proba(fresh)
        assert np.isfinite(probs).all()
        assert np.allclose(probs.sum(axis=1), 1.0)
        assert np.isfinite(calibrator.predict_log_proba(fresh)).all()
