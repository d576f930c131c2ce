"""DIAG, the diagonal intra-order-preserving map.

Golden records:

| id | what | tolerance | achieved |
|---|---|---|---|
| iop_cc_weights_4 | weights and nodes of the rule | 1e-6 | 4e-8 |
| iop_diag_forward_h4_s20 | m at points, m of logits, cross-entropy | 2e-5 | 7e-7 |
| iop_diag_forward_h4_s20 | gradients | 2e-5 | 3e-7 |
| iop_diag_forward_h3x3_s50 | m at points, m of logits, cross-entropy | 2e-5 | 1e-6 |
| iop_diag_forward_h3x3_s50 | gradients | 2e-5 | 2e-7 |
| iop_diag_lbfgs_A | loss reached (gradients zeroed): 1.1476 | 0.02 | +0.011; penalty=0: -0.013 |
"""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import diag_reference
from calibrant import CalibrationWarning
from calibrant.calibrators import DiagonalOrderPreserving, TemperatureScaling
from calibrant.calibrators import _network as network
from calibrant.calibrators.increasing._fit import (
    ClenshawCurtisRule,
    CumulativeRule,
    Grid,
    GridLoss,
    NetworkLoss,
    clenshaw_curtis,
    growth,
    make_grid,
    output_for,
)
from calibrant.data.rows import Rows
from calibrant.formulas import FormulaRows, IncreasingTable
from calibrant.formulas._array_operations import NUMPY
from row_functions import log_softmax, softmax

FORWARD = ["iop_diag_forward_h4_s20", "iop_diag_forward_h3x3_s50"]


def _some_logits(rows=300, classes=4, seed=0):
    """Logits whose best map is no temperature: large ones are too large."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(size=(rows, classes)) * 1.5
    labels = (honest + rng.gumbel(size=honest.shape)).argmax(axis=1)
    return honest + 0.3 * np.maximum(honest, 0.0) ** 2, labels


def _nll(model, logits, labels):
    return -model.predict_log_proba(logits)[np.arange(len(labels)), labels].mean()


# --- golden records ---


def _authors(record):
    """The calibrator, and the offset of m that the authors' second network gives."""
    weights = {key: np.array(value) for key, value in record["params"]["weights"].items()}
    integrand = [value for key, value in weights.items() if ".integrand." in key]
    hidden = np.zeros(1)
    second = [value for key, value in weights.items() if ".integrand." not in key]
    for kernel, bias in zip(second[:-2:2], second[1:-2:2], strict=True):
        hidden = np.maximum(kernel @ hidden + bias, 0.0)
    offset = (second[-2] @ hidden + second[-1])[0]
    nodes = record["params"]["nb_steps"]
    return DiagonalOrderPreserving.from_weights(integrand, nodes=nodes), offset


def test_the_rule_is_the_authors(oracle):
    record = oracle("iop_cc_weights_4")
    weights, nodes = clenshaw_curtis(4)
    np.testing.assert_allclose(weights, record["output"]["weights"], atol=record["tol"])
    np.testing.assert_allclose(nodes, record["output"]["nodes"], atol=record["tol"])


@pytest.mark.parametrize("name", FORWARD)
def test_forward_is_the_authors(oracle, oracle_data, name):
    record = oracle(name)
    model, offset = _authors(record)
    output, tolerance = record["output"], record["tol"]
    points = np.array([output["m_at"]["x"]], np.float64)
    np.testing.assert_allclose(
        model.transform(points)[0] + offset, output["m_at"]["m"], atol=tolerance
    )
    logits, labels = oracle_data("B_test")
    np.testing.assert_allclose(
        model.transform(logits) + offset, output["logits_out"], atol=tolerance
    )
    assert _nll(model, logits, labels) == pytest.approx(output["ce"], abs=tolerance)


@pytest.mark.parametrize("name", FORWARD)
def test_gradients_are_the_authors(oracle, oracle_data, name):
    """The rule's transpose and the network's derivative, at the nodes where the logits lie."""
    record = oracle(name)
    model, _ = _authors(record)
    logits, labels = oracle_data("B_test")
    rule = ClenshawCurtisRule(logits.ravel(), model.nodes)
    formula = model.formula_
    weights = [part for pair in zip(formula.kernels, formula.biases, strict=True) for part in pair]
    raw, layers = network.forward_all(weights, rule.points[:, None])
    values, slope = growth(raw)
    residual = softmax(rule.integrate(values).reshape(logits.shape))
    residual[np.arange(len(labels)), labels] -= 1.0
    signal = rule.pull_back(residual.ravel() / len(labels)) * slope
    sizes = network.layer_sizes(1, model.hidden)
    gradient = network.unflatten(network.gradient(weights, layers, signal), sizes)
    recorded = [np.array(v) for k, v in record["output"]["grads"].items() if ".integrand." in k]
    recorded[0] = recorded[0][:, :1]
    for ours, theirs in zip(gradient, recorded, strict=True):
        np.testing.assert_allclose(ours.T, theirs, atol=record["tol"])


def test_loss_reached_is_the_authors(oracle, oracle_data):
    record = oracle("iop_diag_lbfgs_A")
    recorded = record["output"]["zero_grad_fixed"]["loss1"]
    info = DiagonalOrderPreserving(penalty=1.0).fit(*oracle_data("A_val")).fit_info_
    assert info.after <= recorded + record["tol"]


def test_loss_reached_without_a_penalty(oracle, oracle_data):
    """There are many valleys then, and with few starts rounding decides which one a fit ends in."""
    logits, labels = oracle_data("A_val")
    recorded = oracle("iop_diag_lbfgs_A")["output"]["zero_grad_fixed"]["loss1"]
    for scale in (1.0, 1.0 + 1e-9, 1.0 + 1e-7, 1.0 + 1e-5):
        model = DiagonalOrderPreserving(penalty=0.0, starts=10).fit(logits * scale, labels)
        assert model.fit_info_.after <= recorded


# --- the pieces ---


def test_growth_is_positive_and_its_slope_true():
    raw = np.array([-800.0, -20.0, -1.0, -1e-9, 0.0, 2.0])
    values, slope = growth(raw)
    assert (values >= 1e-8).all()
    step = 1e-6
    numeric = (growth(raw + step)[0] - growth(raw - step)[0]) / (2 * step)
    np.testing.assert_allclose(slope, numeric, atol=1e-5)
    for value in (1e-4, 0.5, 1.0, 30.0):
        assert growth(np.array([output_for(value)]))[0][0] == pytest.approx(value)


@pytest.mark.parametrize("kind", [CumulativeRule, lambda nodes: ClenshawCurtisRule(nodes, 20)])
def test_rules_integrate_and_their_transposes_match(kind):
    rule = kind(np.linspace(-3.0, 5.0, 41))
    values = rule.integrate(np.exp(-0.3 * rule.points))
    exact = -np.exp(-0.3 * rule.nodes) / 0.3
    np.testing.assert_allclose(np.diff(values), np.diff(exact), atol=1e-3)
    rng = np.random.default_rng(0)
    at_points, at_nodes = rng.normal(size=len(rule.points)), rng.normal(size=41)
    assert rule.integrate(at_points) @ at_nodes == pytest.approx(
        at_points @ rule.pull_back(at_nodes)
    )


@pytest.mark.parametrize("classes", [3, 60])  # sparse and dense sums
def test_grid_loss_is_exact_for_temperatures_and_close_for_others(classes):
    logits, labels = _some_logits(200, classes)
    logits[5, (labels[5] + 1) % classes] = -np.inf
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    grid = make_grid(Rows(logits, labels), 1.7)
    loss = GridLoss(Rows(logits, labels, weight), grid, 1.7)
    assert (not isinstance(loss.sums, np.ndarray)) == (classes == 3)
    curve = lambda x: x / 1.7 + 0.8 * np.sin(x / 4.0)  # noqa: E731
    for m, tolerance in ((lambda x: x / 1.7, 1e-12), (curve, 2e-4)):
        with np.errstate(invalid="ignore"):
            scores = np.where(np.isneginf(logits), -np.inf, m(logits))
        rows = -log_softmax(scores)[np.arange(200), labels]
        value, _ = loss(m(grid.nodes))
        assert value == pytest.approx(np.average(rows, weights=weight), abs=tolerance)


@pytest.mark.parametrize("rule", [CumulativeRule, lambda nodes: ClenshawCurtisRule(nodes, 20)])
@pytest.mark.parametrize("classes", [3, 60])
def test_gradient_is_that_of_finite_differences(classes, rule):
    logits, labels = _some_logits(100, classes)
    grid = make_grid(Rows(logits, labels), 1.7)
    loss = GridLoss(Rows(logits, labels, np.ones(100)), grid, 1.7)
    objective = NetworkLoss(loss, rule(grid.nodes), (4, 3), penalty=0.01, centre=1.0, spread=2.0)
    rng = np.random.default_rng(3)
    weights = network.glorot(objective.sizes, rng)
    point = network.flatten(weights) + 0.1 * rng.normal(size=len(network.flatten(weights)))
    _, gradient = objective(point)
    for direction in rng.normal(size=(3, len(point))):
        step = 1e-6 * direction
        numeric = (objective(point + step)[0] - objective(point - step)[0]) / 2e-6
        assert gradient @ direction == pytest.approx(numeric, rel=1e-5, abs=1e-8)


def test_far_classes_do_not_stretch_the_grid():
    logits, labels = _some_logits(50, 5)
    plain = make_grid(Rows(logits, labels), 1.0)
    labels[:] = np.where(labels == 4, 0, labels)
    logits[:, 4] = -1e9
    masked = make_grid(Rows(logits, labels), 1.0)
    assert masked.high - masked.low < (plain.high - plain.low) + 41.0
    assert make_grid(Rows(np.zeros((3, 4)), np.zeros(3, np.int64)), 1.0) is None
    assert make_grid(Rows(np.array([[0.0, 1e5]]), np.zeros(1, np.int64)), 1.0) is None


# --- order ---


def _random_model(seed):
    """Steep and flat pieces side by side."""
    rng = np.random.default_rng(seed)
    shapes = [(6, 2), (6,), (5, 6), (5,), (1, 5), (1,)]
    weights = [3.0 * rng.normal(size=shape) for shape in shapes]
    return DiagonalOrderPreserving.from_weights(weights, quadrature="grid", span=(-9.0, 20.0))


MODELS = [_random_model(seed) for seed in range(3)]
_LARGE = 2.0**127
_SCORES = (
    st.floats(-_LARGE, _LARGE, width=32)
    | st.floats(-32, 32, width=32)
    | st.sampled_from(np.float32([0.0, 1.0, 1.0000001, -1e-30, 20.0, 20.000002, -9.0, -np.inf]))
)


@given(logits=arrays(np.float32, (4, 5), elements=_SCORES), wide=st.booleans())
@example(logits=np.float32([[1, np.nextafter(np.float32(1), np.float32(2)), 0, 0, 0]]), wide=False)
@example(logits=np.float32([[3e38, -3e38, 3e38, 1, -np.inf]]), wide=False)
def test_the_arg_max_is_kept(logits, wide):
    logits[:, 0] = np.where(np.isneginf(logits).all(axis=1), np.float32(0.0), logits[:, 0])
    logits = logits.astype(np.float64) if wide else logits
    for model in MODELS:
        probs, logs = model.predict_proba(logits), model.predict_log_proba(logits)
        assert probs.dtype == logits.dtype
        np.testing.assert_array_equal(probs.argmax(axis=1), logits.argmax(axis=1))
        np.testing.assert_array_equal(logs.argmax(axis=1), logits.argmax(axis=1))
        np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-5)
        assert not np.isnan(logs).any()
        order = np.argsort(logits, axis=1)
        assert (np.diff(np.take_along_axis(probs, order, axis=1), axis=1) >= 0.0).all()
        assert (probs[np.isneginf(logits)] == 0.0).all()


@given(
    scores=arrays(np.float32, 40, elements=st.floats(-30, 30, width=32)),
    kind=st.sampled_from([np.float32, np.float64]),
)
def test_the_map_increases_in_floating_point(scores, kind):
    x = np.sort(np.r_[scores, np.nextafter(scores, np.float32(np.inf))].astype(kind))
    for model in MODELS:
        assert (np.diff(model.transform(x[None])[0]) >= 0.0).all()


def test_beyond_the_fitted_range_the_slope_is_that_of_temperature_scaling():
    logits, labels = _some_logits()
    model = DiagonalOrderPreserving().fit(logits, labels)
    low, high = model.formula_.low, model.formula_.high
    ends = model.transform([[low - 10.0, low, high, high + 10.0]])[0]
    np.testing.assert_allclose(np.diff(ends)[[0, 2]], 10.0 / model.temperature_)
    assert model.transform([[0.0, 1.0, 2.0, 3.0]])[0, 0] == pytest.approx(0.0, abs=1e-12)


def test_interpolation_is_exact_at_the_nodes():
    table = np.cumsum(np.random.default_rng(0).random(9))
    mapped = IncreasingTable(-2.0, 6.0, table, 0.5)
    nodes, beyond = np.linspace(-2.0, 6.0, 9)[None], np.array([[-4.0, 8.0]])
    np.testing.assert_allclose(mapped.scores(FormulaRows(nodes), NUMPY)[0], table)
    np.testing.assert_allclose(
        mapped.scores(FormulaRows(beyond), NUMPY), [[table[0] - 1, table[-1] + 1]]
    )


# --- the fit ---


def test_better_than_temperature_scaling_and_says_so():
    logits, labels = _some_logits(600)
    model = DiagonalOrderPreserving().fit(logits, labels)
    ts = TemperatureScaling().fit(logits, labels)
    info = model.fit_info_
    scaling = info.details["loss_temperature_scaling"]
    assert info.converged
    assert not info.details["fallback"]
    assert info.after < scaling - 1e-3 < info.before
    assert scaling == pytest.approx(_nll(ts, logits, labels), abs=1e-7)
    assert info.after == pytest.approx(_nll(model, logits, labels), abs=1e-12)
    json.dumps(asdict(info))
    unseen = _some_logits(2000, seed=1)
    assert _nll(model, *unseen) < _nll(ts, *unseen)


def test_the_fit_can_be_repeated():
    logits, labels = _some_logits()
    tables = [
        DiagonalOrderPreserving(random_state=seed).fit(logits, labels).formula_.table
        for seed in (None, 0, 1, np.random.default_rng(1))
    ]
    np.testing.assert_array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(tables[2], tables[3])
    assert (tables[0] != tables[2]).any()


def test_the_authors_rule_fits_the_same_function():
    logits, labels = _some_logits()
    grid = DiagonalOrderPreserving(hidden=(5,)).fit(logits, labels)
    authors = DiagonalOrderPreserving(hidden=(5,), quadrature="authors").fit(logits, labels)
    np.testing.assert_allclose(authors.predict_proba(logits), grid.predict_proba(logits), atol=0.03)


def test_the_authors_rule_and_the_table_are_the_same_function():
    logits, _ = _some_logits()
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape) for shape in ((5, 2), (5,), (1, 5), (1,))]
    rule, table = (
        DiagonalOrderPreserving.from_weights(weights, quadrature=quadrature, nodes=400)
        for quadrature in ("authors", "grid")
    )
    np.testing.assert_allclose(rule.transform(logits), table.transform(logits), atol=1e-2)


def test_a_strong_penalty_gives_temperature_scaling():
    logits, labels = _some_logits()
    model = DiagonalOrderPreserving(penalty=1e9).fit(logits, labels)
    expected = TemperatureScaling().fit(logits, labels).predict_proba(logits)
    np.testing.assert_allclose(model.predict_proba(logits), expected, atol=1e-4)


def test_rows_of_weight_zero_do_not_count():
    logits, labels = _some_logits(300)
    weight = np.r_[np.random.default_rng(0).uniform(0.5, 2.0, 200), np.zeros(100)]
    part = DiagonalOrderPreserving().fit(logits[:200], labels[:200], sample_weight=weight[:200])
    whole = DiagonalOrderPreserving().fit(logits, labels, sample_weight=weight)
    np.testing.assert_array_equal(whole.formula_.table, part.formula_.table)


@pytest.mark.filterwarnings("ignore:class .* has the mean probability")
def test_weights_move_the_fit_to_the_rows_they_favour():
    logits, labels = _some_logits()
    favoured = labels == 0
    plain = DiagonalOrderPreserving().fit(logits, labels)
    weighted = DiagonalOrderPreserving().fit(logits, labels, sample_weight=1 + 9 * favoured)
    assert _nll(weighted, logits[favoured], labels[favoured]) < _nll(
        plain, logits[favoured], labels[favoured]
    )


def test_masked_classes_and_a_formula_for_any_number_of_classes():
    logits, labels = _some_logits(200, 5)
    masked = np.random.default_rng(1).random(logits.shape) < 0.3
    masked[np.arange(200), labels] = False
    logits[masked] = -np.inf
    model = DiagonalOrderPreserving().fit(logits, labels)
    probs = model.predict_proba(logits)
    assert (probs[masked] == 0.0).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    assert np.isneginf(model.transform(logits)[masked]).all()
    assert model.formula_(np.zeros((2, 9))).shape == (2, 9)


def test_float32_and_torch_agree_with_float64():
    torch = pytest.importorskip("torch")
    logits, labels = _some_logits()
    for quadrature in ("grid", "authors"):
        model = DiagonalOrderPreserving(hidden=(5,), quadrature=quadrature).fit(logits, labels)
        probs = model.predict_proba(logits)
        narrow = model.predict_proba(logits.astype(np.float32))
        np.testing.assert_allclose(narrow, probs, atol=1e-5)
        tensor = torch.asarray(logits)  # as on a device
        tensor = model.formula_(tensor)
        np.testing.assert_allclose(tensor.numpy(), probs, atol=1e-12)


# --- where it cannot fit ---


@pytest.mark.filterwarnings("ignore:the labels look unrelated")
@pytest.mark.parametrize("case", ["one sample", "separable", "unrelated", "constant", "too wide"])
def test_falls_back_to_temperature_scaling_and_says_so(case):
    logits, labels = _some_logits(60)
    if case == "one sample":
        logits, labels = logits[:1], labels[:1]
    elif case == "separable":
        labels = logits.argmax(axis=1)
    elif case == "unrelated":
        labels = logits.argmin(axis=1)
    elif case == "constant":
        logits = np.zeros_like(logits)
    else:
        logits[0] += 1e5
    with pytest.warns(CalibrationWarning, match="DiagonalOrderPreserving: "):
        model = DiagonalOrderPreserving().fit(logits, labels)
    info = model.fit_info_
    assert info.details["fallback"]
    assert not info.converged
    assert "temperature scaling is used" in info.message
    probs = model.predict_proba(logits)
    expected = softmax(logits, model.temperature_)
    np.testing.assert_allclose(probs, expected, atol=1e-9)


def test_a_fit_that_ends_worse_is_thrown_away(monkeypatch):
    logits, labels = _some_logits(60)

    def broken(objective, start, **options):
        weights = network.unflatten(np.ones(len(objective.penalty)), objective.sizes)
        from calibrant.calibrators._optimizers import Minimum

        return weights, Minimum(np.ones(1), 0.0, 1, True, "converged")

    monkeypatch.setattr("calibrant.calibrators.increasing._fit.fit_network", broken)
    with pytest.warns(
        CalibrationWarning, match="found nothing better: temperature scaling is used"
    ):
        model = DiagonalOrderPreserving().fit(logits, labels)
    assert model.fit_info_.after == model.fit_info_.details["loss_temperature_scaling"]


def test_stopping_early_is_told():
    with pytest.warns(
        CalibrationWarning, match="DiagonalOrderPreserving: stopped after 1 iterations"
    ):
        model = DiagonalOrderPreserving(starts=1, max_iter=1).fit(*_some_logits())
    assert not model.fit_info_.converged
    assert not model.fit_info_.details["fallback"]


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"quadrature": "simpson"}, "quadrature must be one of 'grid', 'authors', got 'simpson'"),
        ({"hidden": ()}, "hidden must be one or more widths"),
        ({"hidden": (0,)}, "hidden must be one or more widths"),
        ({"penalty": -1.0}, "penalty must be at least 0, got -1.0"),
        ({"nodes": 1}, "nodes must be between 2 and 511, got 1"),
        ({"starts": 0}, "starts must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_parameters_are_refused(parameters, rule):
    with pytest.raises(ValueError, match=rule):
        DiagonalOrderPreserving(**parameters).fit(*_some_logits(20))


@pytest.mark.parametrize(
    "shapes", [[(3, 2), (3,)], [(3, 1), (3,), (1, 3), (1,)], [(3, 2), (3,), (2, 3), (2,)]]
)
def test_bad_weights_are_refused(shapes):
    with pytest.raises(ValueError, match=r"weights must be weight \(h1, 2\), bias"):
        DiagonalOrderPreserving.from_weights([np.ones(shape) for shape in shapes])


# --- against the authors' procedure ---


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fashion-mnist-lenet5", "cifar100-vgg19"])
def test_no_worse_than_the_authors_procedure(name):
    pytest.importorskip("torch")
    reached, unpenalised, default = diag_reference.final_losses(name)
    assert unpenalised <= reached
    assert default <= reached + 2e-4


def test_grid_places_values_in_their_cells():
    cell, fraction = Grid(0.0, 4.0, 4).place(np.array([-1.0, 0.0, 0.5, 3.0, 4.0, 9.0]))
    np.testing.assert_array_equal(cell, [0, 0, 0, 3, 3, 3])
    np.testing.assert_allclose(fraction, [0.0, 0.0, 0.5, 0.0, 1.0, 1.0])
