"""Ensemble temperature scaling: golden records, the simplex programme, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

import calibrant
from calibrant import ETS, TS, CalibrationWarning, TemperatureProfile, Uncalibrated
from calibrant.calibrators._optimizers import simplex_quadratic
from calibrant.data.likely_mistakes import looks_like_probabilities
from calibrant.formulas import Mixture
from crafting import with_formula

GOLDEN_SETS = "ABCD"
AUTHORS = {"bounds": (0.05, 5.0)}


def mixed_data(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two kinds of over-confidence and some wrong labels: all three parts get a weight."""
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.standard_normal((rows, classes))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    wrong = rng.random(rows) < 0.2
    labels[wrong] = rng.integers(0, classes, wrong.sum())
    return logits * np.where(rng.random((rows, 1)) < 0.5, 2.5, 1.0), labels


def brier(probs: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(((probs - np.eye(probs.shape[1])[labels]) ** 2).sum(axis=1)))


# --- golden records ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDEN_SETS)
def test_mix_n_match(name, oracle, oracle_data):
    record = oracle(f"mix_ets_{name}")
    logits, labels = oracle_data(f"{name}_val")
    ets = ETS(**AUTHORS).fit(logits, labels)
    output = record["output"]
    assert ets.temperature_ == pytest.approx(output["T"], abs=record["tol"])
    np.testing.assert_allclose(ets.weights_, output["w"], atol=record["tol"])
    loss = logits.shape[1] * output["val_mse"]  # theirs is a mean over the classes too
    assert ets.fit_info_.after == pytest.approx(loss, abs=1e-6)
    probs = ets.predict_proba(oracle_data(f"{name}_test")[0])[:5]
    np.testing.assert_allclose(probs, output["p_test_first5"], atol=1e-5)


@pytest.mark.parametrize("name", GOLDEN_SETS)
def test_probabilities_of_mix_n_match(name, oracle, oracle_data):
    record = oracle(f"mixout_ets_{name}")
    ets = ETS(**AUTHORS).fit(*oracle_data(f"{name}_val"))
    logits, labels = oracle_data(f"{name}_test")
    probs, rows = ets.predict_proba(logits), np.array(record["output"]["p_test_rows"])
    np.testing.assert_allclose(probs[: len(rows)], rows, rtol=0, atol=record["tol"])
    scores = record["output"]["eval"]
    assert calibrant.metrics.brier(probs, labels) == pytest.approx(scores["mse"], abs=1e-5)
    assert calibrant.metrics.nll(probs, labels) == pytest.approx(scores["nll"], abs=5e-5)
    assert calibrant.metrics.accuracy(probs, labels) == pytest.approx(scores["acc"], abs=1e-12)


def test_all_three_weights_positive(oracle, oracle_data):
    record = oracle("mix_ets_F_interior")
    logits, labels = oracle_data("F")
    ets, output = ETS(**AUTHORS).fit(logits, labels), record["output"]
    assert ets.temperature_ == pytest.approx(output["T"], abs=record["tol"])
    np.testing.assert_allclose(ets.weights_, output["w_exact_quadratic_program"], atol=2e-5)
    np.testing.assert_allclose(ets.predict_proba(logits)[:5], output["p_first5"], atol=1e-5)
    assert ets.fit_info_.after == pytest.approx(4.0 * output["mse_val"], abs=1e-6)


# --- the programme on the simplex -------------------------------------------------------------


@given(
    parts=arrays(np.float64, (8, 3), elements=st.floats(-1.0, 1.0)),
    target=arrays(np.float64, 8, elements=st.floats(-2.0, 2.0)),
)
def test_simplex_quadratic_against_a_grid(parts, target):
    """min |P w - t|^2 over the simplex; equal and zero columns included."""
    weights = simplex_quadratic(parts.T @ parts, parts.T @ target)
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    steps = np.linspace(0.0, 1.0, 41)
    first, second = (part.ravel() for part in np.meshgrid(steps, steps))
    inside = first + second <= 1.0
    grid = np.stack([first, second, 1.0 - first - second], axis=1)[inside]
    values = ((grid @ parts.T - target) ** 2).sum(axis=1)
    assert ((parts @ weights - target) ** 2).sum() <= values.min() + 1e-9


def test_equal_parts_are_no_trouble():
    weights = simplex_quadratic(np.full((3, 3), 0.25), np.full(3, 0.3))
    assert weights.sum() == pytest.approx(1.0)
    assert weights.min() >= 0.0


@pytest.mark.parametrize("classes", [4, 200])
def test_the_weights_are_optimal_for_the_probabilities_themselves(classes):
    logits, labels = mixed_data(800, classes)
    ets = ETS().fit(logits, labels)
    fitted = brier(ets.predict_proba(logits), labels)
    assert ets.fit_info_.after == pytest.approx(fitted, abs=1e-4)
    best = ets.weights_
    for step in (0.01, 0.1, 1.0):
        for corner in np.eye(3):
            moved = (1.0 - step) * best + step * corner
            with_formula(ets, Mixture(ets.temperature_, moved), classes)
            assert brier(ets.predict_proba(logits), labels) >= fitted - 1e-6


# --- laws -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("classes", [2, 10, 200])
def test_never_worse_than_its_parts_on_the_fitting_data(classes, seed):
    logits, labels = mixed_data(400, classes, seed)
    ets = ETS().fit(logits, labels)
    fitted = brier(ets.predict_proba(logits), labels)
    for part in (TS(loss="brier"), Uncalibrated()):
        assert fitted <= brier(part.fit(logits, labels).predict_proba(logits), labels) + 1e-6
    assert ets.temperature_ == TS(loss="brier").fit(logits, labels).temperature_


@pytest.mark.parametrize("classes", [4, 200])
def test_a_shift_of_a_row_changes_nothing(classes):
    logits, labels = mixed_data(300, classes)
    shift = np.random.default_rng(1).uniform(-50.0, 50.0, (300, 1))
    plain, shifted = ETS().fit(logits, labels), ETS().fit(logits + shift, labels)
    np.testing.assert_allclose(
        shifted.predict_proba(logits + shift), plain.predict_proba(logits), atol=1e-5
    )


@pytest.mark.parametrize("classes", [4, 200])
def test_a_profile_gives_the_same_fit_as_its_logits(classes):
    logits, labels = mixed_data(300, classes)
    one = ETS().fit(logits, labels)
    other = ETS().fit(TemperatureProfile.from_logits(logits, labels))
    assert one.temperature_ == other.temperature_
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert one.fit_info_ == other.fit_info_


def test_weight_two_is_the_row_twice():
    logits, labels = mixed_data(300, 4)
    weight = np.random.default_rng(2).integers(0, 3, 300)
    weighted = ETS().fit(logits, labels, sample_weight=weight)
    repeated = ETS().fit(np.repeat(logits, weight, axis=0), np.repeat(labels, weight))
    assert weighted.temperature_ == pytest.approx(repeated.temperature_, rel=1e-9)
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-8)


def test_logits_of_an_unusual_size():
    logits, labels = mixed_data(400, 200)
    for factor in (0.01, 1000.0):
        ets = ETS().fit(factor * logits, labels)
        probs = ets.predict_proba(factor * logits)
        assert ets.fit_info_.after == pytest.approx(brier(probs, labels), abs=1e-3)
        ts = TS(loss="brier").fit(factor * logits, labels)
        assert brier(probs, labels) <= brier(ts.predict_proba(factor * logits), labels) + 1e-4


def test_the_uniform_part_covers_the_finite_classes():
    logits, labels = mixed_data(300, 4)
    masked = np.c_[logits, np.full((300, 3), -np.inf)]
    plain, ets = ETS().fit(logits, labels), ETS().fit(masked, labels)
    np.testing.assert_allclose(ets.weights_, plain.weights_, atol=1e-9)
    assert plain.weights_[2] > 0.01
    probs = ets.predict_proba(masked)
    assert np.all(probs[:, 4:] == 0.0)
    np.testing.assert_allclose(probs[:, :4], plain.predict_proba(logits), rtol=1e-9)
    assert np.all(np.isneginf(ets.predict_log_proba(masked)[:, 4:]))


def test_an_end_of_the_range_is_told():
    logits = 3.0 * np.random.default_rng(0).standard_normal((80, 4))
    with pytest.warns(CalibrationWarning, match="EnsembleTemperatureScaling: .* an end of"):
        ets = ETS(bounds=(0.05, 5.0)).fit(logits, logits.argmax(axis=1))
    assert ets.fit_info_.converged is False


ADVERSARIAL = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(2, 6)),
    elements=st.one_of(
        st.floats(-20.0, 20.0),
        st.sampled_from([0.0, 1.0, 1.0 + 1e-15, 1.0 + 1e-7, 1e4, -1e4, 1e30, -1e30, -np.inf]),
    ),
).filter(lambda z: bool(np.isfinite(z).any(axis=1).all()))
CORNERS = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.6, 0.3, 0.1], [0.99, 0.0, 0.01])


def with_state(temperature: float, weights: list[float]) -> ETS:
    return with_formula(ETS(), Mixture(temperature, np.array(weights)))


@given(
    logits=ADVERSARIAL,
    temperature=st.floats(0.01, 100.0),
    weights=st.sampled_from(CORNERS),
    single=st.booleans(),
)
def test_laws_of_prediction(logits, temperature, weights, single):
    ets = with_state(temperature, weights)
    logits = logits.astype(np.float32) if single else logits
    assume(not looks_like_probabilities(logits))
    probs, logs = ets.predict_proba(logits), ets.predict_log_proba(logits)
    rows, top = np.arange(len(logits)), logits.argmax(axis=1)
    np.testing.assert_array_equal(ets.predict(logits), top)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=2e-6)
    assert np.all(probs <= probs[rows, top][:, None])
    assert np.all(logs <= logs[rows, top][:, None])
    np.testing.assert_allclose(np.exp(logs), probs, rtol=1e-4, atol=1e-7)
    assert np.all(np.isfinite(logs) == np.isfinite(logits))


def test_log_probabilities_do_not_pass_the_arg_max_by_rounding():
    rng = np.random.default_rng(3)
    ets = with_state(1.7, [0.5, 0.3, 0.2])
    peak = rng.uniform(-5.0, 5.0, (20_000, 1)) + np.array([0.0, 0.0, -1.0])
    for dtype, width in ((np.float32, 1e-6), (np.float64, 1e-15)):
        logits = (peak - width * rng.random((20_000, 3))).astype(dtype)
        logs = ets.predict_log_proba(logits)
        top = logs[np.arange(len(logits)), logits.argmax(axis=1)]
        assert np.all(logs <= top[:, None])


def test_estimator_rules():
    ets = ETS(bounds=(0.1, 9.0), input="probs")
    assert ets.get_params() == {"bounds": (0.1, 9.0), "loss": "brier", "input": "probs"}
    assert clone(ets).get_params() == ets.get_params()
    assert isinstance(calibrant.calibrator("ets"), ETS)
    fitted = ETS()
    assert fitted.fit(*mixed_data(50, 3)) is fitted


def test_the_nll_is_minimised_where_that_is_the_loss():
    logits, labels = mixed_data(500, 4)
    ets = ETS(loss="nll").fit(logits, labels)
    parts = [
        with_state(ets.temperature_, corner).predict_proba(logits)[np.arange(500), labels]
        for corner in np.eye(3)
    ]
    at = np.column_stack(parts)
    best = -np.log(at @ ets.weights_).mean()
    assert ets.fit_info_.after == pytest.approx(best)
    assert ets.temperature_ == TS().fit(logits, labels).temperature_
    for corner in np.eye(3):  # the loss is convex: no step towards a corner lowers it
        nearby = 0.99 * ets.weights_ + 0.01 * corner
        assert -np.log(at @ nearby).mean() >= best - 1e-7
    assert best <= ets.fit_info_.before


def test_the_loss_must_be_known():
    with pytest.raises(ValueError, match="loss must be one of 'brier', 'nll', got 'ece'"):
        ETS(loss="ece").fit(*mixed_data(50, 3))
