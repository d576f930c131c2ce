"""Array kinds: what goes in comes out, and the kind never changes the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import ETS, PTS, TS, LinearPTS, TemperatureProfile, Uncalibrated, metrics
from calibrant.calibrators.profile.log_partition import NODES, Workspace, tabulate, tabulate_tile
from row_functions import log_softmax, softmax, top_k

torch = pytest.importorskip("torch")
import array_api_compat.numpy as numpy_namespace  # noqa: E402
import array_api_compat.torch as torch_namespace  # noqa: E402

METHODS = ("predict_proba", "predict_log_proba", "predict", "temperature", "transform")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def example(rows: int = 120, classes: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = rng.uniform(0.5, 4.0, (rows, 1)) * rng.standard_normal((rows, classes))
    return logits, (logits / 1.7 + rng.gumbel(size=logits.shape)).argmax(axis=1)


CALIBRATORS = {
    "base": Uncalibrated(),
    "ts": TS(),
    "ets": ETS(),
    "pts": PTS(members=2, penalty=1.0),
    "pts, paper": PTS(recipe="paper", steps=5),
    "pts-linear": LinearPTS(penalty=1.0),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    logits, labels = example()
    return {name: cal.fit(logits, labels) for name, cal in CALIBRATORS.items()}


@pytest.fixture
def as_on_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat torch tensors as if they did not lie in main memory: the generic code runs."""

    def only_numpy(array: Any) -> bool:
        return isinstance(array, np.ndarray)

    monkeypatch.setattr("calibrant.calibrators.profile.temperature_profile.on_host", only_numpy)
    monkeypatch.setattr("calibrant.calibrators._prediction.on_host", only_numpy)


# --- predictions ------------------------------------------------------------------------------


def working(dtype: str) -> Any:
    return torch.float64 if dtype == "float64" else torch.float32


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CALIBRATORS)
def test_torch_in_torch_out(name, dtype, fitted):
    logits = torch.tensor(example()[0]).to(getattr(torch, dtype))
    plain = logits.to(working(dtype)).numpy()
    for method in METHODS:
        if not hasattr(fitted[name], method):
            continue
        result = getattr(fitted[name], method)(logits)
        assert isinstance(result, torch.Tensor)
        assert result.device == logits.device
        assert result.dtype == (torch.int64 if method == "predict" else working(dtype))
        np.testing.assert_array_equal(result.numpy(), getattr(fitted[name], method)(plain))


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_numpy_in_numpy_out(name, dtype, fitted):
    logits = (2.0 * example()[0]).astype(dtype)
    wide = np.float64 if dtype in (np.float64, np.int32) else np.float32
    for method in METHODS:
        if not hasattr(fitted[name], method):
            continue
        result = getattr(fitted[name], method)(logits)
        assert type(result) is np.ndarray
        assert result.dtype == (np.int64 if method == "predict" else wide)
        assert result.shape[0] == len(logits)
        np.testing.assert_array_equal(result, getattr(fitted[name], method)(logits.astype(wide)))


@pytest.mark.usefixtures("as_on_an_accelerator")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CALIBRATORS)
def test_the_generic_code_agrees(name, dtype, fitted):
    logits = torch.tensor(example()[0]).to(getattr(torch, dtype))
    logits[3, 2] = -torch.inf
    plain = logits.to(working(dtype)).numpy()
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    for method in METHODS:
        if not hasattr(fitted[name], method):
            continue
        result = getattr(fitted[name], method)(logits)
        assert isinstance(result, torch.Tensor)
        assert result.dtype == (torch.int64 if method == "predict" else working(dtype))
        expected = getattr(fitted[name], method)(plain)
        np.testing.assert_allclose(result.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("as_on_an_accelerator")
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_generic_code_refuses_the_same(value, fitted):
    logits = torch.tensor(example()[0])
    logits[47, 2] = value
    with pytest.raises(ValueError, match=f"got {value} at row 47, class 2"):
        fitted["ts"].predict_proba(logits)
    with pytest.raises(ValueError, match=f"got {value} at row 47, class 2"):
        TS().fit(logits, np.zeros(120, int))


def test_lists_become_numpy(fitted):
    logits, _ = example()
    result = fitted["ts"].predict_proba(logits.tolist())
    np.testing.assert_array_equal(result, fitted["ts"].predict_proba(logits))


@pytest.mark.parametrize("name", CALIBRATORS)
def test_no_input_is_written_to(name, fitted):
    for logits in (example()[0], torch.tensor(example()[0])):
        before = np.asarray(logits).copy()
        for method in METHODS:
            if hasattr(fitted[name], method):
                getattr(fitted[name], method)(logits)
        TemperatureProfile.from_logits(logits, np.zeros(120, int))
        np.testing.assert_array_equal(np.asarray(logits), before)


def test_a_read_only_array_is_enough(fitted):
    logits, labels = example()
    logits.setflags(write=False)
    assert fitted["pts"].predict_proba(logits).flags.writeable
    TS().fit(logits, labels)


@pytest.mark.parametrize(
    "view",
    [lambda z: z[:, ::2], lambda z: z[::3], lambda z: z.T.contiguous().T, lambda z: z[:5, 1:4]],
    ids=["columns", "rows", "transposed", "window"],
)
def test_strided_tensors(view, fitted):
    logits = view(torch.tensor(example(40, 12)[0]))
    labels = np.zeros(len(logits), int)
    base = Uncalibrated().fit(logits, labels)
    result = base.predict_proba(logits)
    np.testing.assert_array_equal(result.numpy(), base.predict_proba(logits.numpy()))
    one, other = (TemperatureProfile.from_logits(z, labels) for z in (logits, logits.numpy()))
    assert one.nll(1.3) == other.nll(1.3)


def test_tensors_that_require_gradients(fitted):
    logits = torch.tensor(example()[0], requires_grad=True)
    result = fitted["pts"].predict_proba(logits)
    expected = fitted["pts"].predict_proba(logits.detach().numpy())
    np.testing.assert_array_equal(result.detach().numpy(), expected)
    assert TS().fit(logits, example()[1]).temperature_ == TS().fit(*example()).temperature_


def test_memory_mapped_files(tmp_path, fitted):
    logits, labels = example()
    np.save(tmp_path / "z.npy", logits.astype(np.float16))
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    result = fitted["pts"].predict_proba(mapped)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, fitted["pts"].predict_proba(np.array(mapped)))
    one, other = (TS().fit(z, labels) for z in (mapped, np.array(mapped)))
    assert one.temperature_ == other.temperature_


def test_one_dimensional_tensors_are_binary_scores():
    scores = torch.tensor([-2.0, 0.5, 3.0])
    ts = TS().fit(scores, [0, 0, 1])
    pairs = torch.stack([torch.zeros(3), scores], dim=1)
    np.testing.assert_array_equal(ts.predict_proba(scores).numpy(), ts.predict_proba(pairs).numpy())


# --- fits and metrics -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("classes", [6, 100])
def test_profiles_of_tensors(classes, dtype):
    logits, labels = example(classes=classes)
    tensor = torch.tensor(logits).to(getattr(torch, dtype))
    plain = tensor.to(working(dtype)).numpy()
    one = TemperatureProfile.from_logits(tensor, torch.tensor(labels))
    other = TemperatureProfile.from_logits(plain, labels)
    for temperature in (0.1, 1.0, 30.0):
        np.testing.assert_array_equal(one.row_nll(temperature), other.row_nll(temperature))


@pytest.mark.usefixtures("as_on_an_accelerator")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("classes", [6, 100, 3000])
def test_profiles_by_the_generic_code(classes, dtype):
    logits, labels = example(classes=classes)
    logits[5, (labels[5] + 1) % classes] = -np.inf
    logits[6] = 2.0
    tensor = torch.tensor(logits).to(getattr(torch, dtype))
    plain = tensor.to(working(dtype)).numpy()
    one = TemperatureProfile.from_logits(tensor, torch.tensor(labels))
    other = TemperatureProfile.from_logits(plain, labels)
    for temperature in (1e-9, 0.06, 0.3, 1.0, 7.0, 45.0, 1e9):
        for name in ("row_nll", "row_brier"):
            a, b = (getattr(profile, name)(temperature) for profile in (one, other))
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(one.finite_classes, other.finite_classes)
    np.testing.assert_allclose(one.top_logits(), other.top_logits(), rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("as_on_an_accelerator")
def test_probabilities_by_the_generic_code():
    logits, labels = example()
    probs = Uncalibrated().fit(logits, labels).predict_proba(logits)
    probs[2] = 0.0
    probs[2, labels[2]] = 1.0
    one = TemperatureProfile.from_probs(torch.tensor(probs), labels)
    other = TemperatureProfile.from_probs(probs, labels)
    np.testing.assert_allclose(one.row_nll(2.0), other.row_nll(2.0), atol=1e-6)
    ts = TS(input="probs").fit(probs, labels)
    np.testing.assert_allclose(
        ts.predict_proba(torch.tensor(probs)).numpy(), ts.predict_proba(probs), atol=1e-12
    )


@pytest.mark.parametrize("name", CALIBRATORS)
def test_fits_on_tensors_are_fits_on_arrays(name, fitted):
    logits, labels = example()
    weight = np.random.default_rng(1).random(120)
    calibrator = type(fitted[name])(**fitted[name].get_params())
    calibrator.fit(torch.tensor(logits), torch.tensor(labels), sample_weight=torch.tensor(weight))
    plain = type(calibrator)(**calibrator.get_params()).fit(logits, labels, sample_weight=weight)
    np.testing.assert_array_equal(calibrator.predict_proba(logits), plain.predict_proba(logits))


def test_labels_may_be_tensors_of_any_kind():
    logits, labels = example()
    expected = TS().fit(logits, labels).temperature_
    one_hot = torch.nn.functional.one_hot(torch.tensor(labels), 6)
    for same in (torch.tensor(labels).to(torch.uint8), one_hot, one_hot.bool(), one_hot.float()):
        assert TS().fit(logits, same).temperature_ == expected


@pytest.mark.parametrize("metric", ["accuracy", "nll", "brier", "ece"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_metrics_of_tensors(metric, dtype):
    logits, labels = example()
    probs = torch.softmax(torch.tensor(logits), dim=1).to(getattr(torch, dtype))
    plain = probs.to(working(dtype)).numpy()
    function = getattr(metrics, metric)
    if dtype == "bfloat16":  # its rows do not sum to 1 closely enough to be probabilities
        with pytest.raises(ValueError, match="must sum to 1"):
            function(probs, torch.tensor(labels))
        return
    result = function(probs, torch.tensor(labels), sample_weight=torch.ones(120))
    assert type(result) is float
    assert result == pytest.approx(function(plain, labels), rel=1e-6)


# --- the numerics in both namespaces ----------------------------------------------------------


@pytest.mark.parametrize("spread", [1e-3, 3.0, 1e4])
@pytest.mark.parametrize("classes", [5, 64, 2000])
def test_tabulate_is_the_same_table_in_any_namespace(classes, spread):
    rng = np.random.default_rng(0)
    logits = spread * rng.standard_normal((30, classes))
    logits[3, 1] = -np.inf
    logits[4] = 0.0
    gaps = (logits - logits.max(axis=1, keepdims=True)).astype(np.float32)
    expected = tabulate_tile(gaps, Workspace(*gaps.shape))
    for result in (
        tabulate(torch.tensor(gaps), torch_namespace).numpy(),
        tabulate(gaps, numpy_namespace),
    ):
        assert result.shape == (30, NODES, 3)
        assert result.dtype == np.float32
        # float32 sums over 2,000 classes, in an order that depends on the machine
        np.testing.assert_allclose(result[..., 0], expected[..., 0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(result[..., 1], expected[..., 1], rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(result[..., 2], expected[..., 2], rtol=1e-3, atol=2e-3)


def test_row_functions_in_both_namespaces():
    logits = example()[0]
    logits[0, 1:] = -np.inf
    tensor, temperature = torch.tensor(logits), np.linspace(0.1, 9.0, 120)
    for function in (softmax, log_softmax):
        for t in (0.7, temperature):
            other = function(tensor, torch.tensor(t) if isinstance(t, np.ndarray) else t)
            np.testing.assert_allclose(other.numpy(), function(logits, t), rtol=1e-12, atol=1e-14)
    for k in (1, 3, 6):
        np.testing.assert_array_equal(top_k(tensor, k).numpy(), top_k(logits, k))


def test_top_k_fills_up_with_the_smallest_finite_value():
    logits = np.array([[1.0, -np.inf, 5.0, -np.inf], [4.0, 3.0, 2.0, 1.0]])
    expected = [[5.0, 1.0, 1.0], [4.0, 3.0, 2.0]]
    np.testing.assert_array_equal(top_k(logits, 3), expected)
    np.testing.assert_array_equal(top_k(torch.tensor(logits), 3).numpy(), expected)


def test_kinds_that_are_no_numbers_are_refused():
    for tensor in (torch.ones((4, 3), dtype=torch.bool), torch.ones((4, 3), dtype=torch.complex64)):
        with pytest.raises(TypeError, match="logits must be real numbers, got dtype"):
            calibrant.TS().fit(tensor, [0, 1, 2, 0])
