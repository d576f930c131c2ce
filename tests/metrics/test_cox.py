"""Cox's slope and intercept: against scikit-learn and direct maxima, under separation, level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import chi2, kstest
from sklearn.linear_model import LogisticRegression

from calibrant import metrics


def example(rows, seed, slope=1.0, intercept=0.0):
    """Chances whose log-odds should be intercept + slope times what they are."""
    rng = np.random.default_rng(seed)
    odds = 2.0 * rng.normal(size=rows) - 0.5
    events = rng.random(rows) < expit(intercept + slope * odds)
    return expit(odds), events.astype(int)


def test_the_coefficients_are_those_of_logistic_regression():
    chance, events = example(400, 0, slope=0.7, intercept=0.3)
    got = metrics.cox_test(chance, events)
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    model.fit(logit(chance)[:, None], events)
    assert got.slope == pytest.approx(model.coef_[0, 0], abs=1e-6)
    assert got.intercept == pytest.approx(model.intercept_[0], abs=1e-6)
    assert got.notion == "class-1"


def test_the_likelihood_ratio_and_the_errors_are_the_textbook_ones():
    chance, events = example(300, 1, slope=0.8)

    def loss(at):
        q = expit(at[0] + at[1] * logit(chance))
        return -np.log(np.where(events == 1, q, 1.0 - q)).sum()

    best = minimize(loss, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    statistic = 2.0 * (loss([0.0, 1.0]) - best.fun)
    got = metrics.cox_test(chance, events)
    assert got.statistic == pytest.approx(statistic, rel=1e-6)
    assert got.p_value == pytest.approx(chi2.sf(statistic, 2), rel=1e-5)
    rows = np.stack([np.ones(300), logit(chance)], axis=1)
    fitted = expit(rows @ best.x)
    covariance = np.linalg.inv((rows.T * (fitted * (1 - fitted))) @ rows)
    errors = [got.intercept_std_error, got.slope_std_error]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(covariance)), rtol=1e-5)


def test_only_ratios_of_weights_count():
    chance, events = example(200, 2)
    plain = metrics.cox_test(chance, events)
    same = metrics.cox_test(chance, events, sample_weight=np.full(200, 0.7))
    assert plain.p_value == pytest.approx(same.p_value)
    left_out = np.arange(200) < 150
    part = metrics.cox_test(chance[:150], events[:150])
    zeros = metrics.cox_test(chance, events, sample_weight=left_out.astype(float))
    assert zeros.slope == pytest.approx(part.slope)
    assert zeros.statistic == pytest.approx(part.statistic)


def test_a_threshold_that_tells_all_events_apart():
    chance = np.linspace(0.1, 0.9, 20)
    events = (chance > 0.5).astype(int)
    got = metrics.cox_test(chance, events)
    assert got.slope == np.inf
    assert np.isnan([got.intercept, got.slope_std_error, got.intercept_std_error]).all()
    likelihood = np.log(np.where(events == 1, chance, 1.0 - chance)).sum()
    assert got.statistic == pytest.approx(-2.0 * likelihood, rel=1e-6)
    assert metrics.cox_test(chance, 1 - events).slope == -np.inf


def test_no_event_constant_scores_and_certain_predictions():
    none = metrics.cox_test([0.2, 0.1, 0.3], [0, 0, 0])
    assert none.intercept == -np.inf
    assert np.isnan(none.slope)
    assert none.statistic == pytest.approx(-2.0 * np.log([0.8, 0.9, 0.7]).sum())
    constant = metrics.cox_test([0.3] * 40, [0, 1] * 20)
    assert constant.intercept == pytest.approx(-logit(0.3))
    assert np.isnan(constant.slope)
    statistic = 2.0 * 40 * (np.log(0.5) - np.log(0.3 * 0.7) / 2.0)
    assert constant.p_value == pytest.approx(chi2.sf(statistic, 1))
    assert metrics.cox_test([0.0, 1.0], [0, 1]).p_value == pytest.approx(1.0)
    assert metrics.cox_test([0.0, 1.0, 1.0], [1, 0, 1]).p_value < 1e-10


def test_classwise_is_the_class_with_the_most_evidence():
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), 100), rng.integers(0, 3, 100)
    classes = [metrics.cox_test(probs[:, c], (labels == c).astype(int)) for c in range(3)]
    got = metrics.cox_test(probs, labels, notion="classwise")
    assert got.p_value == min(1.0, 3.0 * min(one.p_value for one in classes))
    assert metrics.cox_test(probs, labels).notion == "confidence"


def test_the_level_holds_and_slopes_are_found():
    p = [metrics.cox_test(*example(500, seed)).p_value for seed in range(500)]
    assert kstest(p, "uniform").pvalue > 0.01
    steep = [metrics.cox_test(*example(500, seed, slope=0.7)).p_value for seed in range(100)]
    assert np.mean(np.array(steep) <= 0.05) > 0.8
