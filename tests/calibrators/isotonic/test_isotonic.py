"""IROvA, IROvA-TS and IRM.

Golden records, ``normalize=False`` where probabilities are compared:

| id | tolerance | achieved |
|---|---|---|
| mixout_irova_A, _B, _C, _D | 1e-5 | 5e-12 |
| mixout_irova_ts_A, _B, _C, _D | 1e-5 | 5e-8 |
| mixout_irova_ts_ce_A, _B, _C, _D | 1e-5 | 7e-8 |
| mixout_irm_A, _B, _C, _D | 1e-5 | 5e-12 |
| mixout_irm_ts_A, _B, _C, _D (IRM on z / T) | 1e-5 | 2e-10 |
| mix_absent_class_B | 1e-9 | 5e-12 |
| mix_order_A | 1e-6 | 3e-12 |
| mix_irm_float32_ties (here no arg max moves) | 0 | 0 |
| ptsrepo_metrics_irova_A, _irm_A (ECE, Brier, accuracy) | 1e-7 | 2e-10 |
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.isotonic import IsotonicRegression

from calibrant.calibrators import (
    IsotonicOneVsAll,
    IsotonicOneVsAllTS,
    MultiClassIsotonic,
    TemperatureScaling,
)
from calibrant.calibrators.isotonic._isotonic_regression import flat_line, isotonic_blocks
from calibrant.data.binning import BinStats
from calibrant.data.rows import Rows
from row_functions import softmax

METHODS = [IsotonicOneVsAll, IsotonicOneVsAllTS, MultiClassIsotonic]
RAW = {
    "irova": lambda: IsotonicOneVsAll(normalize=False),
    "irova_ts": lambda: IsotonicOneVsAllTS(normalize=False),
    "irova_ts_ce": lambda: IsotonicOneVsAllTS(loss="nll", normalize=False),
    "irm": lambda: MultiClassIsotonic(normalize=False),
}


def _some_logits(rows, classes, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes))
    logits[np.arange(rows), labels] += 1.0
    return scale * logits, labels


# --- golden records ---


@pytest.mark.parametrize("data", list("ABCD"))
@pytest.mark.parametrize("method", list(RAW))
def test_raw_values_are_the_authors(oracle, oracle_data, method, data):
    record = oracle(f"mixout_{method}_{data}")
    logits, labels = oracle_data(f"{data}_test")
    values = RAW[method]().fit(*oracle_data(f"{data}_val")).predict_proba(logits)
    _check_record(record, values, labels)


@pytest.mark.parametrize("data", list("ABCD"))
def test_irm_after_temperature_scaling_is_the_authors(oracle, oracle_data, data):
    record = oracle(f"mixout_irm_ts_{data}")
    val, val_labels = oracle_data(f"{data}_val")
    logits, labels = oracle_data(f"{data}_test")
    temperature = TemperatureScaling(loss="brier").fit(val, val_labels).temperature_
    irm = MultiClassIsotonic(normalize=False).fit(val / temperature, val_labels)
    _check_record(record, irm.predict_proba(logits / temperature), labels)


def _check_record(record, values, labels):
    output, tolerance = record["output"], record["tol"]
    rows = np.array(output["p_test_rows"])
    at_label = values[np.arange(len(labels)), labels]
    brier = ((values - np.eye(values.shape[1])[labels]) ** 2).sum(axis=1).mean()
    assert np.abs(values[: len(rows)] - rows).max() < tolerance
    assert abs(brier - output["eval"]["mse"]) < tolerance
    assert abs(-np.log(at_label).mean() - output["eval"]["nll"]) < tolerance
    assert (values.argmax(axis=1) == labels).mean() == pytest.approx(output["eval"]["acc"])


def test_absent_class_is_the_authors(oracle, oracle_data):
    record = oracle("mix_absent_class_B")
    val, labels = oracle_data("B_val")
    seen = labels != 2
    test, _ = oracle_data("B_test")
    data = Rows(val[seen], labels[seen], np.ones(seen.sum()))
    for name in ("irova", "irm"):  # without the rule of ``fit`` for classes that were not seen
        formula, info = RAW[name]()._fit_logits(data)
        assert np.abs(formula(test) - record["output"][name]).max() < record["tol"]
        assert info.details["absent_classes"] == 1
        if name == "irova":
            assert np.array_equal(formula(test)[:, 2], 1e-9 * softmax(test)[:, 2])


def test_order_is_the_authors(oracle, oracle_data):
    record = oracle("mix_order_A")
    output = record["output"]
    test, _ = oracle_data("A_test")
    for name in ("irova", "irm"):
        values = RAW[name]().fit(*oracle_data("A_val")).predict_proba(test)
        sums = values.sum(axis=1)
        changed = (values.argmax(axis=1) != test.argmax(axis=1)).sum()
        assert changed == output[f"{name}_argmax_changed"]
        assert [sums.min(), sums.max()] == pytest.approx(
            output[f"{name}_rowsum_minmax"], abs=record["tol"]
        )
    assert np.array_equal(values.argsort(axis=1), test.argsort(axis=1))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("data", list("ABCD"))
def test_irm_keeps_arg_max_in_float32(oracle, oracle_data, data, normalize):
    record = oracle("mix_irm_float32_ties")["output"][data]
    val, labels = oracle_data(f"{data}_val")
    test = oracle_data(f"{data}_test")[0].astype(np.float32)
    irm = MultiClassIsotonic(normalize=normalize).fit(val.astype(np.float32), labels)
    values = irm.predict_proba(test)
    assert values.dtype == np.float32
    assert (values.argmax(axis=1) != test.argmax(axis=1)).sum() == record["argmax_changed64"] == 0


@pytest.mark.parametrize("name", ["irova", "irm"])
def test_metrics_of_the_values_are_the_papers(oracle, oracle_data, name):
    record = oracle(f"ptsrepo_metrics_{name}_A")
    output, tolerance = record["output"], record["tol"]
    logits, labels = oracle_data("A_test")
    values = RAW[name]().fit(*oracle_data("A_val")).predict_proba(logits)
    hit = values.argmax(axis=1) == labels
    plain = BinStats.from_confidence(values.max(axis=1), hit, n_bins=10).error()
    shares = values / values.sum(axis=1, keepdims=True)
    scaled = BinStats.from_confidence(shares.max(axis=1), hit, n_bins=10).error()
    brier = ((values - np.eye(5)[labels]) ** 2).sum(axis=1).mean()
    assert plain == pytest.approx(output["ece"], abs=tolerance)
    assert scaled == pytest.approx(output["ece_if_rows_normalised"], abs=tolerance)
    assert brier == pytest.approx(output["brier"], abs=tolerance)
    assert hit.mean() == pytest.approx(output["accuracy"])


# --- the regression itself ---


@given(st.data())
def test_steps_are_those_of_scikit_learn(data):
    size = data.draw(st.integers(1, 40))
    score = data.draw(arrays(np.float64, size, elements=st.sampled_from(np.linspace(0, 1, 12))))
    hit = data.draw(arrays(np.bool_, size))
    weight = data.draw(arrays(np.float64, size, elements=st.sampled_from([0.5, 1.0, 2.0, 3.0])))
    x, y = flat_line(isotonic_blocks(score, weight, score[hit], weight[hit]))
    reference = IsotonicRegression(out_of_bounds="clip").fit(score, hit, sample_weight=weight)
    grid = np.linspace(-0.1, 1.1, 101)
    assert np.allclose(np.interp(grid, x, y), reference.predict(grid), atol=1e-12)
    assert np.all(np.diff(x) > 0.0)
    assert np.all(np.diff(y) >= 0.0)


def test_steps_of_many_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    score = rng.random(20_000) ** 8  # from 1e-34 to 1
    hit = rng.random(20_000) < score
    x, y = flat_line(isotonic_blocks(score, None, score[hit], None))
    reference = IsotonicRegression(out_of_bounds="clip").fit(score, hit)
    assert np.allclose(np.interp(score, x, y), reference.predict(score), atol=1e-12)


def test_scores_closer_than_the_resolution_are_one():
    score = np.array([0.3, 0.3 + 5e-16, 0.7])
    x, y = flat_line(isotonic_blocks(score, None, score[:1], None))
    assert np.array_equal(x, [0.3, 0.7])
    assert np.allclose(y, 1.0 / 3.0)


# --- laws ---


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_output_is_a_distribution(method, dtype):
    logits, labels = _some_logits(300, 6)
    probs = method().fit(logits, labels).predict_proba(logits.astype(dtype))
    assert probs.dtype == dtype
    assert probs.min() >= 0.0
    assert np.allclose(probs.sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_float32_and_float64_agree(method):
    logits, labels = _some_logits(300, 6)
    logits = logits.astype(np.float32)
    narrow = method().fit(logits, labels).predict_proba(logits)
    wide = method().fit(logits.astype(np.float64), labels).predict_proba(logits.astype(np.float64))
    assert np.allclose(narrow, wide, atol=2e-7)


def test_each_map_of_irova_increases():
    logits, labels = _some_logits(400, 5)
    irova = IsotonicOneVsAll(normalize=False).fit(logits, labels)
    lines = irova.formula_.curves
    assert lines.count == 5
    for x, y in map(lines.line, range(5)):
        assert np.all(np.diff(x) > 0.0)
        assert np.all(np.diff(y) >= 0.0)


def test_irm_of_two_classes_is_symmetric():
    logits, labels = _some_logits(200, 2)
    values = MultiClassIsotonic(normalize=False).fit(logits, labels).predict_proba(logits)
    assert np.allclose(values.sum(axis=1), 1.0 + 1e-9, atol=1e-12)


NEAR = [0.0, 1e-20, 1e-8, 1.0, np.nextafter(np.float32(1), np.float32(2)), 5.0, 30.0, -30.0, -1e4]


@given(
    arrays(
        np.float32,
        st.tuples(st.integers(1, 12), st.just(4)),
        elements=st.one_of(
            st.sampled_from([np.float32(v) for v in NEAR]),
            st.floats(-100, 100, width=32),
            st.just(np.float32(-np.inf)),
        ),
    ),
    st.booleans(),
    st.integers(0, 3),
)
@example(np.float32([[0, 1e-20, 0, 0]]), True, 1)
@example(np.float32([[1, 1, 1, 1]]), False, 3)
def test_irm_keeps_arg_max_of_any_logits(logits, normalize, seed):
    logits[np.isneginf(logits).all(axis=1)] = 0.0
    val, labels = _some_logits(30, 4, seed, scale=0.5 + 3.0 * seed)
    irm = MultiClassIsotonic(normalize=normalize).fit(val, labels)
    for values in (irm.predict_proba(logits), irm.predict_log_proba(logits)):
        assert not np.isnan(values).any()
        assert np.array_equal(values.argmax(axis=1), logits.argmax(axis=1))
    assert np.all(irm.predict_proba(logits)[np.isneginf(logits)] == 0.0)
    assert np.array_equal(irm.predict(logits), logits.argmax(axis=1))


@pytest.mark.parametrize("method", METHODS)
def test_weight_two_is_a_row_twice(method):
    logits, labels = _some_logits(80, 4)
    weight = np.ones(80)
    weight[::3] = 2.0
    weight[1::7] = 0.0
    again = np.repeat(np.arange(80), weight.astype(int))
    weighted = method().fit(logits, labels, sample_weight=weight).predict_proba(logits)
    repeated = method().fit(logits[again], labels[again]).predict_proba(logits)
    assert np.allclose(weighted, repeated, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_are_as_good_as_logits(method):
    logits, labels = _some_logits(120, 4)
    from_logits = method().fit(logits, labels).predict_proba(logits)
    probs = softmax(logits)
    from_probs = method(input="probs").fit(probs, labels).predict_proba(probs)
    assert np.allclose(from_logits, from_probs, atol=1e-6)


# --- edges ---


@pytest.mark.filterwarnings("ignore::calibrant.common.errors.CalibrationWarning")  # T at its bound
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_few_rows_many_classes(method, rows):
    logits, labels = _some_logits(rows, 8)
    probs = method().fit(logits, labels).predict_proba(_some_logits(20, 8, 1)[0])
    assert np.isfinite(probs).all()
    assert np.allclose(probs.sum(axis=1), 1.0)


@pytest.mark.filterwarnings("ignore::calibrant.common.errors.CalibrationWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("labels", [[0] * 6, [0, 1, 2, 0, 1, 2]])
def test_constant_and_duplicate_rows(method, labels):
    same = np.tile([1.0, 2.0, 3.0], (6, 1))
    probs = method().fit(same, labels).predict_proba([[1.0, 2.0, 3.0], [9.0, 0.0, 0.0]])
    assert np.isfinite(probs).all()
    assert np.allclose(probs.sum(axis=1), 1.0)


@pytest.mark.parametrize("method", METHODS)
def test_masked_classes_have_probability_zero(method):
    logits, labels = _some_logits(60, 4)
    masked = logits.copy()
    masked[::2, 3] = np.where(labels[::2] == 3, masked[::2, 3], -np.inf)
    masked[:, 1] = np.where(labels == 1, masked[:, 1], -np.inf)
    probs = method().fit(masked, labels).predict_proba(masked)
    assert np.all(probs[np.isneginf(masked)] == 0.0)
    assert np.allclose(probs.sum(axis=1), 1.0)


def test_masked_entries_do_not_count_in_the_fit():
    logits, labels = _some_logits(60, 3)
    wider = np.column_stack([logits, np.full(60, -np.inf)])
    for method in (IsotonicOneVsAll, MultiClassIsotonic):
        plain = method().fit(logits, labels).predict_proba(logits)
        masked = method().fit(wider, labels).predict_proba(wider)
        assert np.allclose(masked[:, :3], plain, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_log_probabilities_stay_finite(method):
    logits, labels = _some_logits(60, 4)
    far = np.array([[0.0, -5000.0, 1.0, 2.0]])
    logs = method().fit(logits, labels).predict_log_proba(far)
    assert np.isfinite(logs).all()
    assert np.allclose(np.exp(logs).sum(), 1.0)


def test_another_number_of_classes_is_refused():
    irm = MultiClassIsotonic().fit(*_some_logits(20, 3))
    with pytest.raises(ValueError, match="fitted with 3 classes, got 4"):
        irm.predict_proba(np.zeros((1, 4)))
