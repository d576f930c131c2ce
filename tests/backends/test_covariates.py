"""A formula that reads covariates: every way of computing takes them, and gives the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import calibrant
from calibrant.backends.cuda import dispatch as cuda
from calibrant.backends.numba import dispatch as numba
from calibrant.calibrators import REGISTRY, FitInfo, Fitted, LogitCalibrator, register
from calibrant.data.rows import Rows
from calibrant.formulas import (
    AbsoluteLink,
    Chain,
    ConstantTemperature,
    Formula,
    FormulaRows,
    NetworkTemperature,
    Pool,
    Reading,
    SeenClasses,
    Smoothed,
    TemperatureFormula,
)
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._serialization import from_state, to_state
from crafting import with_formula
from hard_logits import adversarial

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from calibrant.onnx import attach, export  # noqa: E402
from calibrant.torch import CalibratedModule, CalibratorModule, to_module  # noqa: E402

CLASSES = 7
COLUMNS = ("length", "age")


@dataclass(frozen=True, eq=False)
class CovariateTemperature(TemperatureFormula):
    """T = exp(intercept + slopes @ covariates)."""

    kind: ClassVar[str] = "test.covariate-temperature"
    needs: ClassVar[tuple[str, ...]] = ("covariates",)

    intercept: float
    slopes: Any
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "slopes", np.asarray(self.slopes, np.float64))

    @property
    def keeps_arg_max(self) -> bool:
        return True

    @property
    def covariate_names(self) -> tuple[str, ...]:
        return self.columns

    def temperature(self, rows, ops):
        slopes = ops.constant(self.slopes, rows.logits)
        intercept = ops.constant(self.intercept, rows.logits)
        return ops.exp(ops.sum(rows.covariates * slopes) + intercept)


@dataclass(frozen=True, eq=False)
class ColumnReading(Reading):
    """A network's inputs: the covariates themselves."""

    kind: ClassVar[str] = "test.column-reading"
    needs: ClassVar[tuple[str, ...]] = ("covariates",)

    columns: tuple[str, ...]

    @property
    def covariate_names(self) -> tuple[str, ...]:
        return self.columns

    @property
    def width(self) -> int:
        return len(self.columns)

    @property
    def fewest_classes(self) -> int:
        return 2

    def read(self, rows):
        return rows.covariates


class CovariateScaling(LogitCalibrator):
    """A temperature that depends on the covariates alone, of given slopes."""

    uses = ("covariates",)
    _gives = TemperatureFormula

    def __init__(self, slope: float = 0.3, input: str = "logits") -> None:  # noqa: A002
        self.slope = slope
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return True

    def _check_parameters(self) -> None:
        """Any slope makes sense."""

    def _fit_logits(self, data: Rows) -> Fitted:
        assert data.covariates is not None
        columns = tuple(data.covariates)
        slopes = np.full(len(columns), self.slope)
        return CovariateTemperature(0.1, slopes, columns), FitInfo(True, "given")


def adaptive() -> CovariateTemperature:
    return CovariateTemperature(0.2, [0.5, -0.25], COLUMNS)


FORMULAS: dict[str, Callable[[], Formula]] = {
    "alone": adaptive,
    "smoothed": lambda: Smoothed(0.01, CLASSES, adaptive()),
    "chain, first": lambda: Chain((adaptive(),), ConstantTemperature(2.0)),
    "chain, last": lambda: Chain((ConstantTemperature(0.5),), adaptive()),
    "chain, both": lambda: Chain((adaptive(),), adaptive()),
    "seen classes": lambda: SeenClasses.of(CLASSES, [0, 2, 3, 6], 1.5, adaptive()),
    "smoothed, seen classes": lambda: Smoothed(
        0.01, CLASSES, SeenClasses.of(CLASSES, [0, 2, 3, 6], 1.5, adaptive())
    ),
    "pool": lambda: Pool([0.3, 0.5, 0.2], (ConstantTemperature(2.0), adaptive(), adaptive())),
    "network": lambda: NetworkTemperature(
        ColumnReading(COLUMNS),
        [-2.0, -2.0],
        [2.0, 2.0],
        ([[0.5, 0.2], [0.1, -0.4]], [[1.0], [0.5]]),
        ([0.1, 0.2], [0.3]),
        False,
        AbsoluteLink(0.1, 10.0),
        None,
    ),
}
WITH_TEMPERATURE = ("alone", "network")


@cache
def made(name: str) -> Formula:
    return FORMULAS[name]()


def calibrator(name: str, classes: int = CLASSES, **parameters: Any) -> Any:
    return with_formula(CovariateScaling(**parameters), made(name), classes)


def sample(dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    logits = adversarial(CLASSES, np.float64)
    logits = logits[np.abs(np.where(np.isfinite(logits), logits, 0.0)).max(axis=1) < 1e4]
    covariates = np.random.default_rng(3).normal(size=(len(logits), len(COLUMNS)))
    return logits.astype(dtype), covariates.astype(dtype)


def reference(name: str, logits: np.ndarray, covariates: np.ndarray) -> np.ndarray:
    return made(name)(logits.astype(np.float64), covariates.astype(np.float64))


def named(covariates: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(COLUMNS, covariates.T, strict=True))


# --- NumPy and the array API ------------------------------------------------------------------


def test_the_temperature_is_that_of_each_row() -> None:
    logits, covariates = sample()
    temperature = np.exp(0.2 + covariates @ [0.5, -0.25])
    expected = ConstantTemperature(1.0)(logits / temperature[:, None])
    np.testing.assert_allclose(reference("alone", logits, covariates), expected, atol=1e-12)
    found = made("alone").row_temperatures(FormulaRows(logits, covariates), NUMPY)  # type: ignore[attr-defined]
    np.testing.assert_allclose(found, temperature)
    twice = reference("chain, both", logits, covariates)
    expected = ConstantTemperature(1.0)(logits / temperature[:, None] ** 2)
    np.testing.assert_allclose(twice, expected, atol=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_say_what_they_need(name: str) -> None:
    assert made(name).needs == ("covariates",)
    assert made(name).covariate_names == COLUMNS


def test_parts_of_a_formula_read_the_same_covariates() -> None:
    other = CovariateTemperature(0.0, [1.0], ("length",))
    with pytest.raises(ValueError, match="must read the same covariates"):
        Chain((adaptive(),), other)
    with pytest.raises(ValueError, match="must read the same covariates"):
        Pool([0.5, 0.5], (adaptive(), other))


@pytest.mark.parametrize("name", FORMULAS)
def test_predictions_take_covariates_by_name(name: str) -> None:
    logits, covariates = sample()
    model, expected = calibrator(name), reference(name, logits, covariates)
    given = {"other": np.zeros(len(logits)), **dict(reversed(named(covariates).items()))}
    np.testing.assert_allclose(model.predict_proba(logits, covariates=given), expected, atol=1e-12)
    logs = model.predict_log_proba(logits, covariates=given)
    np.testing.assert_allclose(np.exp(logs), expected, atol=1e-12)
    found = model.predict_confidence(logits, covariates=given)
    np.testing.assert_allclose(found.probability, expected.max(axis=1), atol=1e-12)
    with pytest.raises(ValueError, match=r"reads the covariates .* by the names of the fit"):
        model.predict_proba(logits)


@pytest.mark.parametrize("name", FORMULAS)
def test_the_array_api_agrees(name: str) -> None:
    """The generic operations, here by torch's namespace: what a GPU computes."""
    logits, covariates = sample()
    expected = reference(name, logits, covariates)
    by_torch = made(name)(torch.from_numpy(logits), torch.from_numpy(covariates))
    np.testing.assert_allclose(by_torch.numpy(), expected, atol=1e-12)
    tensor = torch.from_numpy(logits.astype(np.float32))
    given = calibrator(name).predict_proba(tensor, covariates=named(covariates))
    assert given.dtype == torch.float32
    np.testing.assert_allclose(given, expected, atol=2e-5)


# --- kernels and machine code read logits alone -----------------------------------------------


@pytest.mark.parametrize("name", FORMULAS)
def test_kernels_are_for_formulas_of_logits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cuda.plan_of(made(name)) is None
    assert cuda.fused(made(name), torch.zeros(2, CLASSES), "probabilities") is None
    logits = np.zeros((numba.SMALLEST, CLASSES), np.float32)
    assert numba.compiled_probabilities(made(name), logits) is None
    # not even where a formula of that very type has machine code
    monkeypatch.setattr(ConstantTemperature, "needs", ("covariates",))
    assert cuda.plan_of(ConstantTemperature(2.0)) is None
    assert numba.compiled_probabilities(ConstantTemperature(2.0), logits) is None


# --- files ------------------------------------------------------------------------------------


@pytest.fixture
def registered() -> Iterator[None]:
    register("test-covariates", CovariateScaling)
    yield
    REGISTRY.pop("test-covariates")


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.usefixtures("registered")
def test_files_keep_every_bit(name: str, tmp_path: Path) -> None:
    logits, covariates = sample()
    again = from_state(*to_state(made(name)))
    assert isinstance(again, Formula)
    assert again.covariate_names == COLUMNS
    expected = reference(name, logits, covariates)
    np.testing.assert_array_equal(again(logits, covariates), expected)
    model = with_formula(MovingScaling(), made(name), CLASSES)
    if made(name).keeps_arg_max:
        model = calibrator(name)
    else:
        register("test-moving-covariates", MovingScaling)
    try:
        calibrant.save(model, tmp_path / "c.safetensors")
        loaded = calibrant.load(tmp_path / "c.safetensors")
    finally:
        REGISTRY.pop("test-moving-covariates", None)
    assert type(loaded) is type(model)
    probs = loaded.predict_proba(logits, covariates=named(covariates))
    np.testing.assert_array_equal(probs, model.predict_proba(logits, covariates=named(covariates)))


class MovingScaling(CovariateScaling):
    """The same for formulas that may move the arg max."""

    def _will_keep_arg_max(self) -> bool:
        return False


@pytest.mark.usefixtures("registered")
def test_a_fit_with_covariates_has_every_way_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    logits, covariates = 3.0 * rng.normal(size=(200, 4)), rng.normal(size=(200, 2))
    labels = (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    columns = named(covariates)
    fit = CovariateScaling(slope=0.4).fit(logits, labels, covariates=columns)
    expected = fit.predict_proba(logits, covariates=columns)
    calibrant.save(fit, tmp_path / "c.safetensors")
    loaded = calibrant.load(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(logits, covariates=columns), expected)
    module = to_module(loaded)
    tensors = torch.from_numpy(logits), torch.from_numpy(covariates)
    np.testing.assert_allclose(module(*tensors), expected, atol=1e-12)
    names = export(loaded, tmp_path / "c.onnx", dtype="float64")
    found = run(tmp_path / "c.onnx", {"logits": logits, "covariates": covariates})
    np.testing.assert_allclose(found[names.probabilities], expected, atol=1e-12)


# --- modules ----------------------------------------------------------------------------------


def tensors(dtype: Any = np.float64) -> tuple[Any, Any]:
    logits, covariates = sample(dtype)
    return torch.from_numpy(logits), torch.from_numpy(covariates)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", FORMULAS)
def test_modules_agree(name: str, dtype: Any) -> None:
    scores, covariates = tensors(dtype)
    module = to_module(calibrator(name))
    expected = reference(name, scores.numpy(), covariates.numpy())
    probs = module(scores, covariates=covariates)
    assert probs.dtype == (torch.float64 if dtype is np.float64 else torch.float32)
    close = 1e-12 if dtype is np.float64 else 2e-5
    np.testing.assert_allclose(probs, expected, rtol=0, atol=close)
    logs = module.log_proba(scores, covariates)
    np.testing.assert_allclose(logs.exp(), expected, rtol=0, atol=close)
    found = module.confidence(scores, covariates)
    np.testing.assert_allclose(found.probability, expected.max(axis=1), rtol=0, atol=close)
    assert hasattr(module, "temperature") == (name in (*WITH_TEMPERATURE, "smoothed"))
    if hasattr(module, "temperature"):
        np.testing.assert_array_equal(module.temperature(scores, covariates), found.temperature)


def test_modules_refuse_other_covariates() -> None:
    scores, covariates = tensors()
    module = to_module(calibrator("alone"))
    shape = rf"the covariates length, age .* \({len(scores)}, 2\), got"
    for method in (module, module.log_proba, module.confidence, module.temperature):
        with pytest.raises(ValueError, match="needs covariates"):
            method(scores)
        for wrong in (covariates[:, :1], covariates[:-1], covariates[:, 0], covariates[None]):
            with pytest.raises(ValueError, match=shape):
                method(scores, covariates=wrong)
        plain = to_module(with_formula(calibrant.Uncalibrated(), ConstantTemperature(2.0), CLASSES))
        with pytest.raises(ValueError, match="was fitted without covariates"):
            getattr(plain, method.__name__ if method is not module else "forward")(
                scores, covariates
            )


def test_no_kernel_hides_covariates_that_do_not_belong(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any) -> None:
        raise AssertionError("a kernel reads logits alone")

    scores, covariates = tensors(np.float32)
    plain = CalibratorModule(ConstantTemperature(2.0), "logits", "TemperatureScaling")
    module_code = CalibratorModule.__module__
    monkeypatch.setattr(f"{module_code}.fused_by_tensors", never)
    with pytest.raises(ValueError, match="was fitted without covariates"):
        plain(scores, covariates)
    module = to_module(calibrator("alone"))
    assert module(scores, covariates).shape == scores.shape


@pytest.mark.parametrize("name", ["alone", "network", "seen classes", "smoothed"])
def test_leading_dimensions_and_the_axis_of_the_classes(name: str) -> None:
    scores, covariates = (tensor[:60] for tensor in tensors())
    expected = to_module(calibrator(name))(scores, covariates)
    sequences = to_module(calibrator(name))(
        scores.reshape(4, 15, CLASSES), covariates.reshape(4, 15, 2)
    )
    assert torch.equal(sequences, expected.reshape(4, 15, CLASSES))
    row = to_module(calibrator(name))(scores[0], covariates[0])
    torch.testing.assert_close(row, expected[0])
    images = scores.reshape(3, 4, 5, CLASSES).movedim(-1, 1)
    module = to_module(calibrator(name), class_axis=1)
    places = covariates.reshape(3, 4, 5, 2)
    probs = module(images, covariates=places)
    assert probs.shape == images.shape
    torch.testing.assert_close(probs.movedim(1, -1).reshape(60, CLASSES), expected)
    assert module.confidence(images, places).probability.shape == (3, 4, 5)
    with pytest.raises(ValueError, match=r"must have shape \(3, 4, 5, 2\)"):
        module(images, places.movedim(-1, 1))


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_covariates_of_probabilities(kind: str) -> None:
    scores, covariates = tensors()
    probs = scores.softmax(-1) if kind == "probs" else scores
    module = to_module(calibrator("alone", input=kind))
    expected = calibrator("alone", input=kind).predict_proba(
        probs.numpy(), covariates=named(covariates.numpy())
    )
    np.testing.assert_allclose(module(probs, covariates), expected, atol=1e-12)


def test_gradients_flow_to_scores_and_covariates() -> None:
    scores, covariates = (tensor[:8].clone().requires_grad_() for tensor in tensors())
    finite = torch.where(scores.isinf(), 0.0, scores).detach().clamp(-5.0, 5.0).requires_grad_()
    module = to_module(calibrator("alone"))
    assert torch.autograd.gradcheck(module, (finite, covariates))


@pytest.mark.parametrize("name", FORMULAS)
def test_exported_and_traced_modules_agree(name: str) -> None:
    scores, covariates = tensors(np.float32)
    module = to_module(calibrator(name))
    expected = module(scores, covariates)
    batch = torch.export.Dim("batch", min=2)
    shapes = {"scores": {0: batch}, "covariates": {0: batch}}
    program = torch.export.export(
        module, (scores[:20],), {"covariates": covariates[:20]}, dynamic_shapes=shapes
    )
    found = program.module()(scores, covariates=covariates)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # the tracer has its own
def test_traced_modules_agree() -> None:
    scores, covariates = tensors(np.float32)
    module = to_module(calibrator("alone"))
    traced = torch.jit.trace(module, (scores[:20], covariates[:20]))
    torch.testing.assert_close(
        traced(scores[:20], covariates[:20]), module(scores, covariates)[:20]
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler has its own
@pytest.mark.parametrize("name", ["alone", "network"])
def test_compiled_modules_agree(name: str) -> None:
    scores, covariates = tensors(np.float32)
    module = to_module(calibrator(name))
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    found = compiled(scores, covariates=covariates)
    torch.testing.assert_close(found, module(scores, covariates), rtol=0, atol=1e-6)


class Strict(nn.Module):
    """A model that takes no covariates; one that does would be given them by another name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, CLASSES)

    def forward(self, features: Any) -> Any:
        return self.layer(features)


class Own(Strict):
    """A model with covariates of its own."""

    def forward(self, features: Any, covariates: Any) -> Any:
        return self.layer(features) + covariates


def test_a_calibrated_model_keeps_covariates_for_its_calibrator() -> None:
    torch.manual_seed(0)
    model, x, covariates = Strict(), torch.randn(20, 4), torch.randn(20, 2)
    calibrated = CalibratedModule(model, calibrator("alone"))
    expected = to_module(calibrator("alone"))(model(x), covariates)
    assert torch.equal(calibrated(x, covariates=covariates), expected)
    assert torch.equal(calibrated(features=x, covariates=covariates), expected)
    with pytest.raises(ValueError, match="needs covariates"):
        calibrated(x)
    # a calibrator without covariates leaves the word to the model
    plain = with_formula(calibrant.Uncalibrated(), ConstantTemperature(2.0), CLASSES)
    own, shift = Own(), torch.randn(20, 1)
    expected = to_module(plain)(own(x, shift))
    assert torch.equal(CalibratedModule(own, plain)(x, covariates=shift), expected)


# --- graphs -----------------------------------------------------------------------------------


def run(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def input_types(path: Path) -> dict[str, tuple[str, list[Any]]]:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return {one.name: (one.type, one.shape) for one in session.get_inputs()}


@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("name", FORMULAS)
def test_graphs_agree(name: str, opset: int, tmp_path: Path) -> None:
    logits, covariates = sample()
    path = tmp_path / "f.onnx"
    names = export(calibrator(name), path, dtype="float64", opset=opset)
    assert names.covariates == "covariates"
    found = run(path, {names.input: logits, names.covariates: covariates})
    expected = reference(name, logits, covariates)
    np.testing.assert_allclose(found[names.probabilities], expected, rtol=0, atol=1e-9)
    if names.temperature is not None:
        temperature = calibrator(name).temperature(logits, covariates=named(covariates))
        np.testing.assert_allclose(found[names.temperature], temperature)
    assert (names.temperature is not None) == (name in WITH_TEMPERATURE)


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float16", "float"), ("float32", "float"), ("float64", "double")]
)
def test_covariates_of_a_graph_are_never_rounded_to_half(
    dtype: Any, kind: str, tmp_path: Path
) -> None:
    names = export(calibrator("alone"), tmp_path / "f.onnx", dtype=dtype)
    assert input_types(tmp_path / "f.onnx")["covariates"] == (f"tensor({kind})", ["batch", 2])
    assert names.outputs == ("probabilities", "confidence", "temperature")
    logits, covariates = sample(dtype)
    wide = covariates.astype(np.float64 if dtype == "float64" else np.float32)
    found = run(tmp_path / "f.onnx", {"logits": logits, "covariates": wide})
    expected = reference("alone", logits, wide)
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-3)


def test_a_graph_without_covariates_has_one_input(tmp_path: Path) -> None:
    plain = with_formula(calibrant.Uncalibrated(), ConstantTemperature(2.0), CLASSES)
    assert export(plain, tmp_path / "f.onnx").covariates is None
    assert list(input_types(tmp_path / "f.onnx")) == ["logits"]


def network(path: Path, shape: str, node: str = "Neg(x)", more: str = "") -> None:
    text = f"net (float[{shape}] x{more}) => (float[{shape}] scores) {{ scores = {node} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    onnx.save(model, path)


@pytest.mark.parametrize("name", ["alone", "network", "seen classes", "chain, last"])
def test_attach_adds_an_input(name: str, tmp_path: Path) -> None:
    network(tmp_path / "m.onnx", f"N, {CLASSES}")
    names = attach(tmp_path / "m.onnx", calibrator(name), tmp_path / "out.onnx")
    assert names.covariates == "covariates"
    inputs = input_types(tmp_path / "out.onnx")
    assert list(inputs) == ["x", "covariates"]
    assert inputs["covariates"] == ("tensor(float)", ["N", 2])
    logits, covariates = sample(np.float32)
    found = run(tmp_path / "out.onnx", {"x": -logits, "covariates": covariates})
    expected = reference(name, found["scores"], covariates)
    np.testing.assert_allclose(found["probabilities"], expected, atol=2e-5)


def test_attach_takes_a_free_name(tmp_path: Path) -> None:
    more = ", float[1] covariates, float[1] covariates2"
    network(tmp_path / "m.onnx", f"N, {CLASSES}", "Sub(covariates, x)", more)
    names = attach(tmp_path / "m.onnx", calibrator("alone"), tmp_path / "out.onnx")
    assert names.covariates == "covariates3"
    logits, covariates = sample(np.float32)
    zero = np.zeros(1, np.float32)
    given = {"x": -logits, "covariates": zero, "covariates2": zero, "covariates3": covariates}
    found = run(tmp_path / "out.onnx", given)
    expected = reference("alone", logits, covariates)
    np.testing.assert_allclose(found[names.probabilities], expected, atol=2e-5)


def test_attach_to_a_segmentation_model(tmp_path: Path) -> None:
    network(tmp_path / "m.onnx", f"N, {CLASSES}, 4, W")
    names = attach(tmp_path / "m.onnx", calibrator("alone"), tmp_path / "out.onnx", class_axis=1)
    assert input_types(tmp_path / "out.onnx")["covariates"][1] == ["N", 4, "W", 2]
    logits, covariates = (array[:60] for array in sample(np.float32))
    images = np.moveaxis(logits.reshape(3, 4, 5, CLASSES), -1, 1)
    places = covariates.reshape(3, 4, 5, 2)
    found = run(tmp_path / "out.onnx", {"x": -images, "covariates": places})
    module = to_module(calibrator("alone"), class_axis=1)
    expected = module(torch.from_numpy(images.copy()), torch.from_numpy(places))
    np.testing.assert_allclose(found[names.probabilities], expected, atol=1e-5)
    assert found["temperature"].shape == (3, 4, 5)
