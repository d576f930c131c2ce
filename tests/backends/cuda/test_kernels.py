"""The CUDA kernels, run on a CPU: the same sources, the same launches, another compiler."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import TemperatureProfile
from calibrant.calibrators import Calibrator
from calibrant.formulas import ConstantTemperature, NetworkTemperature
from crafting import with_formula
from hard_logits import adversarial, labelled

torch = pytest.importorskip("torch")

from calibrant.backends.cuda import _layout  # noqa: E402
from calibrant.backends.cuda.dispatch import can_compute, plan_of  # noqa: E402
from calibrant.torch import to_module  # noqa: E402
from emulator import COMPILER, emulate  # noqa: E402

METHODS: dict[str, Callable[[], Calibrator]] = {
    "ts": calibrant.TS,
    "ets": calibrant.ETS,
    "pts": lambda: calibrant.PTS(penalty=0.01),
    "pts-logits": lambda: calibrant.PTS(penalty=0.01, inputs="logits", hidden=(4,), members=2),
    "pts-paper": lambda: calibrant.PTS(recipe="paper", steps=300, learning_rate=0.01),
    "pts-wide": lambda: calibrant.PTS(penalty=0.01, hidden=(12, 7), members=3),
    "pts-linear": lambda: calibrant.LinearPTS(penalty=0.01),
    "pts-top-1": lambda: calibrant.PTS(penalty=0.01, top_k=1),
    "hts": lambda: calibrant.calibrator("hts", penalty=0.01),
    "smart": lambda: calibrant.calibrator("smart", penalty=0.01),
}
GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "files").glob("*.safetensors"))
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    emulate(monkeypatch)


@cache
def fitted(method: str, classes: int) -> Calibrator:
    """Fitted on twelve classes: the temperature family takes other numbers of them, too."""
    model = METHODS[method]().fit(*labelled(min(12, classes)))
    return with_formula(model, model.formula_, classes)


def hard(classes: int, dtype: Any = np.float32) -> np.ndarray:
    return adversarial(classes, dtype, rows=40)


def golden_scores(model: Calibrator) -> np.ndarray:
    with np.load(GOLDEN[0].parent / "scores.npz") as scores:
        return scores[f"{model.input_}-{model.n_classes_}"].astype(np.float32)


def assert_agrees(model: Calibrator, scores: np.ndarray) -> None:
    """Probabilities, logarithms and confidence by kernels are those of NumPy."""
    tensor = torch.from_numpy(scores)
    probs = model.predict_proba(scores)
    np.testing.assert_allclose(model.predict_proba(tensor), probs, rtol=0, atol=1e-5)
    confidence, wanted = model.predict_confidence(tensor), model.predict_confidence(scores)
    np.testing.assert_array_equal(confidence.label, wanted.label)
    np.testing.assert_allclose(confidence.probability, wanted.probability, rtol=0, atol=1e-5)
    assert (confidence.temperature is None) == (wanted.temperature is None)
    if wanted.temperature is not None:
        np.testing.assert_allclose(confidence.temperature, wanted.temperature, rtol=1e-4)
        np.testing.assert_array_equal(model.temperature(tensor), confidence.temperature)


# --- the kernels on a CPU -----------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(("method", "classes"), [("pts", 12), ("pts", 200), ("ets", 200)])
def test_kernels_agree_on_adversarial_rows(emulated: None, method: str, classes: int) -> None:
    assert_agrees(fitted(method, classes), hard(classes))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [12, 33, 100, 129, 1_000, 3_000, 40_001])
def test_all_layouts_agree_on_adversarial_rows(emulated: None, method: str, classes: int) -> None:
    assert_agrees(fitted(method, classes), hard(classes)[: 40 if classes < 2_000 else 8])


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("classes", [12, 100, 101, 1_000, 1_002, 1_001])
def test_narrow_floats(emulated: None, classes: int) -> None:
    model, scores = fitted("pts", classes), hard(classes, np.float16)
    assert_agrees(model, scores)
    brain = torch.from_numpy(scores).bfloat16()
    probs = model.predict_proba(brain.float().numpy())
    np.testing.assert_allclose(model.predict_proba(brain), probs, rtol=0, atol=1e-5)


@needs_compiler
def test_modules_take_any_leading_dimensions(emulated: None) -> None:
    model, scores = fitted("pts", 12), hard(12)
    module, tensor = to_module(model), torch.from_numpy(scores).reshape(4, 10, 12)
    probs = model.predict_proba(scores).reshape(4, 10, 12)
    np.testing.assert_allclose(module(tensor), probs, rtol=0, atol=1e-5)
    logs = model.predict_log_proba(scores).reshape(4, 10, 12)
    np.testing.assert_allclose(module.log_proba(tensor), logs, rtol=2e-4, atol=1e-4)
    label, probability, temperature = module.confidence(tensor)
    assert label.shape == probability.shape == temperature.shape == (4, 10)
    np.testing.assert_allclose(probability, probs.max(axis=-1), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(module.temperature(tensor), temperature)


@needs_compiler
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "got nan at row 5, class 3"),
        (np.inf, "got inf at row 5, class 3"),
        (-np.inf, "row 5 is all -inf"),
    ],
)
def test_rows_that_are_no_logits_are_refused(emulated: None, value: float, message: str) -> None:
    scores = torch.zeros(9, 12)
    scores[5, slice(None) if value == -np.inf else 3] = value
    with pytest.raises(ValueError, match=message):
        fitted("pts", 12).predict_proba(scores)
    assert to_module(fitted("pts", 12))(scores)[5].isnan().all()


@needs_compiler
def test_modules_take_classes_along_another_axis(emulated: None) -> None:
    model, scores = fitted("pts", 12), hard(12)
    images = torch.from_numpy(scores).reshape(2, 4, 5, 12).movedim(-1, 1)
    module = to_module(model, class_axis=1)
    probs = model.predict_proba(scores).reshape(2, 4, 5, 12)
    np.testing.assert_allclose(module(images).movedim(1, -1), probs, rtol=0, atol=1e-5)
    assert module.confidence(images).label.shape == module.temperature(images).shape == (2, 4, 5)
    with pytest.raises(ValueError, match="fitted with 12 classes, got 5"):
        to_module(model)(images)


@needs_compiler
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_formula_is_computed_on_a_device(emulated: None, path: Path) -> None:
    """With a kernel or without: chains, tables and steps have none."""
    model = calibrant.load(path)
    given = golden_scores(model)
    assert_agrees(model, given)
    logs = model.predict_log_proba(torch.from_numpy(given))
    np.testing.assert_allclose(logs, model.predict_log_proba(given), rtol=1e-4, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("method", ["ts", "ets", "pts"])
def test_kernels_notice_probabilities(emulated: None, method: str) -> None:
    probs = torch.softmax(torch.from_numpy(hard(12)[-10:]), dim=1)
    with pytest.warns(calibrant.CalibrationWarning, match="looks like probabilities"):
        fitted(method, 12).predict_proba(probs)


@needs_compiler
def test_odd_places_in_memory(emulated: None) -> None:
    """Rows that are not aligned, or do not follow one another."""
    model, scores = fitted("ts", 12), np.ascontiguousarray(hard(13))
    flat = torch.from_numpy(scores).reshape(-1)
    for tensor in (flat[1:481].reshape(40, 12), torch.from_numpy(scores)[:, :12]):
        probs = model.predict_proba(tensor.numpy())
        np.testing.assert_allclose(model.predict_proba(tensor), probs, rtol=0, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("classes", [130, pytest.param(2_500, marks=pytest.mark.slow)])
def test_profiles_agree(emulated: None, classes: int) -> None:
    scores = hard(classes)[:12]
    labels = scores.argmax(axis=1)
    on_device = TemperatureProfile.from_logits(torch.from_numpy(scores), labels, scale=2.0)
    on_host = TemperatureProfile.from_logits(scores, labels, scale=2.0)
    (_, got), (_, wanted) = on_device.to_state(), on_host.to_state()
    for name, values in wanted.items():
        atol = 1e-4 * max(1.0, float(np.abs(values[np.isfinite(values)]).max()))
        np.testing.assert_allclose(got[name], values, rtol=1e-5, atol=atol, err_msg=name)
    for temperature in (0.1, 1.0, 20.0):
        mine, theirs = on_device.row_nll(temperature), on_host.row_nll(temperature)
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


@needs_compiler
def test_profiles_of_logits_whose_differences_overflow(emulated: None) -> None:
    """Classes that are not masked count, however far below they lie."""
    scores = hard(130)[:12].copy()
    scores[3, 1], scores[3, 2] = 3e38, -3e38
    labels = scores.argmax(axis=1)
    labels[3] = 2
    on_device = TemperatureProfile.from_logits(torch.from_numpy(scores), labels)
    on_host = TemperatureProfile.from_logits(scores, labels)
    np.testing.assert_array_equal(on_device.finite_classes, on_host.finite_classes)
    np.testing.assert_array_equal(on_device.label_gap, on_host.label_gap)


@needs_compiler
def test_profiles_refuse_what_they_refuse_elsewhere(emulated: None) -> None:
    scores, labels = torch.randn(9, 130), np.zeros(9, int)
    scores[4, 0] = -np.inf
    with pytest.raises(ValueError, match="row 4 has label 0, whose logit is -inf"):
        TemperatureProfile.from_logits(scores, labels)
    scores[4, 0] = np.nan
    with pytest.raises(ValueError, match="got nan at row 4, class 0"):
        TemperatureProfile.from_logits(scores, labels)


# --- which formulas and tensors have a kernel ---------------------------------------------------


def network(kernels: tuple[np.ndarray, ...], clip: float | None = None) -> NetworkTemperature:
    formula = fitted("pts", 12).formula_
    biases = tuple(np.zeros(kernel.shape[1]) for kernel in kernels)
    return NetworkTemperature(
        formula.reading, formula.low, formula.high, kernels, biases, False, formula.link, clip
    )


def test_plans_are_for_networks_side_by_side() -> None:
    first, own = np.ones((10, 4)), np.kron(np.eye(2), np.ones((2, 1)))
    plan = plan_of(network((first, own)))
    assert plan is not None
    assert dict(plan.network)["WIDTHS"] == "10,2,1"
    assert plan_of(network((first, np.ones((4, 2))))) is None  # outputs that share hidden units
    assert plan_of(network((first, own), clip=100.0)) is None
    assert plan_of(network((np.ones((10, 1_000)), np.ones((1_000, 1))))) is None  # too large
    assert plan_of(fitted("ts", 12).formula_) is not None


def test_a_loaded_state_is_looked_at_again() -> None:
    first, own = np.ones((10, 4)), np.kron(np.eye(2), np.ones((2, 1)))
    model = with_formula(calibrant.PTS(), network((first, own)), 12)
    module = to_module(model)
    assert module._plan is not None
    module.load_state_dict(module.state_dict())
    assert module._plan is not None
    module.load_state_dict(
        to_module(with_formula(model, network((first, own + 1)), 12)).state_dict()
    )
    assert module._plan is None


def test_what_a_kernel_may_not_take_over() -> None:
    plan = plan_of(ConstantTemperature(2.0))
    scores = torch.randn(5, 12)

    def may(logits: Any, output: Any = "probabilities") -> bool:
        return can_compute(plan, logits, output)

    assert may(scores)
    assert may(scores.half())
    assert not may(scores.double())
    assert not may(scores[:0])
    assert not may(scores.clone().requires_grad_())
    with torch.no_grad():
        assert may(scores.clone().requires_grad_())
    assert not torch.vmap(lambda row: torch.tensor(may(row[None])))(scores).any()
    mixture = plan_of(fitted("ets", 12).formula_)
    assert not can_compute(mixture, scores, "log_probabilities")
    assert not can_compute(plan_of(fitted("pts", 12).formula_), scores[:, :9], "probabilities")


# --- layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("itemsize", [2, 4])
def test_every_class_lies_in_one_slot(itemsize: int) -> None:
    sizes = [*range(2, 300), 1_000, 1_001, 1_024, 1_025, 4_096, 32_768, 32_769, 50_257, 128_256]
    for classes, copies in itertools.product(sizes, (1, 2)):
        one = _layout.layout_of(classes, itemsize, copies)
        team, parts = one.lanes * one.warps, one.slots // one.vec
        chunk, part, thread, i = np.ogrid[: one.chunks, :parts, :team, : one.vec]
        held = np.sort((((chunk * parts + part) * team + thread) * one.vec + i).ravel())
        np.testing.assert_array_equal(held[:classes], np.arange(classes))
        assert classes % one.vec == 0
        assert one.threads % team == 0
        assert one.slots * one.vec <= 32 * max(one.vec, 1)
        assert not one.staged or (32 // one.lanes * classes * itemsize) % one.unit == 0


# --- on a GPU -----------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [12, 100, 1_000, 40_001])
def test_a_gpu_agrees(method: str, classes: int) -> None:
    model, scores = fitted(method, classes), hard(classes)
    tensor = torch.from_numpy(scores).cuda()
    probs = model.predict_proba(scores)
    np.testing.assert_allclose(model.predict_proba(tensor).cpu(), probs, rtol=0, atol=1e-5)
    module = to_module(model).cuda()
    np.testing.assert_allclose(module(tensor).cpu(), probs, rtol=0, atol=1e-5)
    with_gradient = tensor.clone().requires_grad_()
    np.testing.assert_allclose(module(with_gradient).detach().cpu(), probs, rtol=0, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_gpu_computes_every_formula(path: Path) -> None:
    model = calibrant.load(path)
    given = golden_scores(model)
    found = model.predict_proba(torch.from_numpy(given).cuda()).cpu()
    np.testing.assert_allclose(found, model.predict_proba(given), rtol=0, atol=1e-5)


def test_the_compiler_is_found_where_it_should_be() -> None:
    """On a machine for CUDA without one, kernels would silently not be used."""
    if shutil.which("nvidia-smi") is None or not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    from calibrant.backends.cuda import _driver

    assert _driver._nvrtc() is not None
