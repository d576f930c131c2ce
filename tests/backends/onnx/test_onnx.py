"""ONNX graphs give what `predict_proba` gives, alone and at the end of a model."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant.calibrators import (
    BayesianBinning,
    BetaCalibration,
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

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from calibrant.onnx import GraphNames, attach, export  # noqa: E402

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
    "irova": IsotonicOneVsAll,
    "irova-ts": IsotonicOneVsAllTS,
    "histogram": HistogramBinning,
    "histogram-raw": lambda: HistogramBinning(n_bins=1, normalize=False),
    "spline": SplineCalibration,
    "histogram-top-label": lambda: HistogramBinning("top-label", n_bins=7),
    "bbq": BayesianBinning,
    "pbmc": PlattBinner,
}
WITH_TEMPERATURE = {m for m in METHODS if m.startswith(("base", "ts", "pts", "hts", "smart"))}
AFFINE = {"vector", "matrix", "dirichlet", "structured-vector", "structured-matrix"}
TABLES = {"irova", "irova-ts", "histogram", "histogram-raw", "bbq", "pbmc"}
NOT_PRESERVING = AFFINE | TABLES | {"pts-clipped"}
CLASSES = 11


@cache
def fitted(method: str, classes: int = CLASSES) -> Calibrator:
    return METHODS[method]().fit(*labelled(classes))


def run(path: Path, names: GraphNames, scores: np.ndarray) -> dict[str, np.ndarray]:
    """Serve with onnxruntime."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    values = session.run(list(names.outputs), {names.input: scores})
    return dict(zip(names.outputs, values, strict=True))


def assert_same(out: dict[str, np.ndarray], fit: Calibrator, scores: np.ndarray) -> None:
    """Parity of all outputs, and the law of the arg max."""
    half = scores.dtype == np.float16
    # in float32 HTS itself loses digits of a certain row's entropy; its graph does not
    expected = fit.predict_proba(scores)
    probs = out["probabilities"]
    assert probs.dtype == scores.dtype
    np.testing.assert_allclose(probs, expected, rtol=0, atol=1e-3 if half else 1e-5)
    np.testing.assert_array_equal(out["confidence"], probs.max(axis=1))
    if "temperature" in out:
        expected = np.minimum(fit.temperature(scores), 65504.0 if half else np.inf)
        np.testing.assert_allclose(out["temperature"], expected, rtol=2e-3 if half else 1e-4)


def assert_keeps_arg_max(probs: np.ndarray, scores: np.ndarray) -> None:
    top = scores.argmax(axis=1)[:, None]
    assert np.all(probs <= np.take_along_axis(probs, top, axis=1))


# --- alone ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_graph_agrees_on_adversarial_rows(method: str, dtype: str, tmp_path: Path) -> None:
    fit, scores = fitted(method), adversarial(CLASSES, np.dtype(dtype).type)
    names = export(fit, tmp_path / "c.onnx", dtype=dtype)
    assert (names.temperature is not None) == (method in WITH_TEMPERATURE)
    out = run(tmp_path / "c.onnx", names, scores)
    assert_same(out, fit, scores)
    assert np.all(out["probabilities"][np.isneginf(scores)] == 0.0) or method == "pts-clipped"
    if method not in NOT_PRESERVING:
        assert_keeps_arg_max(out["probabilities"], scores)


@pytest.mark.parametrize("method", ["ts", "pts", "irm", "histogram-top-label", "pbmc"])
@pytest.mark.parametrize("opset", [13, 17, 18, 21])
def test_every_opset(method: str, opset: int, tmp_path: Path) -> None:
    fit, scores = fitted(method), adversarial(CLASSES)
    names = export(fit, tmp_path / "c.onnx", opset=opset)
    assert onnx.load(tmp_path / "c.onnx").opset_import[0].version == opset
    assert_same(run(tmp_path / "c.onnx", names, scores), fit, scores)


@pytest.mark.parametrize("method", ["ets", "pts", "hts", "irova"])
def test_probabilities_as_input(method: str, tmp_path: Path) -> None:
    logits, labels = labelled(5)
    probs = calibrant.Uncalibrated().fit(logits, labels).predict_proba(logits)
    fit = METHODS[method]().set_params(input="probs").fit(probs, labels)
    probs[:50, 2:4], probs[50:60] = 0.0, np.eye(5)[1]
    probs /= probs.sum(axis=1, keepdims=True)
    names = export(fit, tmp_path / "c.onnx")
    assert names.input == "probs"
    assert_same(run(tmp_path / "c.onnx", names, probs), fit, probs)


def published(rng: np.random.Generator, classes: int, k: int) -> Calibrator:
    """PTS with any weights, on as many inputs as there are classes at most."""
    sizes = [min(k, classes), *rng.integers(1, 6, rng.integers(0, 3)), 1]
    weights = []
    for fan_in, fan_out in pairwise(sizes):
        weights += [rng.standard_normal((fan_in, fan_out)), rng.standard_normal(fan_out)]
    return calibrant.PTS.from_weights(weights)


@given(
    classes=st.integers(2, 70),
    k=st.integers(1, 90),
    rows=st.integers(1, 30),
    seed=st.integers(0, 99),
)
def test_any_shape(
    tmp_path_factory: pytest.TempPathFactory, classes: int, k: int, rows: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    fit = published(rng, classes, k)
    scores = adversarial(classes)[rng.integers(0, 1000, rows)]
    path = tmp_path_factory.mktemp("shapes") / "c.onnx"
    out = run(path, export(fit, path, n_classes=classes), scores)
    assert_same(out, fit, scores)
    assert_keeps_arg_max(out["probabilities"], scores)


@pytest.mark.filterwarnings("ignore:class .* has the mean probability")
@settings(max_examples=20)
@given(classes=st.integers(2, 20), bins=st.integers(1, 40), seed=st.integers(0, 99))
def test_any_table(
    tmp_path_factory: pytest.TempPathFactory, classes: int, bins: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logits, labels = rng.standard_normal((60, classes)), rng.integers(0, classes, 60)
    scores = adversarial(classes)
    path = tmp_path_factory.mktemp("tables") / "c.onnx"
    for fit in (HistogramBinning(n_bins=bins), MultiClassIsotonic(), IsotonicOneVsAll()):
        fit.fit(logits, labels)
        assert_same(run(path, export(fit, path), scores), fit, scores)


@pytest.mark.parametrize("kind", [BetaCalibration, PlattScaling])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_two_classes(kind: type[Calibrator], dtype: Any, tmp_path: Path) -> None:
    fit, scores = kind().fit(*labelled(2)), adversarial(2, dtype)
    names = export(fit, tmp_path / "c.onnx", dtype=np.dtype(dtype).name)
    assert_same(run(tmp_path / "c.onnx", names, scores), fit, scores)


def test_more_classes_than_fitted_only_where_they_are_asked_for(tmp_path: Path) -> None:
    names = export(fitted("pts"), tmp_path / "c.onnx", n_classes=40)
    scores = adversarial(40)
    out = run(tmp_path / "c.onnx", names, scores)
    np.testing.assert_allclose(out["probabilities"], fitted("pts").formula_(scores), atol=1e-5)


def by_authors_rule() -> Calibrator:
    rng = np.random.default_rng(0)
    shapes = ((3, 2), (3,), (1, 3), (1,))
    return DiagonalOrderPreserving.from_weights([rng.random(shape) for shape in shapes])


@pytest.mark.parametrize(
    ("calibrator", "options", "error", "message"),
    [
        (lambda: by_authors_rule(), {}, ValueError, "say n_classes: .* any number of classes"),
        (calibrant.TS, {}, NotFittedError, "not fitted"),
        (lambda: "pts", {}, TypeError, "a fitted calibrator of calibrant is needed, got str"),
        (lambda: fitted("ts"), {"dtype": "int8"}, ValueError, "got 'int8'"),
        (lambda: fitted("ts"), {"opset": 12}, ValueError, "opset must be at least 13, got 12"),
        (lambda: fitted("ts"), {"n_classes": 1}, ValueError, "at least 2, got 1"),
        (lambda: fitted("pts"), {"n_classes": 4}, ValueError, "reads the top 10 logits, got 4"),
        (lambda: fitted("irova"), {"n_classes": 4}, ValueError, "fitted with 11 classes, got 4"),
    ],
)
def test_refusals(
    calibrator: Any, options: dict[str, Any], error: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        export(calibrator(), tmp_path / "c.onnx", **options)
    assert list(tmp_path.iterdir()) == []


# --- at the end of a model --------------------------------------------------------------------


def linear_model(
    path: Path,
    *,
    opset: int = 17,
    dtype: Any = np.float32,
    shape: tuple[Any, ...] = ("n", 4),
    output: str = "scores",
    own_softmax: bool = False,
    external: bool = False,
) -> np.ndarray:
    """x @ W for a known W; returns W."""
    weight = np.random.default_rng(0).standard_normal((4, CLASSES)).astype(dtype) * 2
    h, kind = onnx.helper, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [h.make_node("MatMul", ["x", "constant_0"], [output])]
    outputs = [h.make_tensor_value_info(output, kind, [*shape[:-1], CLASSES])]
    if own_softmax:
        nodes.append(h.make_node("Softmax", [output], ["probabilities"], axis=-1))
        outputs = [h.make_tensor_value_info("probabilities", kind, [*shape[:-1], CLASSES])]
    graph = h.make_graph(
        nodes,
        "linear",
        [h.make_tensor_value_info("x", kind, shape)],
        outputs,
        [onnx.numpy_helper.from_array(weight, "constant_0")],
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    options = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
    onnx.save(model, path, **(options if external else {}))
    return weight


def serve(path: Path, x: np.ndarray) -> dict[str, np.ndarray]:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": x}), strict=True))


def features(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("opset", [9, 13, 17, 20])
@pytest.mark.parametrize("method", ["pts", "ets", "irova"])
def test_attach(method: str, opset: int, tmp_path: Path) -> None:
    weight = linear_model(tmp_path / "m.onnx", opset=opset)
    names = attach(tmp_path / "m.onnx", fitted(method), tmp_path / "out.onnx")
    x = features(30, 4)
    out = serve(tmp_path / "out.onnx", x)
    assert list(out) == ["scores", *names.outputs]
    np.testing.assert_allclose(out["scores"], x @ weight, rtol=1e-5, atol=1e-5)
    assert_same(out, fitted(method), out["scores"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "out.onnx"]


def test_attach_to_half_precision_and_sequences(tmp_path: Path) -> None:
    linear_model(tmp_path / "m.onnx", dtype=np.float16, shape=("n", "length", 4))
    attach(tmp_path / "m.onnx", fitted("pts"), tmp_path / "out.onnx")
    out = serve(tmp_path / "out.onnx", features(3, 6, 4, dtype=np.float16))
    assert out["probabilities"].shape == (3, 6, CLASSES)
    assert out["confidence"].shape == out["temperature"].shape == (3, 6)
    rows = {name: out[name].reshape(18, *out[name].shape[2:]) for name in out}
    assert_same(rows, fitted("pts"), rows["scores"])


def test_attach_inside_and_with_taken_names(tmp_path: Path) -> None:
    weight = linear_model(tmp_path / "m.onnx", output="calibrant/logits", own_softmax=True)
    names = attach(tmp_path / "m.onnx", fitted("pts"), tmp_path / "out.onnx", "calibrant/logits")
    assert names.probabilities == "calibrated_probabilities"
    x = features(30, 4)
    out = serve(tmp_path / "out.onnx", x)
    expected = fitted("pts").predict_proba(x @ weight)
    np.testing.assert_allclose(out[names.probabilities], expected, atol=1e-5)
    again = attach(tmp_path / "out.onnx", fitted("ets"), tmp_path / "out.onnx", "calibrant/logits")
    assert again.outputs == ("calibrated2_probabilities", "calibrated2_confidence")
    out = serve(tmp_path / "out.onnx", x)
    np.testing.assert_allclose(
        out[again.probabilities], fitted("ets").predict_proba(x @ weight), atol=1e-5
    )


def test_attach_keeps_weights_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    linear_model(tmp_path / "in/m.onnx", external=True)
    attach(tmp_path / "in/m.onnx", fitted("pts"), tmp_path / "out/m.onnx")
    for file in (tmp_path / "in").iterdir():
        file.unlink()  # the result must stand alone
    out = serve(tmp_path / "out/m.onnx", features(30, 4))
    assert_same(out, fitted("pts"), out["scores"])


@pytest.mark.parametrize("way_out", ["parent", "absolute", "link", "linked folder", "hard link"])
def test_weights_outside_the_folder_of_a_model_are_not_read(way_out: str, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    folder.mkdir()
    linear_model(folder / "m.onnx", external=True)
    (folder / "w.bin").rename(elsewhere)
    (folder / "link").symlink_to(elsewhere)
    (folder / "folder").symlink_to(tmp_path)
    if way_out == "hard link":
        (folder / "same").hardlink_to(elsewhere)
    location = {
        "parent": "../elsewhere",
        "absolute": str(elsewhere),
        "link": "link",
        "linked folder": "folder/elsewhere",
        "hard link": "same",
    }[way_out]
    model = onnx.load(folder / "m.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = location if entry.key == "location" else entry.value
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=r"m.onnx cannot be read as an ONNX model: "):
        attach(folder / "m.onnx", fitted("ts"), tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_weights_outside_are_replaced_with_their_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    linear_model(Path("in/m.onnx"), external=True)
    monkeypatch.setattr(
        "calibrant.backends.onnx._files.SMALLEST_APART", 100
    )  # the weights have 176 bytes
    attach("in/m.onnx", fitted("pts"), "out.onnx")
    Path("out.onnx.data").chmod(0o640)
    attach("in/m.onnx", fitted("ts"), "out.onnx")
    out = serve(Path("out.onnx"), features(30, 4))
    assert_same(out, fitted("ts"), out["scores"])
    assert Path("out.onnx.data").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir()) == ["in", "out.onnx", "out.onnx.data"]
    os.rename("in/w.bin", "in/other.onnx.data")
    model = onnx.load("in/m.onnx", load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "other.onnx.data"
    onnx.save(model, "in/m.onnx")
    with pytest.raises(ValueError, match=r"would replace those of in/m\.onnx"):
        attach("in/m.onnx", fitted("ts"), "in/other.onnx")
    os.mkfifo("fifo.onnx.data")
    with pytest.raises(FileExistsError, match=r"fifo\.onnx\.data"):
        attach("in/m.onnx", fitted("ts"), "fifo.onnx")
    assert not Path("fifo.onnx").exists()


def test_attach_refusals(tmp_path: Path) -> None:
    linear_model(tmp_path / "m.onnx")
    (tmp_path / "text.onnx").write_text("not a model")
    out = tmp_path / "out.onnx"
    with pytest.raises(ValueError, match=r"no tensor 'logits'; its outputs are \['scores'\]"):
        attach(tmp_path / "m.onnx", fitted("ts"), out, "logits")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        attach(tmp_path / "none.onnx", fitted("ts"), out)
    with pytest.raises(ValueError, match="cannot be read as an ONNX model"):
        attach(tmp_path / "text.onnx", fitted("ts"), out)
    with pytest.raises(ValueError, match=r"must end in \.onnx, got"):
        attach(tmp_path / "m.onnx", fitted("ts"), tmp_path / "out.pb")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        attach(tmp_path / "m.onnx", fitted("ts"), tmp_path / "none/out.onnx")
    for method in ("irova", "ts", "pts"):
        with pytest.raises(ValueError, match="fitted with 5 classes, got 11"):
            attach(tmp_path / "m.onnx", fitted(method, 5), out)
    attach(tmp_path / "m.onnx", fitted("ts"), out)
    with pytest.raises(ValueError, match=r"the model has the outputs .* say which one"):
        attach(out, fitted("ts"), out)


def one_node(path: Path, node: str, shape: str, result: str | None = None) -> None:
    """x through a node, written as ONNX's own text has it, to y."""
    graph = f"g (float[{shape}] x) => (float[{result or shape}] y) {{ {node} }}"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}'), path)


@pytest.mark.parametrize(
    "node",
    [
        "y = Softmax(x)",
        "p = Softmax(x) y = Identity(p)",
        "p = Softmax(x) q = Dropout(p) s = Constant<value_ints = [-1, 11]>() y = Reshape(q, s)",
        "l = LogSoftmax(x) y = Exp(l)",
        "l = LogSoftmax(x) m = Identity(l) p = Exp(m) y = Identity(p)",
        "p = Softmax(x) l = Log(p) y = Exp(l)",
    ],
    ids=["at once", "renamed", "reshaped", "exp of log", "exp of log, renamed", "exp, log"],
)
def test_attach_to_a_softmax_is_refused(node: str, tmp_path: Path) -> None:
    one_node(tmp_path / "m.onnx", node, "N, 11")
    of = "Exp of a (Log)?Softmax" if "Exp" in node else "output of a Softmax"
    message = f"reads logits, but 'y' is the {of}: .* logits_output=\"x\", or fit"
    with pytest.raises(ValueError, match=message):
        attach(tmp_path / "m.onnx", fitted("ts"), tmp_path / "out.onnx")
    attach(tmp_path / "m.onnx", fitted("ts"), tmp_path / "out.onnx", "x")
    logits, labels = labelled(CLASSES)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    of_probs = calibrant.TS(input="probs").fit(probs, labels)
    attach(tmp_path / "m.onnx", of_probs, tmp_path / "out.onnx")
    one_node(tmp_path / "m.onnx", "y = LogSoftmax(x)", "N, 11")
    attach(tmp_path / "m.onnx", fitted("ts"), tmp_path / "out.onnx")  # as good as logits
    one_node(tmp_path / "e.onnx", "y = Exp(x)", "N, 11")
    attach(tmp_path / "e.onnx", fitted("ts"), tmp_path / "out.onnx")  # may be anything
    with pytest.raises(ValueError, match=r"reads probabilities, but 'y' is .* of a LogSoftmax"):
        attach(tmp_path / "m.onnx", of_probs, tmp_path / "out.onnx")


@pytest.mark.parametrize("method", ["ts", "ets", "irm", "pts"])
@pytest.mark.parametrize("height", ["H", "7"])
def test_attach_to_a_segmentation_model(method: str, height: str, tmp_path: Path) -> None:
    one_node(tmp_path / "m.onnx", "y = Neg(x)", f"N, 11, {height}, 8")
    names = attach(tmp_path / "m.onnx", fitted(method), tmp_path / "out.onnx", class_axis=1)
    rows = adversarial(CLASSES)[: 2 * 7 * 8]
    images = np.moveaxis(rows.reshape(2, 7, 8, CLASSES), -1, 1)
    out = serve(tmp_path / "out.onnx", -images)
    expected = np.moveaxis(fitted(method).predict_proba(rows).reshape(2, 7, 8, CLASSES), -1, 1)
    np.testing.assert_allclose(out[names.probabilities], expected, atol=1e-5)
    np.testing.assert_allclose(out[names.confidence], expected.max(axis=1), atol=1e-5)
    if names.temperature is not None:
        assert out[names.temperature].shape == (2, 7, 8)
    assert serve(tmp_path / "out.onnx", images[:0])[names.probabilities].shape == (0, 11, 7, 8)


def test_attach_along_the_wrong_axis(tmp_path: Path) -> None:
    remedy = "where the classes are axis 1, say class_axis=1"
    for shape, message in {
        "N, 11, H, W": f"may be the 11 classes: {remedy}",
        "N, 11, L": f"may be the 11 classes: {remedy}",
        "N, 11, 7, 11": f"may be the 11 classes: {remedy}",
        "N, 11, 7, 8": f"fitted with 11 classes, got 8 along axis -1 .*: {remedy}",
        "N, 5": "fitted with 11 classes, got 5 along axis -1",
    }.items():
        one_node(tmp_path / "m.onnx", "y = Neg(x)", shape)
        with pytest.raises(ValueError, match=message):
            attach(tmp_path / "m.onnx", fitted("ts"), tmp_path / "out.onnx")
    one_node(tmp_path / "m.onnx", "y = Neg(x)", "N, 11, 7, 11")
    attach(tmp_path / "m.onnx", fitted("ts"), tmp_path / "out.onnx", class_axis=-1)
    with pytest.raises(ValueError, match=r"class_axis must be an axis of .*, got 4"):
        attach(tmp_path / "m.onnx", fitted("ts"), tmp_path / "out.onnx", class_axis=4)


def test_attach_to_empty_batches_of_sequences(tmp_path: Path) -> None:
    linear_model(tmp_path / "m.onnx", shape=("n", "length", 4))
    for method in ("pts", "irova", "spline"):
        attach(tmp_path / "m.onnx", fitted(method), tmp_path / "out.onnx")
        for shape in ((0, 5, 4), (3, 0, 4), (0, 0, 4)):
            out = serve(tmp_path / "out.onnx", np.zeros(shape, np.float32))
            assert out["probabilities"].shape == (*shape[:-1], CLASSES)
            assert out["confidence"].shape == shape[:-1]


@pytest.mark.filterwarnings("ignore")  # PyTorch's exporter has its own
def test_lenet5_from_torch_to_onnxruntime(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    from calibrant.torch import CalibratedModule
    from calibrant_papers.networks import LeNet5

    torch.manual_seed(0)
    network, images = LeNet5(n_classes=10, channels=1).eval(), torch.randn(40, 1, 32, 32)
    logits, labels = labelled(10)
    pts = calibrant.PTS(penalty=0.01).fit(logits, labels)
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        network,
        (images,),
        tmp_path / "lenet5.onnx",
        input_names=["x"],
        output_names=["logits"],
        dynamic_shapes=({0: batch},),
        dynamo=True,
        verbose=False,
    )
    attach(tmp_path / "lenet5.onnx", pts, tmp_path / "calibrated.onnx", "logits")
    for rows in (1, 40):
        out = serve(tmp_path / "calibrated.onnx", images[:rows].numpy())
        with torch.no_grad():
            served = CalibratedModule(network, pts)(images[:rows])
            scores = network(images[:rows])
        np.testing.assert_allclose(out["probabilities"], served, atol=1e-5)
        np.testing.assert_allclose(out["probabilities"], pts.predict_proba(scores), atol=1e-5)
