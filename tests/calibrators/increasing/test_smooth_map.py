"""The smooth map: its loss against brute force, its left-out losses against refits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

from calibrant.calibrators._best_temperature import scaling_start
from calibrant.calibrators.increasing import _smooth
from calibrant.calibrators.increasing._fit import GridLoss, make_grid
from calibrant.data.rows import Rows
from calibrant.formulas import FormulaRows
from calibrant.formulas._array_operations import NUMPY


def bent_logits(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from softmax(m(z)), m increasing and far from linear."""
    rng = np.random.default_rng(seed)
    logits = 4.0 * rng.normal(size=(rows, classes))
    true = np.where(logits > 0.0, 0.25 * logits, 1.0 * logits)
    return logits, (true + rng.gumbel(size=true.shape)).argmax(axis=1)


def problem_of(logits: np.ndarray, labels: np.ndarray, knots: int = 6) -> _smooth._CurveLoss:
    weight = np.ones(len(labels))
    temperature = scaling_start(Rows(logits, labels, weight)).temperature
    grid = make_grid(Rows(logits, labels), temperature)
    assert grid is not None
    places = _smooth._knots(Rows(logits, labels, weight), grid, knots)
    loss = GridLoss(Rows(logits, labels, weight), grid, temperature)
    return _smooth._CurveLoss(loss, grid, places)


def test_the_rows_losses_are_those_of_the_softmax_of_the_map():
    logits, labels = bent_logits(200, 5)
    weight = np.ones(200)
    start = scaling_start(Rows(logits, labels, weight))
    problem = problem_of(logits, labels)
    theta = -np.log(start.temperature) + 0.1 * np.arange(6.0)
    grid = make_grid(Rows(logits, labels), start.temperature)
    m = np.interp(logits, grid.nodes, problem.curve(theta)[0])
    direct = -log_softmax(m, axis=1)[np.arange(200), labels]
    np.testing.assert_allclose(problem.rows(theta)[0], direct, atol=2e-3)


def test_the_gradient_is_that_of_the_value():
    logits, labels = bent_logits(150, 4)
    problem = problem_of(logits, labels)
    theta, pull = np.linspace(-1.0, 0.5, 6), 0.01 * problem.roughness
    numeric = approx_fprime(theta, lambda x: problem.at(x, pull)[0], 1e-6)
    np.testing.assert_allclose(problem.at(theta, pull)[1]()[0], numeric, atol=1e-5)


def test_the_hessian_has_no_negative_curvature():
    logits, labels = bent_logits(150, 4)
    problem = problem_of(logits, labels)
    hessian = problem.at(np.linspace(-1.0, 0.5, 6), 0.0 * problem.roughness)[1]()[1]
    assert np.linalg.eigvalsh(hessian).min() > -1e-12


def test_left_out_losses_agree_with_refits():
    logits, labels = bent_logits(60, 3)
    weight, knots = np.ones(60), 5
    problem = problem_of(logits, labels, knots)
    pull = problem.roughness * (10.0 / 60.0)

    def solved(loss: _smooth._CurveLoss, strength: np.ndarray) -> np.ndarray:
        return _smooth.damped_newton(
            lambda x: loss.at(x, strength), np.full(knots, -1.0), max_iter=100, tolerance=1e-12
        ).x

    told = problem._held_out(solved(problem, pull), pull, weight / 60.0)
    fitted = problem.rows(solved(problem, pull))[0]
    for row in (0, 7, 31):
        others = np.arange(60) != row
        rest = problem_of(logits, labels, knots)  # the same grid and knots
        rest.loss.share = others / 59.0
        without = rest.rows(solved(rest, pull))[0][row]
        assert told[row] - fitted[row] == pytest.approx(without - fitted[row], rel=0.25, abs=2e-4)


def test_it_finds_the_bend_and_improves_on_temperature_scaling():
    logits, labels = bent_logits(3000, 5)
    test_logits, test_labels = bent_logits(3000, 5, seed=1)
    weight = np.ones(3000)
    start = scaling_start(Rows(logits, labels, weight))
    found = _smooth.fit_smooth_map(Rows(logits, labels, weight), start, 12, None)
    assert found.formula is not None
    rows = np.arange(3000)
    logs = found.formula.log_probabilities(FormulaRows(test_logits), NUMPY)[rows, test_labels]
    scaled = log_softmax(test_logits / start.temperature, axis=1)[rows, test_labels]
    assert -logs.mean() < -scaled.mean() - 0.02


def test_temperature_scaling_where_it_is_the_truth():
    rng = np.random.default_rng(3)
    logits = 4.0 * rng.normal(size=(400, 5))
    labels = (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    start = scaling_start(Rows(logits, labels, np.ones(400)))
    found = _smooth.fit_smooth_map(Rows(logits, labels, np.ones(400)), start, 12, None)
    assert found.details["choice"] in ("temperature scaling", "pull of 300 rows")


def test_whole_weights_count_repeated_rows():
    logits, labels = bent_logits(300, 4)
    weight = 1.0 + (np.arange(300) % 3)
    repeated = np.repeat(np.arange(300), weight.astype(int))
    pairs = []
    for index, w in ((np.arange(300), weight), (repeated, np.ones(len(repeated)))):
        start = scaling_start(Rows(logits[index], labels[index], w))
        problem = _smooth.fit_smooth_map(Rows(logits[index], labels[index], w), start, 8, None)
        pairs.append(problem.details["path"])
    for one, other in zip(*pairs, strict=True):
        assert one["left_out_loss"] == pytest.approx(other["left_out_loss"], rel=0.02)


def test_equal_logits_have_no_map():
    logits, labels = np.zeros((30, 3)), np.arange(30) % 3
    start = scaling_start(Rows(logits, labels, np.ones(30)))
    assert (
        _smooth.fit_smooth_map(Rows(logits, labels, np.ones(30)), start, 12, None).formula is None
    )
