"""Modules give what `predict_proba` gives; profiles of a model's logits need no logits kept."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant.calibrators import (
    BayesianBinning,
    Calibrator,
    DiagonalOrderPreserving,
    DirichletCalibration,
    HistogramBinning,
    IsotonicOneVsAll,
    IsotonicOneVsAllTS,
    MatrixScaling,
    MultiClassIsotonic,
    PlattBinner,
    PlattScaling,
    SplineCalibration,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    VectorScaling,
)
from hard_logits import adversarial, labelled

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from calibrant.torch import CalibratedModule, collect_logits, to_module  # noqa: E402

METHODS: dict[str, Callable[[], Calibrator]] = {
    "base": calibrant.Uncalibrated,
    "ts": calibrant.TS,
    "ets": calibrant.ETS,
    "pts": lambda: calibrant.PTS(penalty=0.01),
    "pts-logits": lambda: calibrant.PTS(penalty=0.01, inputs="logits", hidden=(4,), members=2),
    "pts-paper": lambda: calibrant.PTS(recipe="paper", steps=300, learning_rate=0.01),
    "pts-clipped": lambda: calibrant.PTS(recipe="paper", steps=50, clip_logits=True),
    "pts-linear": lambda: calibrant.LinearPTS(penalty=0.01),
    "pts-top-1": lambda: calibrant.PTS(penalty=0.01, top_k=1),
    "hts": lambda: calibrant.calibrator("hts", penalty=0.01),
    "smart": lambda: calibrant.calibrator("smart", penalty=0.01),
    "vector": VectorScaling,
    "matrix": MatrixScaling,
    "dirichlet": DirichletCalibration,
    "structured-vector": StructuredVectorScaling,
    "structured-matrix": StructuredMatrixScaling,
    "diag": DiagonalOrderPreserving,
    "irm": MultiClassIsotonic,
    "irm-raw": lambda: MultiClassIsotonic(normalize=False),
    "spline": SplineCalibration,
    "histogram-top-label": lambda: HistogramBinning("top-label", n_bins=7),
    "diag-authors": lambda: DiagonalOrderPreserving(hidden=(4,), quadrature="authors", nodes=8),
    "irova": IsotonicOneVsAll,
    "irova-ts": IsotonicOneVsAllTS,
    "irova-raw": lambda: IsotonicOneVsAll(normalize=False),
    "histogram": HistogramBinning,
    "bbq": BayesianBinning,
    "pbmc": PlattBinner,
}
WITH_TEMPERATURE = {m for m in METHODS if m.startswith(("base", "ts", "pts", "hts", "smart"))}
AFFINE = {"vector", "matrix", "dirichlet", "structured-vector", "structured-matrix"}
TABLES = {"irova", "irova-ts", "irova-raw", "histogram", "bbq", "pbmc"}
NOT_PRESERVING = AFFINE | TABLES | {"pts-clipped", "diag-authors"}
STEPS = {"histogram-top-label", "histogram", "bbq", "pbmc"}  # no gradient through a step
CLASSES = 11


@cache
def fitted(method: str, classes: int = CLASSES) -> Calibrator:
    return METHODS[method]().fit(*labelled(classes))


def assert_keeps_arg_max(probs: np.ndarray, scores: np.ndarray) -> None:
    top = scores.argmax(axis=1)[:, None]
    assert np.all(probs <= np.take_along_axis(probs, top, axis=1))


# --- modules ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_module_agrees_on_adversarial_rows(method: str, dtype: str) -> None:
    fit, scores = fitted(method), adversarial(CLASSES, np.dtype(dtype).type)
    module, tensor = to_module(fit), torch.from_numpy(scores)
    probs = module(tensor)
    assert probs.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    np.testing.assert_allclose(probs, fit.predict_proba(scores), rtol=0, atol=1e-5)
    assert hasattr(module, "temperature") == (method in WITH_TEMPERATURE)
    if method in WITH_TEMPERATURE:
        expected = fit.temperature(scores)
        np.testing.assert_allclose(module.temperature(tensor), expected, rtol=1e-4)
    if method not in NOT_PRESERVING:
        assert_keeps_arg_max(probs.numpy(), scores)


@pytest.mark.parametrize("method", METHODS)
def test_logarithms(method: str) -> None:
    fit, scores = fitted(method), adversarial(CLASSES)
    logs = to_module(fit).log_proba(torch.from_numpy(scores)).numpy()
    expected = fit.predict_log_proba(scores)
    np.testing.assert_allclose(logs, expected, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_exported_program_agrees(method: str) -> None:
    module, scores = to_module(fitted(method)), torch.from_numpy(adversarial(CLASSES))
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(module, (scores[:20],), dynamic_shapes=({0: batch},))
    torch.testing.assert_close(program.module()(scores), module(scores), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler has its own
@pytest.mark.parametrize("method", METHODS)
def test_compiled_module_agrees(method: str) -> None:
    module, scores = to_module(fitted(method)), torch.from_numpy(adversarial(CLASSES))
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(scores), module(scores), rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_state_dict_round_trip(method: str) -> None:
    module, other = to_module(fitted(method)), to_module(fitted(method))
    for buffer in other.buffers():
        buffer.zero_()
    other.load_state_dict(module.state_dict())
    scores = torch.from_numpy(adversarial(CLASSES))
    assert torch.equal(other(scores), module(scores))
    assert list(module.parameters()) == []


@pytest.mark.parametrize("method", METHODS)
def test_half_precision_does_not_round_the_calibrator(method: str) -> None:
    module, scores = to_module(fitted(method)), torch.from_numpy(adversarial(CLASSES))
    expected = module(scores)
    assert torch.equal(to_module(fitted(method)).half()(scores), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = module(scores)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, expected)
    assert all(buffer.is_meta for buffer in module.to("meta").buffers())


@pytest.mark.parametrize("method", sorted(set(METHODS) - STEPS))
def test_gradients_agree_with_differences(method: str) -> None:
    rng = np.random.default_rng(3)
    logits, weight = torch.from_numpy(rng.standard_normal((6, CLASSES)) * 3), torch.arange(11.0)
    logits[0, 2:5] = -torch.inf
    module = to_module(fitted(method))

    def value(z: Any) -> Any:
        return (module(z) * weight).sum()

    z = logits.clone().requires_grad_()
    value(z).backward()
    assert bool(torch.isfinite(z.grad).all())
    step = 1e-6 * torch.from_numpy(rng.standard_normal((6, CLASSES)))
    difference = value(logits + step) - value(logits - step)
    assert difference.item() == pytest.approx(2.0 * (z.grad * step).sum().item(), rel=1e-4)


def test_a_replica_reads_its_own_buffers() -> None:
    module, scores = to_module(fitted("pts")), torch.from_numpy(adversarial(CLASSES))
    replica = module._replicate_for_data_parallel()
    replica._buffers = {name: torch.zeros_like(b) for name, b in module._buffers.items()}
    assert not torch.equal(replica(scores), module(scores))


def test_sequences_and_masks() -> None:
    fit, scores = fitted("pts"), adversarial(CLASSES)
    module = to_module(fit)
    stacked = torch.from_numpy(scores).reshape(10, 4, 25, CLASSES)
    assert torch.equal(module(stacked).reshape(-1, CLASSES), module(torch.from_numpy(scores)))
    assert module.temperature(stacked).shape == (10, 4, 25)
    assert bool((module(stacked)[stacked == -torch.inf] == 0.0).all())


@pytest.mark.parametrize("method", ["ets", "pts", "hts", "irm"])
def test_probabilities_as_input(method: str) -> None:
    logits, labels = labelled(5)
    probs = calibrant.Uncalibrated().fit(logits, labels).predict_proba(logits)
    fit = METHODS[method]().set_params(input="probs").fit(probs, labels)
    probs[:50, 2:4], probs[50:60] = 0.0, np.eye(5)[1]
    probs /= probs.sum(axis=1, keepdims=True)
    out = to_module(fit)(torch.from_numpy(probs))
    np.testing.assert_allclose(out, fit.predict_proba(probs), atol=1e-5)


@given(
    classes=st.integers(2, 70),
    k=st.integers(1, 90),
    shape=st.lists(st.integers(1, 5), max_size=3),
    seed=st.integers(0, 99),
)
def test_any_shape(classes: int, k: int, shape: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [min(k, classes), *rng.integers(1, 6, rng.integers(0, 3)), 1]
    weights = []
    for fan_in, fan_out in pairwise(sizes):
        weights += [rng.standard_normal((fan_in, fan_out)), rng.standard_normal(fan_out)]
    fit = calibrant.PTS.from_weights(weights)
    rows = adversarial(classes)[rng.integers(0, 1000, int(np.prod(shape)))]
    probs = to_module(fit)(torch.from_numpy(rows).reshape(*shape, classes))
    assert probs.shape == (*shape, classes)
    flat = probs.reshape(-1, classes).numpy()
    np.testing.assert_allclose(flat, fit.predict_proba(rows), rtol=0, atol=1e-5)
    assert_keeps_arg_max(flat, rows)


@pytest.mark.parametrize("kind", [PlattScaling])
def test_two_classes(kind: type[Calibrator]) -> None:
    fit, scores = kind().fit(*labelled(2)), adversarial(2)
    probs = to_module(fit)(torch.from_numpy(scores))
    np.testing.assert_allclose(probs, fit.predict_proba(scores), rtol=0, atol=1e-5)


def test_refusals() -> None:
    with pytest.raises(TypeError, match="a fitted calibrator of calibrant is needed, got int"):
        to_module(3)
    with pytest.raises(NotFittedError, match="not fitted"):
        to_module(calibrant.TS())
    anywhere = calibrant.PTS.from_weights([np.zeros((10, 1)), np.ones(1)])
    with pytest.raises(ValueError, match="the calibrator reads the top 10 logits, got 4 classes"):
        to_module(anywhere)(torch.zeros(2, 4))
    for method in ("ts", "pts", "irm"):
        with pytest.raises(ValueError, match="fitted with 11 classes, got 4 along axis -1"):
            to_module(fitted(method))(torch.zeros(2, 4))


# --- other dimensions -------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_images_with_the_classes_in_the_second_dimension(method: str) -> None:
    fit = fitted(method)
    rows = torch.from_numpy(adversarial(CLASSES)[:240])
    images = rows.reshape(2, 12, 10, CLASSES).movedim(-1, 1)
    module = to_module(fit, class_axis=1)
    expected = to_module(fit)(rows).reshape(2, 12, 10, CLASSES).movedim(-1, 1)
    for scores in (images, images.contiguous(), images.to(memory_format=torch.channels_last)):
        probs = module(scores)
        assert probs.shape == images.shape
        torch.testing.assert_close(probs, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(module.log_proba(images).exp(), expected, rtol=1e-3, atol=1e-5)
    if hasattr(module, "temperature"):
        assert module.temperature(images).shape == (2, 12, 10)
    torch.testing.assert_close(to_module(fit, class_axis=-3)(images), expected, rtol=0, atol=1e-6)
    assert "class_axis=1" in repr(module)


def test_images_are_never_normalised_along_the_wrong_dimension() -> None:
    module = to_module(fitted("ts"))
    remedy = "where the classes are axis 1, say class_axis=1"
    with pytest.raises(ValueError, match=rf"got 8 along axis -1 .*\(2, 11, 7, 8\): {remedy}"):
        module(torch.randn(2, CLASSES, 7, 8))
    with pytest.raises(ValueError, match=f"may be the 11 classes: {remedy}; .* class_axis=-1"):
        module(torch.randn(2, CLASSES, 7, CLASSES))
    last = to_module(fitted("ts"), class_axis=-1)
    assert last(torch.randn(2, CLASSES, 7, CLASSES)).shape == (2, CLASSES, 7, CLASSES)
    assert module(torch.randn(2, CLASSES, CLASSES)).shape == (2, CLASSES, CLASSES)  # sequences
    with pytest.raises(ValueError, match="fitted with 11 classes, got 7 along axis -2"):
        to_module(fitted("ts"), class_axis=1)(torch.randn(2, 7, CLASSES))
    with pytest.raises(ValueError, match=r"an axis of scores of shape \(2, 11\), got 2"):
        to_module(fitted("ts"), class_axis=2)(torch.randn(2, CLASSES))
    with pytest.raises(ValueError, match=r"an axis of scores of shape \(\), got -1"):
        module(torch.tensor(1.0))


def test_one_row_alone_is_a_row() -> None:
    row = torch.randn(CLASSES)
    torch.testing.assert_close(
        to_module(fitted("pts"))(row), to_module(fitted("pts"))(row[None])[0]
    )


# --- probabilities in place of logits ---------------------------------------------------------


def test_probabilities_for_a_module_of_logits() -> None:
    probs = torch.from_numpy(adversarial(CLASSES)[:50]).softmax(-1)
    for scores in (probs, probs[0], probs.reshape(5, 10, CLASSES)):
        module = to_module(fitted("ts"))
        with pytest.warns(calibrant.CalibrationWarning, match="looks like probabilities") as told:
            module(scores)
        assert told[0].filename == __file__
        module(scores)  # told once
    image = probs[:40].reshape(1, 5, 8, CLASSES).movedim(-1, 1)
    with pytest.warns(calibrant.CalibrationWarning, match="looks like probabilities"):
        to_module(fitted("ts"), class_axis=1)(image)


def test_looking_at_the_scores_breaks_no_transform() -> None:
    rows = torch.randn(6, CLASSES)
    module = to_module(fitted("ts"))
    torch.testing.assert_close(torch.func.vmap(to_module(fitted("ts")))(rows), module(rows))


def test_a_model_that_ends_in_a_softmax() -> None:
    layers = nn.Linear(4, CLASSES), nn.Softmax(dim=-1)
    with pytest.warns(calibrant.CalibrationWarning, match=r"ends in a softmax: .* model\[:-1\]"):
        CalibratedModule(nn.Sequential(*layers), fitted("ts"))
    with pytest.warns(calibrant.CalibrationWarning, match="ends in a softmax"):
        CalibratedModule(nn.Sequential(nn.ReLU(), nn.Sequential(*layers)), fitted("ts"))
    CalibratedModule(nn.Sequential(*layers)[:-1], fitted("ts"))
    CalibratedModule(nn.Sequential(nn.Linear(4, CLASSES), nn.LogSoftmax(dim=-1)), fitted("ts"))
    CalibratedModule(nn.Sequential(*layers), fitted("ts"), logits=torch.log)


# --- a model with its calibrator --------------------------------------------------------------


class Named(nn.Module):
    """Returns a mapping, as language models do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, CLASSES)

    def forward(self, features: Any) -> dict[str, Any]:
        return {"logits": self.layer(features), "other": None}


def test_calibrated_module() -> None:
    torch.manual_seed(0)
    model, fit, x = nn.Linear(4, CLASSES), fitted("pts"), torch.randn(20, 4)
    calibrated = CalibratedModule(model, fit)
    np.testing.assert_allclose(
        calibrated(x).detach(), fit.predict_proba(model(x).detach()), atol=1e-5
    )
    calibrated(x).max(-1).values.sum().backward()
    assert model.weight.grad is not None
    named = Named()
    named.layer.load_state_dict(model.state_dict())
    assert torch.equal(CalibratedModule(named, to_module(fit))(features=x), calibrated(x))
    tupled = CalibratedModule(nn.Sequential(), fit, logits=lambda out: out[0])
    assert torch.equal(tupled((model(x),)), calibrated(x))
    with pytest.raises(TypeError, match="say how to take them with logits="):
        CalibratedModule(nn.Sequential(), fit)((x,))


# --- profiles from a data loader --------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_collect_is_the_profile_of_all_logits() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 70))
    model[1].eval()  # a frozen layer stays frozen
    x, y = torch.randn(300, 4), torch.randint(70, (300,))
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=64)
    profile = collect_logits(model, data, progress=False)
    assert [module.training for module in model] == [True, False, True, True]
    model.eval()
    expected = calibrant.TemperatureProfile.from_logits(model(x).detach(), y)
    assert len(profile) == 300
    assert profile.nll(1.3) == pytest.approx(expected.nll(1.3), rel=1e-6)
    np.testing.assert_allclose(profile.top_logits(), expected.top_logits(), rtol=1e-5, atol=1e-5)
    assert calibrant.PTS(penalty=10.0).fit(profile).n_classes_ == 70


def sequences() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model, x = nn.Linear(4, 9), torch.randn(6, 5, 4)
    labels = torch.randint(9, (6, 5))
    labels[:, 3] = -100
    labels[2] = -100
    return model, x, labels


def test_collect_sequences_with_ignored_labels() -> None:
    model, x, labels = sequences()
    profile = collect_logits(model, [(x[:4], labels[:4]), (x[4:], labels[4:])])
    kept = labels != -100
    expected = calibrant.TemperatureProfile.from_logits(model(x).detach()[kept], labels[kept])
    np.testing.assert_allclose(profile.row_nll(1.0), expected.row_nll(1.0), rtol=1e-5)


def test_collect_shifts_for_language_models() -> None:
    model, x, labels = sequences()
    profile = collect_logits(model, iter([(x, labels)]), shift=True)
    kept = labels[:, 1:] != -100
    logits = model(x).detach()[:, :-1][kept]
    expected = calibrant.TemperatureProfile.from_logits(logits, labels[:, 1:][kept])
    np.testing.assert_allclose(profile.row_nll(1.0), expected.row_nll(1.0), rtol=1e-5)


def test_collect_takes_mappings_and_other_batches() -> None:
    model, x = Named(), torch.randn(12, 4)
    y = torch.randint(CLASSES, (12,))
    profile = collect_logits(model, [{"features": x, "labels": y}])
    triples = collect_logits(
        model, [(y, x, "id")], split=lambda batch: ({"features": batch[1]}, batch[0])
    )
    picked = collect_logits(model, [(x, y)], logits=lambda out: out["logits"].bfloat16())
    assert profile.nll(1.0) == pytest.approx(triples.nll(1.0))
    assert profile.nll(1.0) == pytest.approx(picked.nll(1.0), rel=1e-2)


def test_collect_stops_at_max_rows() -> None:
    seen = []

    def batches() -> Any:
        for number in range(100):
            seen.append(number)
            yield torch.randn(7, 4), torch.randint(3, (7,))

    assert len(collect_logits(nn.Linear(4, 3), batches(), max_rows=18)) == 18
    assert seen == [0, 1, 2]


@pytest.mark.parametrize(
    ("batch", "options", "error", "message"),
    [
        ((torch.zeros(2, 4), torch.tensor([0, 9])), {}, ValueError, r"0\.\.2, got 9 at row 1"),
        ((torch.zeros(2, 4), torch.tensor([[0, 1]])), {}, ValueError, "without their last dim"),
        ((torch.zeros(2, 4), torch.tensor([-100, -100])), {}, ValueError, "no rows were collected"),
        ((torch.zeros(2, 4),), {}, TypeError, "with split="),
        ((torch.zeros(2, 4), torch.tensor([0, 1])), {"max_rows": 0}, ValueError, "got 0"),
        ((torch.zeros(2, 4), torch.tensor([0, 1])), {"shift": True}, ValueError, "shift=True"),
    ],
)
def test_collect_refusals(batch: Any, options: dict[str, Any], error: Any, message: str) -> None:
    model = nn.Linear(4, 3)
    with pytest.raises(error, match=message):
        collect_logits(model, [batch], **options)
    assert model.training


LANGUAGE_MODEL = textwrap.dedent(
    """
    import pathlib, torch, calibrant
    from calibrant.torch import collect_logits
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(50_000, 16), torch.nn.Linear(16, 50_000))
    tokens = torch.randint(50_000, (4, 512))
    with torch.no_grad():
        labels = torch.stack([model(row).argmax(-1) for row in tokens])
        labels[:, 1::2] = torch.randint(50_000, (4, 256))
        labels[:, :16] = -100
    profile = collect_logits(model, [(tokens, labels)], progress=False)
    assert len(profile) == 4 * 496, profile
    pts = calibrant.PTS(penalty=10.0).fit(profile)
    assert pts.fit_info_.after <= pts.fit_info_.before
    # getrusage would count what the parent process held when it started this one
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    print(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    """
)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_language_model_needs_little_memory() -> None:
    """Logits (4, 512, 50,000) are 410 MB; the peak includes them, PyTorch and the fit."""
    done = subprocess.run(
        [sys.executable, "-c", LANGUAGE_MODEL], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) / 1e6 < 1.5, f"{done.stdout} kB"
