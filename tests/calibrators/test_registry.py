"""Every registered calibrator passes the same checks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.calibration import _SigmoidCalibration
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

import calibrant
from calibrant.calibrators import ALIASES, REGISTRY, LogitCalibrator, register

METHODS = sorted(REGISTRY)
TWO_CLASS_METHODS = [name for name in METHODS if REGISTRY[name].two_classes_only]
MULTI_CLASS = [name for name in METHODS if name not in TWO_CLASS_METHODS]
PRESERVING = [name for name in METHODS if REGISTRY[name]().accuracy_preserving]


def sample(name, rows=300, seed=0, classes=5):
    """Over-confident logits for a method, with two classes where it wants two."""
    classes = 2 if name in TWO_CLASS_METHODS else classes
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.standard_normal((rows, classes))
    labels = np.argmax(logits / 2.0 + rng.gumbel(size=logits.shape), axis=1)
    return logits, labels


def fitted(name, logits, labels, **parameters):
    """A fit whose warnings about the data do not count here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        return calibrant.calibrator(name, **parameters).fit(logits, labels)


def assert_distribution(probs):
    assert np.all(np.isfinite(probs))
    assert np.all(probs >= 0.0)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_follows_the_estimator_rules(name):
    model = calibrant.calibrator(name)
    again = clone(model)
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert model.set_params(input="probs").input == "probs"
    with pytest.raises(NotFittedError):
        again.predict_proba(sample(name)[0])
    with pytest.raises(NotFittedError):
        again.predict(sample(name)[0])
    logits, labels = sample(name)
    assert again.fit(logits, labels) is again
    assert again.n_classes_ == logits.shape[1]
    assert again.fit_info_.converged in (True, False)
    assert isinstance(again.accuracy_preserving, bool)
    assert again.accuracy_preserving >= model.accuracy_preserving  # what chooses may turn out to
    said = " ".join((type(model).__doc__ or "").split())
    assert "reserve" in said, "the docstring must say whether accuracy is preserved"


@pytest.mark.parametrize("name", METHODS)
def test_saved_and_loaded_it_gives_the_same(name, tmp_path):
    logits, labels = sample(name)
    model = fitted(name, logits, labels)
    calibrant.save(model, tmp_path / "model.safetensors")
    loaded = calibrant.load(tmp_path / "model.safetensors")
    assert loaded.get_params() == model.get_params()
    assert loaded.fit_info_ == model.fit_info_
    np.testing.assert_array_equal(loaded.predict_proba(logits), model.predict_proba(logits))
    np.testing.assert_array_equal(loaded.predict(logits), model.predict(logits))


@pytest.mark.parametrize("name", METHODS)
def test_a_fit_can_be_repeated(name):
    logits, labels = sample(name)
    once, twice = (fitted(name, logits, labels).predict_proba(logits) for _ in range(2))
    np.testing.assert_array_equal(once, twice)


@pytest.mark.parametrize("name", METHODS)
def test_single_and_double_precision_agree(name):
    logits, labels = sample(name, rows=1000)
    logits = logits.astype(np.float32)
    model = fitted(name, logits, labels)
    single = model.predict_proba(logits)
    double = model.predict_proba(logits.astype(np.float64))
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    different = np.abs(single - double).max(axis=1) > 1e-4
    assert different.mean() <= 0.01  # a step function may take a rounded score to the next bin


@pytest.mark.parametrize("name", METHODS)
def test_the_kind_of_array_is_kept(name):
    logits, labels = sample(name)
    model = fitted(name, torch.from_numpy(logits).float(), torch.from_numpy(labels))
    probs = model.predict_proba(torch.from_numpy(logits).float())
    assert isinstance(probs, torch.Tensor)
    assert probs.dtype == torch.float32
    expected = model.predict_proba(logits.astype(np.float32))
    np.testing.assert_allclose(probs.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_two_classes_work(name):
    logits, labels = sample("beta")
    model = fitted(name, logits, labels)
    assert_distribution(model.predict_proba(logits))
    scores = logits[:, 1] - logits[:, 0]  # one score of a binary model
    assert_distribution(fitted(name, scores, labels).predict_proba(scores))


@pytest.mark.parametrize("name", TWO_CLASS_METHODS)
def test_more_classes_than_two_are_refused_clearly(name):
    with pytest.raises(ValueError, match="two classes"):
        calibrant.calibrator(name).fit(*sample("ts"))


AWKWARD = {
    "a class without a label": lambda z, y: (z, np.where(y == z.shape[1] - 1, 0, y)),
    "fewer rows than classes": lambda z, y: (z[:3], y[:3]),
    "one row": lambda z, y: (z[:1], y[:1]),
    "the same row often": lambda z, y: (np.repeat(z[:1], 50, axis=0), np.repeat(y[:1], 50)),
    "constant scores": lambda z, y: (np.zeros_like(z), y),
    "one label only": lambda z, y: (z, np.zeros_like(y)),
    "all right": lambda z, y: (z, z.argmax(axis=1)),
    "all wrong": lambda z, y: (z, z.argmin(axis=1)),
    "masked classes": lambda z, y: (_masked(z, y), y),
    "huge logits": lambda z, y: (1e4 * z, y),
    "tiny logits": lambda z, y: (1e-4 * z, y),
}


def _masked(logits, labels):
    """Every third row without one of its classes, which is not the label's."""
    masked = logits.copy()
    rows = np.arange(0, len(masked), 3)
    masked[rows, (labels[rows] + 1) % logits.shape[1]] = -np.inf
    if logits.shape[1] == 2:
        return logits  # a row with one finite class is no longer a question
    return masked


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("name", METHODS)
def test_awkward_data_never_gives_nonsense(name, case):
    logits, labels = AWKWARD[case](*sample(name))
    model = fitted(name, logits, labels)
    for scores in (logits, sample(name, seed=1)[0]):
        assert_distribution(model.predict_proba(scores))
        with np.errstate(divide="ignore"):
            log_probs = model.predict_log_proba(scores)
        assert not np.isnan(log_probs).any()
    masked = np.isneginf(logits)
    assert np.all(model.predict_proba(logits)[masked] == 0.0)


@pytest.mark.parametrize("name", METHODS)
def test_weights_of_one_change_nothing_and_zeros_leave_out(name):
    logits, labels = sample(name)
    plain = fitted(name, logits, labels).predict_proba(logits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        ones = calibrant.calibrator(name).fit(logits, labels, sample_weight=np.ones(len(labels)))
        kept = np.arange(len(labels)) < 200
        part = calibrant.calibrator(name).fit(logits, labels, sample_weight=kept.astype(float))
    np.testing.assert_allclose(ones.predict_proba(logits), plain, atol=1e-9)
    alone = fitted(name, logits[kept], labels[kept])
    np.testing.assert_allclose(part.predict_proba(logits), alone.predict_proba(logits), atol=2e-3)


logit_values = st.one_of(
    st.floats(-30, 30, width=32),
    st.sampled_from([0.0, 1.0, 1.0 + 1e-6, -1e4, 1e4, 88.0, -88.0, 1e-20]),
)


@pytest.mark.filterwarnings("ignore:the array given as logits")  # one row may look like it
@pytest.mark.parametrize("name", PRESERVING)
@given(
    logits=hnp.arrays(np.float32, st.tuples(st.integers(1, 8), st.just(5)), elements=logit_values)
)
def test_no_class_passes_the_arg_max(name, logits):
    model = _fitted_once(name)
    probs = model.predict_proba(logits)
    assert_distribution(probs)
    top = probs[np.arange(len(logits)), logits.argmax(axis=1)]
    assert np.all(probs.max(axis=1) <= top)
    np.testing.assert_array_equal(model.predict(logits), logits.argmax(axis=1))


_CACHE: dict[str, object] = {}


def _fitted_once(name):
    if name not in _CACHE:
        _CACHE[name] = fitted(name, *sample(name))
    return _CACHE[name]


@pytest.mark.parametrize("name", MULTI_CLASS)
def test_temperature_profiles_serve_the_temperature_family_only(name):
    logits, labels = sample(name)
    profile = calibrant.TemperatureProfile.from_logits(logits, labels)
    model = calibrant.calibrator(name)
    if not hasattr(model, "_fit_profile"):
        with pytest.raises(TypeError, match="Profile"):
            model.fit(profile)
        return
    from_profile = model.fit(profile).predict_proba(logits)
    np.testing.assert_allclose(
        from_profile, fitted(name, logits, labels).predict_proba(logits), atol=1e-9
    )


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_other_names_mean_the_same_in_either_case(alias, name):
    assert type(calibrant.calibrator(alias.upper())) is REGISTRY[name]
    assert alias not in REGISTRY
    logits, labels = sample("beta")
    (result,) = calibrant.compare(logits, labels, logits, labels, methods=[alias, name.upper()])
    assert result.method == name
    with pytest.raises(ValueError, match="another calibrator's already"):
        register(alias, REGISTRY[name])


def test_isotonic_and_sigmoid_are_those_of_scikit_learn():
    """On the same scores: probabilities for isotonic regression, log-odds for the sigmoid."""
    logits, labels = sample("beta", rows=400)
    score = logits[:, 1] - logits[:, 0]
    probs = 1.0 / (1.0 + np.exp(-score))
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(probs, labels).predict(probs)
    ours = calibrant.calibrator("isotonic").fit(score, labels).predict_proba(score)[:, 1]
    np.testing.assert_allclose(ours, isotonic, atol=2e-9)
    sigmoid = _SigmoidCalibration().fit(score, labels).predict(score)
    ours = calibrant.calibrator("sigmoid").fit(score, labels).predict_proba(score)[:, 1]
    np.testing.assert_allclose(ours, sigmoid, atol=1e-5)


# --- as scikit-learn sees them ----------------------------------------------------------------


class Nested(LogitCalibrator):
    """A calibrator with a calibrator as a parameter."""

    def __init__(self, inner=None, strength=1.0, input="logits"):  # noqa: A002
        self.inner = inner
        self.strength = strength
        self.input = input

    def _check_parameters(self):
        pass

    def _will_keep_arg_max(self):
        return True

    def _fit_logits(self, data):
        return self.inner._fit_logits(data)


def test_parameters_of_parameters():
    model = Nested(calibrant.calibrator("svs"))
    assert model.get_params(deep=False).keys() == {"inner", "strength", "input"}
    assert model.get_params()["inner__max_iter"] == 500
    assert model.set_params(inner__max_iter=7, strength=2.0).inner.max_iter == 7
    assert repr(model) == "Nested(inner=StructuredVectorScaling(max_iter=7), strength=2.0)"
    again = clone(model)
    assert again.inner is not model.inner
    assert again.get_params()["inner__max_iter"] == 7
    with pytest.raises(ValueError, match="Invalid parameter 'width' for estimator Nested"):
        model.set_params(width=1)


def test_tags_pipelines_and_what_is_not_offered():
    logits, labels = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3
    assert get_tags(calibrant.TS()).requires_fit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        pipe = make_pipeline(FunctionTransformer(), calibrant.TS()).fit(logits, labels)
    np.testing.assert_array_equal(pipe.predict_proba(logits), pipe[-1].predict_proba(logits))
    assert hasattr(calibrant.TS(), "temperature")
    assert not hasattr(calibrant.calibrator("irm"), "temperature")
    with pytest.raises(AttributeError, match="this 'MultiClassIsotonic' has no attribute"):
        calibrant.calibrator("irm").temperature(logits)
    assert "temperature of each row" in calibrant.TS.temperature.__doc__
