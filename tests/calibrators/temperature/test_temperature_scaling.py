"""Temperature scaling: golden records, optimality, and laws of scale, shift and weight."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

import calibrant
from calibrant import TS, CalibrationWarning, TemperatureProfile, Uncalibrated
from calibrant.calibrators._optimizers import best_of_scan, falling_then_rising
from calibrant.calibrators.profile.losses import ProfileLoss
from calibrant.formulas import ConstantTemperature
from crafting import with_formula

GOLDEN_SETS = "ABCD"


def sampled(
    rows: int, classes: int, temperature: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose labels are drawn from softmax(z / temperature)."""
    rng = np.random.default_rng(seed)
    logits = 4.0 * rng.standard_normal((rows, classes))
    noisy = logits / temperature + rng.gumbel(size=logits.shape)
    return logits, noisy.argmax(axis=1)


def nll_and_brier(logits: np.ndarray, labels: np.ndarray, temperature: float) -> dict[str, float]:
    scaled = np.asarray(logits, np.float64) / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    probs = np.exp(scaled)
    total = probs.sum(axis=1, keepdims=True)
    chosen = np.arange(len(labels)), labels
    squares = ((probs / total) ** 2).sum(axis=1)
    return {
        "nll": float(np.mean(np.log(total[:, 0]) - scaled[chosen])),
        "brier": float(np.mean(squares - 2.0 * (probs / total)[chosen] + 1.0)),
    }


# --- golden records ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDEN_SETS)
def test_exact_minimiser_of_the_nll(name, oracle, oracle_data):
    record = oracle(f"guo_ts_{name}")["output"]
    ts = TS().fit(*oracle_data(f"{name}_val"))
    assert ts.temperature_ == pytest.approx(record["T_exact_minimiser"], abs=1e-6)
    assert ts.fit_info_.after == pytest.approx(record["nll_exact"], abs=1e-7)
    assert ts.fit_info_.after <= record["nll"]  # what the authors' optimiser reaches


@pytest.mark.parametrize(("loss", "theirs"), [("nll", "ce"), ("brier", "mse")])
@pytest.mark.parametrize("name", GOLDEN_SETS)
def test_mix_n_match(name, loss, theirs, oracle, oracle_data):
    record = oracle(f"mix_ts_{theirs}_{name}")
    logits, labels = oracle_data(f"{name}_val")
    ts = TS(loss=loss, bounds=(0.05, 5.0)).fit(logits, labels)
    assert ts.temperature_ == pytest.approx(record["output"]["T"], abs=record["tol"])
    scale = logits.shape[1] if loss == "brier" else 1  # their mean is over the classes too
    for ours, key in (("after", "val_loss"), ("before", "val_loss_at_T1")):
        recorded = scale * record["output"][key]
        assert getattr(ts.fit_info_, ours) == pytest.approx(recorded, abs=1e-6)


@pytest.mark.parametrize(("method", "loss"), [("ts_ce", "nll"), ("ts_mse", "brier")])
@pytest.mark.parametrize("name", GOLDEN_SETS)
def test_probabilities_of_mix_n_match(name, method, loss, oracle, oracle_data):
    record = oracle(f"mixout_{method}_{name}")
    ts = TS(loss=loss).fit(*oracle_data(f"{name}_val"))
    assert_golden_rows(ts, record, *oracle_data(f"{name}_test"))


@pytest.mark.parametrize("name", GOLDEN_SETS)
def test_uncalibrated_probabilities(name, oracle, oracle_data):
    base = Uncalibrated().fit(*oracle_data(f"{name}_val"))
    assert_golden_rows(base, oracle(f"mixout_base_{name}"), *oracle_data(f"{name}_test"))


def assert_golden_rows(fitted, record, logits, labels) -> None:
    rows = np.array(record["output"]["p_test_rows"])
    probs = fitted.predict_proba(logits)
    np.testing.assert_allclose(probs[: len(rows)], rows, rtol=0, atol=record["tol"])
    scores = record["output"]["eval"]
    assert calibrant.metrics.brier(probs, labels) == pytest.approx(scores["mse"], abs=1e-5)
    assert calibrant.metrics.nll(probs, labels) == pytest.approx(scores["nll"], abs=2e-5)
    assert calibrant.metrics.accuracy(probs, labels) == pytest.approx(scores["acc"], abs=1e-12)


@pytest.mark.parametrize(("loss", "theirs"), [("nll", "ce"), ("brier", "mse")])
def test_bounds_are_where_the_search_ends(loss, theirs, oracle):
    """Labels unrelated to the logits want T = inf, separable ones T = 0; both are told."""
    record = oracle("mix_ts_bounds")["output"]
    rng = np.random.RandomState(1)  # the record's own recipe
    logits = np.round(3.0 * rng.randn(80, 4), 4)
    for labels, kind in ((rng.randint(0, 4, 80), "random"), (logits.argmax(axis=1), "perfect")):
        with pytest.warns(CalibrationWarning, match="an end of the allowed range"):
            ts = TS(loss=loss, bounds=(0.05, 5.0)).fit(logits, labels)
        assert ts.temperature_ == pytest.approx(record[f"T_{theirs}_{kind}"], abs=1e-3)
        assert ts.fit_info_.converged is False


# --- optimality -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["nll", "brier"])
@pytest.mark.parametrize("truth", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("classes", [2, 20, 300])
def test_no_temperature_nearby_or_far_is_better(classes, truth, loss):
    logits, labels = sampled(600, classes, truth)
    ts = TS(loss=loss).fit(logits, labels)
    best = nll_and_brier(logits, labels, ts.temperature_)[loss]
    assert ts.fit_info_.after == pytest.approx(best, abs=1e-4)
    for factor in (1e-2, 0.1, 0.5, 0.8, 0.99, 0.999, 1.001, 1.01, 1.2, 2.0, 10.0, 100.0):
        other = nll_and_brier(logits, labels, ts.temperature_ * factor)[loss]
        # nodes know the loss of 300 classes to 1e-7 or so
        assert best <= other + (0.0 if classes <= 64 else 1e-8)


@pytest.mark.parametrize("truth", [0.5, 1.0, 3.0])
def test_the_temperature_of_the_labels_is_found(truth):
    logits, labels = sampled(20_000, 5, truth)
    for loss in ("nll", "brier"):
        assert TS(loss=loss).fit(logits, labels).temperature_ == pytest.approx(truth, rel=0.04)


def test_real_logits_improve_on_held_out_rows(fashion):
    ts = TS().fit(fashion.val_logits, fashion.val_labels)
    before, after = (
        calibrant.metrics.nll(c.predict_proba(fashion.test_logits), fashion.test_labels)
        for c in (Uncalibrated().fit(fashion.val_logits, fashion.val_labels), ts)
    )
    assert after < before - 0.01


@pytest.mark.filterwarnings("ignore:the labels look unrelated")  # all rows favour the same class
@pytest.mark.filterwarnings("ignore:class . has the mean probability")
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_several_minima_of_the_brier_score(share):
    """Timid rows that are mostly right and bold ones that are often wrong: two valleys in T."""
    logits = np.array([[0.2, 0.0]] * 60 + [[60.0, 0.0]] * 40)
    labels = np.array([0] * 57 + [1] * 3 + [0] * 22 + [1] * 18)
    weight = np.r_[np.full(60, (1.0 - share) / 60), np.full(40, share / 40)]

    groups = slice(0, 60), slice(60, 100)

    def brier(temperature: float) -> float:
        parts = (nll_and_brier(logits[g], labels[g], temperature)["brier"] for g in groups)
        return float(np.dot([1.0 - share, share], list(parts)))

    found = TS(loss="brier").fit(logits, labels, sample_weight=weight).temperature_
    assert brier(found) <= min(map(brier, np.geomspace(0.01, 1e4, 3000))) + 1e-9


# --- laws -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["nll", "brier"])
@pytest.mark.parametrize("factor", [1e-3, 0.05, 30.0, 1000.0])
@pytest.mark.parametrize("classes", [5, 300])
def test_temperature_scales_with_the_logits(classes, factor, loss):
    logits, labels = sampled(500, classes, 1.5)
    plain = TS(loss=loss, bounds=(1e-6, 1e6)).fit(logits, labels)
    scaled = TS(loss=loss, bounds=(1e-6, 1e6)).fit(factor * logits, labels)
    assert scaled.temperature_ == pytest.approx(factor * plain.temperature_, rel=1e-5)
    np.testing.assert_allclose(
        scaled.predict_proba(factor * logits), plain.predict_proba(logits), atol=1e-5
    )


@pytest.mark.parametrize("classes", [5, 300])
def test_a_shift_of_a_row_changes_nothing(classes):
    logits, labels = sampled(400, classes, 2.0)
    shift = np.random.default_rng(1).uniform(-50.0, 50.0, (400, 1))
    plain, shifted = TS().fit(logits, labels), TS().fit(logits + shift, labels)
    assert shifted.temperature_ == pytest.approx(plain.temperature_, rel=1e-6)
    np.testing.assert_allclose(
        plain.predict_proba(logits + shift), plain.predict_proba(logits), atol=1e-12
    )


@pytest.mark.parametrize("loss", ["nll", "brier"])
def test_weight_two_is_the_row_twice_and_zero_is_no_row(loss):
    logits, labels = sampled(300, 6, 2.0)
    weight = np.random.default_rng(2).integers(0, 3, 300)
    weighted = TS(loss=loss).fit(logits, labels, sample_weight=weight)
    repeated = TS(loss=loss).fit(np.repeat(logits, weight, axis=0), np.repeat(labels, weight))
    assert weighted.temperature_ == pytest.approx(repeated.temperature_, rel=1e-9)


@pytest.mark.parametrize("classes", [5, 300])
def test_a_profile_gives_the_same_fit_as_its_logits(classes):
    logits, labels = sampled(400, classes, 2.0)
    profile = TemperatureProfile.from_logits(logits, labels)
    for loss in ("nll", "brier"):
        from_logits, from_profile = TS(loss=loss).fit(logits, labels), TS(loss=loss).fit(profile)
        assert from_profile.temperature_ == from_logits.temperature_
        assert from_profile.fit_info_ == from_logits.fit_info_


def test_probabilities_are_logits_up_to_a_shift():
    logits, labels = sampled(400, 5, 2.0)
    probs = Uncalibrated().fit(logits, labels).predict_proba(logits)
    from_logits = TS().fit(logits, labels)
    from_probs = TS(input="probs").fit(probs, labels)
    assert from_probs.temperature_ == pytest.approx(from_logits.temperature_, rel=1e-6)
    np.testing.assert_allclose(
        from_probs.predict_proba(probs), from_logits.predict_proba(logits), atol=1e-9
    )


def test_masked_classes_have_probability_zero_and_do_not_count():
    logits, labels = sampled(200, 5, 2.0)
    masked = np.c_[logits, np.full((200, 2), -np.inf)]
    plain, ts = TS().fit(logits, labels), TS().fit(masked, labels)
    assert ts.temperature_ == pytest.approx(plain.temperature_, rel=1e-12)
    probs = ts.predict_proba(masked)
    assert np.all(probs[:, 5:] == 0.0)
    np.testing.assert_allclose(probs[:, :5], plain.predict_proba(logits), rtol=1e-12)
    assert np.all(np.isneginf(ts.predict_log_proba(masked)[:, 5:]))


# --- predicting -------------------------------------------------------------------------------

ADVERSARIAL = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(2, 6)),
    elements=st.one_of(
        st.floats(-20.0, 20.0),
        st.sampled_from([0.0, 1.0, 1.0 + 1e-15, 1e4, -1e4, 1e30, -1e30, -np.inf]),
    ),
).filter(lambda z: bool(np.isfinite(z).any(axis=1).all()))


def with_temperature(temperature: float) -> TS:
    """A calibrator with a given temperature."""
    return with_formula(TS(), ConstantTemperature(temperature))


@given(logits=ADVERSARIAL, temperature=st.floats(1e-2, 1e4), single=st.booleans())
def test_laws_of_prediction(logits, temperature, single):
    ts = with_temperature(temperature)
    logits = logits.astype(np.float32) if single else logits
    probs, logs = ts.predict_proba(logits), ts.predict_log_proba(logits)
    rows, top = np.arange(len(logits)), logits.argmax(axis=1)
    np.testing.assert_array_equal(ts.predict(logits), top)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-6)
    assert np.all(probs <= probs[rows, top][:, None])
    assert np.all(logs <= logs[rows, top][:, None])
    np.testing.assert_allclose(np.exp(logs), probs, rtol=1e-4, atol=1e-7)
    assert np.all(np.isfinite(logs) == np.isfinite(logits))
    np.testing.assert_array_equal(ts.transform(logits), logits / logits.dtype.type(temperature))
    np.testing.assert_array_equal(ts.temperature(logits), logits.dtype.type(temperature))
    assert ts.temperature(logits).shape == (len(logits),)


def test_log_probabilities_reach_where_probabilities_end():
    ts = with_temperature(1.0)
    logits = np.array([[0.0, -2000.0]])
    assert ts.predict_proba(logits)[0, 1] == 0.0
    assert ts.predict_log_proba(logits)[0, 1] == -2000.0


def test_prediction_by_tiles_is_prediction_row_by_row(monkeypatch):
    logits, labels = sampled(103, 7, 2.0)
    ts = TS().fit(logits, labels)
    whole = ts.predict_proba(logits)
    monkeypatch.setattr("calibrant.common.arrays.row_tiles.__defaults__", (70,))
    np.testing.assert_array_equal(ts.predict_proba(logits), whole)
    np.testing.assert_array_equal(ts.predict(logits), logits.argmax(axis=1))


# --- scikit-learn's rules ---------------------------------------------------------------------


def test_estimator_rules():
    given = {"loss": "brier", "bounds": (0.1, 9.0), "prior_rows": 2.0, "input": "probs"}
    ts = TS(**given)
    assert ts.get_params() == given
    assert clone(ts).get_params() == ts.get_params()
    assert calibrant.calibrator("TS", loss="brier").loss == "brier"
    fitted = TS()
    assert fitted.fit(*sampled(50, 3, 2.0)) is fitted
    assert not hasattr(clone(fitted), "temperature_")


def test_parameters_are_checked_at_fit():
    data = sampled(50, 3, 2.0)
    with pytest.raises(ValueError, match=r"loss must be one of .*'nll'.*, got 'mse'"):
        TS(loss="mse").fit(*data)
    for bounds in ((0.0, 1.0), (2.0, 1.0), (1.0, np.inf), (-1.0, 1.0)):
        with pytest.raises(ValueError, match="bounds must be 0 < low < high < inf, got"):
            TS(bounds=bounds).fit(*data)


def test_uncalibrated_is_softmax_whatever_it_is_fitted_on():
    logits, labels = sampled(50, 3, 2.0)
    base = Uncalibrated().fit(logits, labels)
    weight = np.exp(logits)
    np.testing.assert_allclose(
        base.predict_proba(logits), weight / weight.sum(axis=1, keepdims=True), rtol=1e-12
    )
    assert np.all(base.temperature(logits) == 1.0)


# --- the searches -----------------------------------------------------------------------------


@given(centre=st.floats(-4.0, 4.0))
def test_bracketed_root_finds_the_minimum_or_the_end(centre):
    result = falling_then_rising(lambda x: (0.0, x - centre, 1.0), -3.0, 3.0, "x")
    assert result.x == pytest.approx(np.clip(centre, -3.0, 3.0), abs=1e-9)
    assert result.converged == (-3.0 < centre < 3.0)


@given(shift=st.floats(-0.5, 0.5))
def test_scan_finds_the_lower_of_two_valleys(shift):
    def value(x: float) -> float:
        return (x * x - 1.0) ** 2 + 0.3 * (x - shift)

    def at(x: float) -> tuple[float, float, float]:
        return value(x), 4.0 * x * (x * x - 1.0) + 0.3, 12.0 * x * x - 4.0

    result = best_of_scan(at, -2.0, 2.0, "x")
    assert result.converged
    assert value(result.x) <= min(map(value, np.linspace(-2.0, 2.0, 2001))) + 1e-9


def test_nothing_warns_on_a_good_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TS().fit(*sampled(200, 4, 2.0)).fit_info_.converged is True


@pytest.mark.parametrize("root", [-6.0, -0.3, 0.0, 0.2, 3.9, 7.5])
@pytest.mark.parametrize("start", [-20.0, 0.0, 5.0])
def test_a_bracket_that_grows_from_a_start_finds_the_same_root(root, start):
    def at(x: float) -> tuple[float, float, float]:
        return 0.0, np.expm1(x - root), np.exp(x - root)

    result = falling_then_rising(at, -7.0, 8.0, "x", start=start)
    assert result.converged
    assert result.x == pytest.approx(root, abs=1e-9)


@pytest.mark.parametrize(("sign", "end"), [(1.0, -7.0), (-1.0, 8.0)])
def test_a_bracket_without_a_root_ends_at_the_bound(sign, end):
    result = falling_then_rising(lambda x: (0.0, sign, 0.0), -7.0, 8.0, "x", start=0.0)
    assert not result.converged
    assert result.x == end


@pytest.mark.parametrize("classes", [3, 90])
@pytest.mark.parametrize("loss", ["nll", "brier", "mixed"])
def test_slopes_alone_are_those_of_the_rows(classes, loss):
    profile = TemperatureProfile().update(*sampled(50, classes, 1.5))
    problem = ProfileLoss(profile, loss)
    rng = np.random.default_rng(0)
    log_b, index = rng.uniform(-9.0, 6.0, 50), rng.permutation(50)
    expected = problem.rows(log_b, index).slope
    np.testing.assert_allclose(problem.slopes(log_b, index), expected, rtol=1e-9, atol=1e-10)


def test_a_prior_holds_what_rows_cannot_tell_and_lets_scales_be():
    logits = np.array([[3.0, 0.0], [2.0, 0.0], [4.0, 0.0]] * 10)
    labels = np.zeros(30, int)
    with pytest.warns(CalibrationWarning, match="none of the 30 rows is misclassified"):
        held = TS(prior_rows="auto").fit(logits, labels)
    assert 0.3 < held.temperature_ < 1.0
    logits, labels = sampled(300, 5, 2.0)
    plain, far = TS().fit(logits, labels), TS(prior_rows="auto").fit(500.0 * logits, labels)
    assert far.temperature_ == pytest.approx(500.0 * plain.temperature_, rel=0.1)
