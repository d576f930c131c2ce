"""Vector, matrix, Dirichlet and structured scaling.

Golden records:

| id | what | tolerance | achieved |
|---|---|---|---|
| prob_calibrators_A | forward of svs, sms with the recorded parameters | 1e-4 | 2e-7 |
| prob_calibrators_D | the same | 1e-4 | 4e-7 |
| prob_calibrators_A | fitted svs, sms | 1e-4 | 9.9e-5, 7.7e-5 |
| prob_calibrators_D | fitted svs, sms | 5e-4 instead of 1e-4 | 3.5e-4, 4.0e-4 |

The recorded optimiser stopped early: at its parameters the gradient of the penalised loss is up to
2.9e-4 and the loss up to 5.6e-7 above the minimum, which is reached here (gradient below 1e-6).
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrant import CalibrationWarning
from calibrant.calibrators import (
    DirichletCalibration,
    MatrixScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.calibrators._optimizers import lbfgs
from calibrant.calibrators.affine._affine_loss import (
    NO_EVIDENCE,
    AffineLoss,
    Penalty,
    _fisher_squares,
    _mean_apart,
    _mean_joined,
    evidence_penalty,
    fit_affine,
)
from calibrant.data.rows import Rows
from crafting import with_formula
from row_functions import log_softmax, softmax

PENALISED = [VectorScaling, MatrixScaling, DirichletCalibration]
STRUCTURED = [StructuredVectorScaling, StructuredMatrixScaling]
METHODS = PENALISED + STRUCTURED
NAMED = [("svs", StructuredVectorScaling), ("sms", StructuredMatrixScaling)]


def _some_logits(rows, classes, seed=0):
    """Logits whose best map is no temperature: classes differ in scale and in offset."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes))
    logits[np.arange(rows), labels] += 1.5
    return logits * rng.uniform(1.0, 4.0, classes) + rng.normal(size=classes), labels


def _loss(full, rows=40, classes=4, masked=False, seed=0):
    rng = np.random.default_rng(seed)
    logits, labels = _some_logits(rows, classes, seed)
    finite = None
    if masked:
        finite = rng.random((rows, classes)) < 0.7
        finite[np.arange(rows), labels] = True
    share = rng.random(rows)
    share /= share.sum()
    return AffineLoss(Rows(logits, labels), logits, finite, share, share, full)


def _row_gradients(loss):
    """The gradient of each row apart, at the start."""
    result = []
    for i in range(len(loss.features)):
        row = slice(i, i + 1)
        finite = None if loss.finite is None else loss.finite[row]
        one = (loss.features[row], loss.inputs[row], finite, np.ones(1), np.ones(1))
        result.append(AffineLoss(*one, loss.full).gradient(np.zeros(loss.size))[1])
    return np.array(result)


def _mean_nll(model, logits, labels):
    return -np.mean(model.predict_log_proba(logits)[np.arange(len(labels)), labels])


# --- golden records ---


def _recorded(record, name):
    values = record["output"][name]
    if name == "svs":
        return np.array(values["v"]), np.array(values["b"])
    both = np.array(values["W"])
    return both[:, :-1].T, both[:, -1]


@pytest.mark.parametrize("data", ["A", "D"])
@pytest.mark.parametrize(("name", "method"), NAMED)
def test_structured_forward_is_the_recorded_one(oracle, oracle_data, data, name, method):
    record = oracle(f"prob_calibrators_{data}")
    model = method().fit(*oracle_data(f"{data}_val"))
    slopes, intercept = _recorded(record, name)
    with_formula(model, replace(model.formula_, slopes=slopes, intercept=intercept))
    probs = model.predict_proba(oracle_data(f"{data}_test")[0])[:5]
    np.testing.assert_allclose(probs, record["output"][name]["p_test_first5"], atol=record["tol"])


@pytest.mark.parametrize(("data", "tolerance"), [("A", 1e-4), ("D", 5e-4)])
@pytest.mark.parametrize(("name", "method"), NAMED)
def test_structured_fit_is_the_recorded_one(oracle, oracle_data, data, tolerance, name, method):
    record = oracle(f"prob_calibrators_{data}")
    logits, labels = oracle_data(f"{data}_val")
    model = method().fit(logits, labels)
    probs = model.predict_proba(oracle_data(f"{data}_test")[0])[:5]
    np.testing.assert_allclose(probs, record["output"][name]["p_test_first5"], atol=tolerance)
    ours = _structured_loss(model, logits, labels, model.slopes_, model.intercept_)
    theirs = _structured_loss(model, logits, labels, *_recorded(record, name))
    assert ours <= theirs <= ours + 1e-6
    assert ours == pytest.approx(model.fit_info_.details["penalised_loss"], abs=1e-10)


def _structured_loss(model, logits, labels, slopes, intercept):
    """The structured penalties, written out from their formulas."""
    rows, classes = logits.shape
    mixed = (1 - 1 / (rows + 1)) * softmax(logits, model.temperature_) + 1 / (rows + 1) / classes
    full = slopes.ndim == 2
    scores = (np.log(mixed) @ slopes if full else np.log(mixed) * slopes) + intercept
    nll = -log_softmax(scores)[np.arange(rows), labels].mean()
    change = slopes - np.eye(classes) if full else np.diag(slopes - 1.0)
    diagonal = np.diag(change)
    other = np.sum(change**2) - diagonal @ diagonal
    pull = diagonal @ diagonal + intercept @ intercept + (classes - 1) * other
    return nll + classes / rows * pull


# --- the engine ---


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_gradient_is_that_of_finite_differences(full, masked):
    loss = _loss(full, masked=masked)
    rng = np.random.default_rng(1)
    point, direction = 0.3 * rng.normal(size=(2, loss.size))
    value, gradient = loss.gradient(point)
    step = 1e-5
    numeric = (loss.value(point + step * direction) - loss.value(point - step * direction)) / (
        2 * step
    )
    assert value == pytest.approx(loss.value(point), abs=1e-14)
    assert gradient @ direction == pytest.approx(numeric, rel=1e-7)


@pytest.mark.parametrize("full", [False, True])
def test_fisher_is_the_mean_square_of_row_gradients(full):
    loss = _loss(full, masked=True)
    rows = _row_gradients(loss)
    np.testing.assert_allclose(loss.fisher(np.zeros(loss.size)), loss.share @ rows**2)


def test_fisher_squares_are_those_of_all_pairs():
    loss = _loss(full=True, rows=30)
    classes, share = loss.features.n_classes, loss.share
    gradients = _row_gradients(loss)[:, :-classes].reshape(-1, classes, classes)
    gradients[:, np.arange(classes), np.arange(classes)] = 0.0
    flat = gradients.reshape(len(gradients), -1)
    pairs = (flat @ flat.T) ** 2
    np.fill_diagonal(pairs, 0.0)
    expected = share @ pairs @ share / (1.0 - share @ share)
    assert _fisher_squares(loss) == pytest.approx(expected, rel=1e-12)


def test_evidence_frees_a_matrix_only_where_there_is_something_to_find():
    def strength(turn, seed):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(2000, 6)) * 2.0
        scores = logits @ (np.eye(6) + turn * rng.normal(size=(6, 6)))
        labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        share = np.full(2000, 1 / 2000)
        loss = AffineLoss(Rows(logits, labels), logits, None, share, share, full=True)
        return evidence_penalty(loss, loss.fisher(np.zeros(loss.size)))

    nothing = [strength(0.0, seed) for seed in range(10)]
    assert np.median(nothing) == NO_EVIDENCE
    assert max(strength(0.2, seed) for seed in range(3)) < 0.1 * min(nothing)


def test_mean_apart_and_joined_are_the_same_map():
    rng = np.random.default_rng(0)
    features, change = rng.normal(size=(7, 4)) + 3.0, rng.normal(size=(5, 4))
    np.testing.assert_allclose(_mean_apart(features) @ change, features @ _mean_joined(change))


def test_float32_finds_the_same_map(monkeypatch):
    logits, labels = _some_logits(800, 6)
    options = {"full": True, "max_iter": 200, "report": lambda done, total: None}
    penalty, features = Penalty(0.02, 0.02, 0.02), Rows(logits / 3.0, labels)
    wide = fit_affine(features, None, penalty, **options)
    monkeypatch.setattr("calibrant.calibrators.affine._affine_loss.NARROW_SIZE", 2)
    narrow = fit_affine(features, None, penalty, **options)
    assert narrow.nll == pytest.approx(wide.nll, abs=1e-4)
    assert narrow.minimum.value <= wide.minimum.value + 1e-5


def test_lbfgs_keeps_the_best_point_and_survives_what_is_not_finite():
    def steep(x):
        return (np.nan, x) if abs(x[0]) < 0.5 else (float(x @ x), 2.0 * x)

    minimum = lbfgs(steep, np.array([2.0]), max_iter=50, tolerance=1e-12)
    assert 0.25 <= minimum.value <= 4.0
    assert minimum.value == pytest.approx(float(minimum.x @ minimum.x))
    hopeless = lbfgs(lambda x: (np.nan, x), np.array([2.0]), max_iter=5, tolerance=1e-12)
    assert not hopeless.converged
    assert hopeless.x == [2.0]


# --- laws ---


@pytest.mark.parametrize("method", METHODS)
def test_never_worse_than_the_start_in_the_fitted_loss(method):
    for seed in range(3):
        logits, labels = _some_logits(120, 5, seed)
        model = method().fit(logits, labels)
        info = model.fit_info_
        start = info.details["loss_temperature_scaling"]
        if method in STRUCTURED:  # they start at smoothed temperature scaling
            start = -np.mean(_smoothed(model, logits)[np.arange(120), labels])
        assert info.details["penalised_loss"] <= start + 1e-12
        assert info.after <= info.details["penalised_loss"]
        assert info.converged
        assert _mean_nll(model, logits, labels) == pytest.approx(info.after, abs=1e-12)
        json.dumps(asdict(info))


def _smoothed(model, logits):
    probs, share = softmax(logits, model.temperature_), model.smoothing_
    return np.log((1.0 - share) * probs + share / logits.shape[1])


@pytest.mark.parametrize("method", PENALISED)
def test_strong_penalties_give_temperature_scaling(method):
    logits, labels = _some_logits(150, 4)
    names = [name for name in method().get_params() if name.endswith("_penalty")]
    model = method(**dict.fromkeys(names, 1e12)).fit(logits, labels)
    expected = TemperatureScaling().fit(logits, labels).predict_proba(logits)
    np.testing.assert_allclose(model.predict_proba(logits), expected, atol=1e-6)


@pytest.mark.parametrize("features", ["logits", "log-probabilities"])
def test_given_penalties_are_odir(features):
    """The gradient of the documented loss is 0 at the fitted W and b."""
    method = MatrixScaling if features == "logits" else DirichletCalibration
    logits, labels = _some_logits(200, 3)
    model = method(slope_penalty=0.3, off_diagonal_penalty=0.2, intercept_penalty=0.1)
    model.fit(logits, labels)
    inputs = logits if features == "logits" else log_softmax(logits)
    off = ~np.eye(3, dtype=bool)

    def documented(flat):
        slopes, intercept = flat[:9].reshape(3, 3), flat[9:]
        logs = log_softmax(inputs @ slopes + intercept)
        change = model.temperature_ * slopes - np.eye(3)
        penalty = 0.3 * np.mean(np.diag(change) ** 2) + 0.2 * np.mean(change[off] ** 2)
        return -logs[np.arange(200), labels].mean() + penalty + 0.1 * np.mean(intercept**2)

    best = np.concatenate([model.slopes_.ravel(), model.intercept_])
    assert documented(best) == pytest.approx(model.fit_info_.details["penalised_loss"], abs=1e-12)
    for direction in np.eye(12):
        steps = documented(best + 1e-4 * direction) - documented(best - 1e-4 * direction)
        assert abs(steps / 2e-4) < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_better_than_temperature_scaling_on_unseen_real_logits(method, fashion):
    ts = TemperatureScaling().fit(fashion.val_logits, fashion.val_labels)
    model = method().fit(fashion.val_logits, fashion.val_labels)
    losses = [_mean_nll(m, fashion.test_logits, fashion.test_labels) for m in (model, ts)]
    assert losses[0] < losses[1] - 0.01


@pytest.mark.parametrize("method", PENALISED)
def test_many_classes_without_evidence_do_not_overfit(method):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(1200, 60)) * 2.0
    labels = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    model = method().fit(logits[:600], labels[:600])
    ts = TemperatureScaling().fit(logits[:600], labels[:600])
    assert _mean_nll(model, logits[600:], labels[600:]) <= (
        _mean_nll(ts, logits[600:], labels[600:]) + 2e-3
    )


@pytest.mark.parametrize("method", [DirichletCalibration, *STRUCTURED])
def test_a_constant_added_to_a_row_changes_nothing(method):
    logits, labels = _some_logits(150, 4)
    shift = np.random.default_rng(0).normal(size=(150, 1)) * 5.0
    model, shifted = method().fit(logits, labels), method().fit(logits + shift, labels)
    np.testing.assert_allclose(
        model.predict_proba(logits), shifted.predict_proba(logits + shift), atol=1e-5
    )


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_weight_zero_do_not_count(method):
    logits, labels = _some_logits(150, 4)
    weight = np.r_[np.random.default_rng(0).uniform(0.5, 2.0, 100), np.zeros(50)]
    part = method().fit(logits[:100], labels[:100], sample_weight=weight[:100])
    whole = method().fit(logits, labels, sample_weight=weight)
    np.testing.assert_allclose(whole.slopes_, part.slopes_, atol=1e-5)
    scaled = method().fit(logits, labels, sample_weight=1e6 * weight)
    np.testing.assert_allclose(whole.slopes_, scaled.slopes_, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_weights_move_the_fit_to_the_rows_they_favour(method):
    logits, labels = _some_logits(200, 4)
    favoured = labels == 0
    plain = method().fit(logits, labels)
    weighted = method().fit(logits, labels, sample_weight=1.0 + 9.0 * favoured)
    assert _mean_nll(weighted, logits[favoured], labels[favoured]) < _mean_nll(
        plain, logits[favoured], labels[favoured]
    )


# --- the automatic penalties of vector scaling ---


def _full_pulls(model, logits):
    """The automatic penalties as they are before left-out rows ease them."""
    rows, classes = logits.shape
    square = np.mean(np.square(logits / model.temperature_))
    return 2.0 * square * classes / rows, 3.0 * classes / rows


def _ease(model, logits):
    slope, intercept = _full_pulls(model, logits)
    penalty = model.fit_info_.details["penalty"]
    assert penalty["slope"] / slope == pytest.approx(penalty["intercept"] / intercept)
    return penalty["slope"] / slope


def test_penalties_ease_where_the_classes_differ():
    logits, labels = _some_logits(4000, 6)
    fit, judge = slice(0, 2000), slice(2000, None)
    auto = VectorScaling().fit(logits[fit], labels[fit])
    assert _ease(auto, logits[fit]) < 0.5
    assert len(auto.fit_info_.details["tried"]) > 2
    slope, intercept = (6 * pull for pull in _full_pulls(auto, logits[fit]))
    full = VectorScaling(slope, intercept).fit(logits[fit], labels[fit])
    free = VectorScaling(0.0, 0.0).fit(logits[fit], labels[fit])
    losses = [_mean_nll(model, logits[judge], labels[judge]) for model in (auto, full, free)]
    assert losses[0] < losses[1]
    assert losses[0] < losses[2] + 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_penalties_stay_where_there_is_nothing_to_find(seed):
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(300, 6))
    labels = (0.7 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    assert _ease(VectorScaling().fit(logits, labels), logits) == pytest.approx(1.0)


def test_only_automatic_penalties_ease():
    logits, labels = _some_logits(2000, 6)
    penalty = VectorScaling(slope_penalty=0.6).fit(logits, labels).fit_info_.details["penalty"]
    assert penalty["slope"] == pytest.approx(0.1)
    assert "tried" not in VectorScaling(0.1, 0.1).fit(logits, labels).fit_info_.details


# --- inputs of every kind ---


@pytest.mark.parametrize("method", METHODS)
def test_masked_classes_keep_probability_zero(method):
    logits, labels = _some_logits(200, 5)
    masked = np.random.default_rng(1).random(logits.shape) < 0.3
    masked[np.arange(200), labels] = False
    logits[masked] = -np.inf
    model = method().fit(logits, labels)
    probs, logs = model.predict_proba(logits), model.predict_log_proba(logits)
    assert (probs[masked] == 0.0).all()
    assert (probs[~masked] > 0.0).all()
    assert np.isneginf(logs[masked]).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    only = np.full((1, 5), -np.inf)
    only[0, 2] = 3.0
    np.testing.assert_array_equal(model.predict_proba(only), [[0.0, 0.0, 1.0, 0.0, 0.0]])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
@pytest.mark.parametrize("case", ["one sample", "fewer rows", "absent", "constant", "separable"])
def test_little_or_odd_data_give_a_distribution(method, case):
    logits, labels = _some_logits(30, 6)
    if case == "one sample":
        logits, labels = logits[:1], labels[:1]
    elif case == "fewer rows":
        logits, labels = logits[:4], labels[:4]
    elif case == "absent":
        labels = labels % 3
    elif case == "constant":
        logits = np.zeros_like(logits)
    else:
        labels = logits.argmax(axis=1)
    model = method().fit(logits, labels)
    probs = model.predict_proba(logits)
    assert np.isfinite(probs).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    assert np.isfinite(model.predict_log_proba(logits)).all()
    assert isinstance(model.fit_info_.converged, bool)


@pytest.fixture(scope="module")
def fitted():
    logits, labels = _some_logits(200, 3)
    return [method().fit(logits, labels) for method in METHODS]


_LARGE = 2.0**127
_SCORES = st.floats(-_LARGE, _LARGE, width=32) | st.floats(-50, 50, width=32) | st.just(-np.inf)


@given(logits=arrays(np.float32, (3, 3), elements=_SCORES), wide=st.booleans())
def test_no_logits_give_nan(fitted, logits, wide):
    logits[:, 0] = np.where(np.isneginf(logits).all(axis=1), np.float32(0.0), logits[:, 0])
    logits = logits.astype(np.float64) if wide else logits
    for model in fitted:
        probs = model.predict_proba(logits)
        assert probs.dtype == logits.dtype
        np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-5)
        assert (probs[np.isneginf(logits)] == 0.0).all()
        assert not np.isnan(model.predict_log_proba(logits)).any()


def test_float32_and_torch_agree_with_float64(fitted):
    torch = pytest.importorskip("torch")
    logits, _ = _some_logits(50, 3, seed=1)
    for model in fitted:
        probs = model.predict_proba(logits)
        narrow = model.predict_proba(logits.astype(np.float32))
        assert narrow.dtype == np.float32
        np.testing.assert_allclose(narrow, probs, atol=2e-6)
        tensor = torch.asarray(logits)  # as on a device
        tensor = model.formula_(tensor)
        assert tensor.dtype == torch.float64
        np.testing.assert_allclose(tensor.numpy(), probs, atol=1e-12)


# --- telling ---


@pytest.mark.parametrize("method", METHODS)
def test_stopping_early_is_told(method):
    logits, labels = _some_logits(100, 4)
    with pytest.warns(CalibrationWarning, match="stopped after 1 iterations before it converged"):
        model = method(max_iter=1).fit(logits, labels)
    assert not model.fit_info_.converged


def test_an_end_of_the_temperature_range_is_told():
    logits = np.eye(3)[[0, 1, 2]] * 5.0
    with pytest.warns(CalibrationWarning, match="VectorScaling: the best temperature"):
        model = VectorScaling().fit(logits, [0, 1, 2])
    assert not model.fit_info_.converged


@pytest.mark.parametrize("value", [-1.0, np.inf, "strong", None])
def test_bad_penalties_are_refused(value):
    with pytest.raises(ValueError, match="slope_penalty must be 'auto' or at least 0"):
        VectorScaling(slope_penalty=value).fit(*_some_logits(20, 3))


def test_bad_iterations_are_refused():
    with pytest.raises(ValueError, match="max_iter must be a whole number of at least 1, got 0"):
        MatrixScaling(max_iter=0).fit(*_some_logits(20, 3))


def test_progress_is_shown_on_request(capsys, monkeypatch):
    monkeypatch.setattr("calibrant.common.progress.PATIENCE", 0.0)
    VectorScaling(progress=True).fit(*_some_logits(100, 4))
    assert capsys.readouterr().out == ""
