"""Quadratic scaling and the smoothing spline: their definitions, and peers' numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit

from calibrant.calibrators import PlattScaling, QuadraticScaling, SmoothingSpline
from calibrant.calibrators.odds.smoothing_spline import PenalizedSpline
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._curves import Cubics
from calibrant.formulas._row_functions import class_log_odds

METHODS = [QuadraticScaling, SmoothingSpline]


def _some_scores(rows, seed=0, bend=0.1):
    rng = np.random.default_rng(seed)
    score = 2.0 * rng.normal(size=rows)
    return score, (rng.random(rows) < expit(bend * score**2 + 0.5 * score - 0.3)).astype(int)


# --- log-odds ---


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 1e6])
def test_log_odds_of_any_size_are_exact(size):
    rng = np.random.default_rng(0)
    two = size * rng.normal(size=(50, 2))
    odds = class_log_odds(two, NUMPY)
    np.testing.assert_allclose(odds[:, 1], two[:, 1] - two[:, 0], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(odds[:, 0], two[:, 0] - two[:, 1], rtol=1e-12, atol=1e-15)
    five = size * rng.normal(size=(50, 5))
    for c in range(5):
        others = np.logaddexp.reduce(np.delete(five, c, axis=1), axis=1)
        np.testing.assert_allclose(
            class_log_odds(five, NUMPY)[:, c], five[:, c] - others, rtol=1e-12, atol=1e-13
        )


def test_log_odds_of_masked_classes():
    masked = np.array([[0.0, -np.inf, 1.0], [-np.inf, 2.0, -np.inf]])
    odds = class_log_odds(masked, NUMPY)
    assert odds[0].tolist() == [-1.0, -np.inf, 1.0]
    assert odds[1].tolist() == [-np.inf, 0.0, -np.inf]


# --- quadratic scaling ---


@pytest.mark.parametrize("name", ["ties", "many"])
def test_quadratic_is_that_of_probmetrics(peers, name):
    data = peers[name]
    model = QuadraticScaling(smooth_targets=False, input="probs")
    probs = model.fit(data["probs"], data["labels"]).predict_proba(data["test"])[:, 1]
    # theirs stops at a gradient of 1e-4
    np.testing.assert_allclose(probs, data["expected"]["quadratic"], atol=1e-4)


def test_quadratic_maximises_the_likelihood_of_platts_targets():
    score, labels = _some_scores(300)
    ones = labels.sum()
    target = np.where(labels == 1, (ones + 1) / (ones + 2), 1 / (300 - ones + 2))

    def loss(theta):
        margin = np.polyval(theta, score)
        return -(target * log_expit(margin) + (1 - target) * log_expit(-margin)).mean()

    best = minimize(loss, [0.0, 1.0, 0.0], tol=1e-12)
    model = QuadraticScaling().fit(score, labels)
    assert model.coefficients_[1] == pytest.approx(best.x, abs=1e-4)
    assert model.coefficients_[0] == pytest.approx(best.x * [-1, 1, -1], abs=1e-4)  # mirrored
    assert model.fit_info_.after < model.fit_info_.before
    expected = expit(np.polyval(model.coefficients_[1], score))
    np.testing.assert_allclose(model.predict_proba(score)[:, 1], expected, atol=1e-12)


def test_quadratic_finds_two_normal_distributions():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20_000)
    score = np.where(labels == 1, rng.normal(1.0, 2.0, 40_000), rng.normal(-1.0, 1.0, 40_000))
    a, b, c = QuadraticScaling().fit(score, labels).coefficients_[1]
    # log N(s; 1, 2) - log N(s; -1, 1)
    assert [a, b, c] == pytest.approx([0.375, 1.25, 0.375 - np.log(2.0)], abs=0.05)


def test_the_parabola_goes_on_straight():
    score, labels = _some_scores(200)
    model = QuadraticScaling().fit(score, labels)
    a, b, c = model.coefficients_[1]
    far = np.array([score.max() + 1.0, score.max() + 2.0])
    odds = logit(model.predict_proba(far)[:, 1])
    slope = 2.0 * a * score.max() + b
    assert odds[1] - odds[0] == pytest.approx(slope)
    assert odds[0] == pytest.approx(a * score.max() ** 2 + b * score.max() + c + slope)


def test_separable_rows_stay_modest():
    model = QuadraticScaling().fit([-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1])
    probs = model.predict_proba([-2.0, 2.0])[:, 1]
    assert probs == pytest.approx([0.25, 0.75], abs=0.1)


# --- smoothing spline ---


@pytest.mark.parametrize("name", ["ties", "many"])
def test_a_spline_without_penalty_is_that_of_splinecalib(peers, name):
    data = peers[name]
    rows = np.array(data["expected"]["plain spline rows"])
    score, hit = logit(np.array(data["probs"])[rows]), np.array(data["labels"])[rows].astype(float)
    knots = logit(np.array(peers["knots"]))
    ones = np.ones(len(rows))
    problem = PenalizedSpline(score, rows=ones, hits=hit, total=ones, target=hit, knots=knots)
    value, converged = problem.fit(np.zeros(len(knots)), 0.0)
    assert converged
    curve = Cubics.join([(knots, value, problem.slopes(value))])
    probs = expit(curve.values(logit(np.array(data["test"]))[:, None])[:, 0])
    # theirs ends where its basis, truncated cubes, loses precision
    np.testing.assert_allclose(probs, data["expected"]["plain spline"], atol=1e-4)


@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_a_penalised_spline_minimises_its_loss(penalty):
    score, labels = _some_scores(300)
    unit = (score - score.min()) / np.ptp(score)
    ones = np.ones(300)
    knots = np.array([0.0, 0.2, 0.45, 0.6, 1.0])
    problem = PenalizedSpline(
        unit, rows=ones, hits=labels, total=ones, target=labels.astype(float), knots=knots
    )
    value, converged = problem.fit(np.zeros(5), penalty)
    best = minimize(lambda theta: problem._loss(theta, penalty), value + 0.1, tol=1e-10)
    assert converged
    assert problem._loss(value, penalty) <= best.fun + 1e-7


def test_the_leave_one_out_loss_is_nearly_that_of_refitting():
    score, labels = _some_scores(60)
    unit = (score - score.min()) / np.ptp(score)
    target, knots = labels.astype(float), np.array([0.0, 0.3, 0.6, 1.0])

    def problem(kept):
        parts = {"rows": np.ones(kept.sum()), "hits": target[kept]}
        return PenalizedSpline(
            unit[kept], **parts, total=parts["rows"], target=parts["hits"], knots=knots
        )

    everything = problem(np.ones(60, bool))
    value, _ = everything.fit(np.zeros(4), 1.0)
    exact = 0.0
    for row in range(60):
        left, _ = problem(np.arange(60) != row).fit(value, 1.0)
        margin = everything._basis[row] @ left
        exact += np.logaddexp(0.0, -margin if labels[row] else margin)
    assert everything._judged(value, 1.0, True).leave_one_out_loss == pytest.approx(exact, rel=5e-3)


def test_the_default_is_near_that_of_splinecalib(peers):
    data = peers["many"]
    probs = SmoothingSpline(input="probs").fit(data["probs"], data["labels"])
    ours = probs.predict_proba(data["test"])[:, 1]
    assert np.abs(ours - data["expected"]["splinecalib"]).mean() < 0.02


def test_few_rows_give_a_straight_line_and_many_the_truth():
    few = SmoothingSpline().fit(*_some_scores(100, bend=0.0))
    assert few.fit_info_.details["degrees_of_freedom"][1] == pytest.approx(2.0, abs=0.3)
    rng = np.random.default_rng(0)
    score = 2.0 * rng.normal(size=50_000)
    truth = expit(score + 2.0 * np.sin(score))
    labels = (rng.random(50_000) < truth).astype(int)
    found = SmoothingSpline(n_knots=20).fit(score, labels).predict_proba(score)[:, 1]
    assert np.abs(found - truth).mean() < 0.01
    platt = PlattScaling().fit(score, labels).predict_proba(score)[:, 1]
    assert np.abs(platt - truth).mean() > 0.05


def test_prior_rows_draw_towards_the_scores():
    score, labels = [2.0, 2.5, -2.0, 1.5], [0, 0, 1, 0]
    away = [
        abs(SmoothingSpline(prior_rows=n).fit(score, labels).predict_proba([2.0])[0, 1] - expit(2))
        for n in (0.0, 20.0, 1e6)
    ]
    assert away[0] > away[1] > away[2]
    assert away[2] < 1e-4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_knots": 1}, "n_knots must be at least 2, got 1"),
        ({"prior_rows": -1.0}, "prior_rows must be a number from 0 on, got -1.0"),
    ],
)
def test_bad_parameters_of_the_spline(parameters, message):
    with pytest.raises(ValueError, match=message):
        SmoothingSpline(**parameters).fit(*_some_scores(20))


# --- both ---


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [80, 3000])
def test_weight_two_is_a_row_twice(method, rows):
    score, labels = _some_scores(rows)
    weight = np.ones(rows)
    weight[::3], weight[1::7] = 2.0, 0.0
    again = np.repeat(np.arange(rows), weight.astype(int))
    weighted = method().fit(score, labels, sample_weight=weight).predict_proba(score)
    repeated = method().fit(score[again], labels[again]).predict_proba(score)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_of_the_scores_does_not_break_the_fit(method, scale):
    score, labels = _some_scores(300)
    plain, scaled = (method().fit(size * score, labels) for size in (1.0, scale))
    assert scaled.fit_info_.converged
    assert scaled.fit_info_.after < plain.fit_info_.after + 0.05


@pytest.mark.parametrize("method", METHODS)
def test_swapping_two_classes_swaps_the_probabilities(method):
    score, labels = _some_scores(300)
    plain = method().fit(score, labels).predict_proba(score)
    swapped = method().fit(-score, 1 - labels).predict_proba(-score)
    np.testing.assert_allclose(swapped[:, ::-1], plain, atol=1e-6)
    np.testing.assert_allclose(plain.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_three_classes_get_better(method):
    rng = np.random.default_rng(0)
    logits = 3.0 * rng.normal(size=(2000, 3))
    labels = (0.4 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    info = method().fit(logits, labels).fit_info_
    assert info.converged
    assert info.after < 0.85 * info.before


@pytest.mark.parametrize("method", METHODS)
def test_equal_scores_get_the_smoothed_rate(method):
    probs = method().fit(np.full(6, 2.0), [0, 1, 1, 1, 1, 1]).predict_proba([2.0, 5.0, -9.0])
    assert probs[:, 1] == pytest.approx([(5 * 6 / 7 + 1 / 3) / 6] * 3)
