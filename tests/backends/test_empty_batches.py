"""A batch without rows gives an array without rows, everywhere; a fit or a judgement needs rows."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationWarning, TemperatureProfile, metrics
from calibrant.calibrators import REGISTRY, Calibrator
from calibrant.formulas import Chain
from crafting import with_formula

torch = pytest.importorskip("torch")

CLASSES = 4
WAYS = ("predict_proba", "predict_log_proba", "predict", "temperature", "transform")
PER_ROW = ("predict", "temperature")
NAMES = [*REGISTRY, "vector, then irm", "ts, then pts"]


@cache
def fitted(name: str, kind: str = "logits") -> Calibrator:
    if ", then " in name:
        first, last = (fitted(part, kind) for part in name.split(", then "))
        chain = Chain((first.formula_,), last.formula_)
        return with_formula(calibrant.Uncalibrated(), chain, CLASSES)
    rng = np.random.default_rng(0)
    logits = 3.0 * rng.normal(size=(200, 2 if REGISTRY[name].two_classes_only else CLASSES))
    labels = (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weight = np.exp(logits)
    scores = weight / weight.sum(axis=1, keepdims=True) if kind == "probs" else logits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return calibrant.calibrator(name, input=kind).fit(scores, labels)


def assert_empty(model: Calibrator, scores: Any, kind: type) -> None:
    for way in WAYS:
        if hasattr(model, way):
            result = getattr(model, way)(scores)
            expected = (0,) if way in PER_ROW else (0, model.n_classes_)
            assert isinstance(result, kind)
            assert tuple(result.shape) == expected, way


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("name", NAMES)
def test_predictions(name, kind, monkeypatch):
    model = fitted(name, kind if ", then " not in name else "logits")
    empty = np.zeros((0, model.n_classes_))
    for dtype in (np.float64, np.float32, np.float16, np.int64):
        assert_empty(model, empty.astype(dtype), np.ndarray)
    assert_empty(model, torch.zeros(empty.shape), torch.Tensor)
    # as on a device: the array API's own way
    monkeypatch.setattr(
        "calibrant.calibrators._prediction.on_host", lambda a: isinstance(a, np.ndarray)
    )
    assert_empty(model, torch.zeros(empty.shape), torch.Tensor)


def test_no_scores_of_a_binary_model():
    for scores in ([], np.zeros(0), torch.zeros(0)):
        assert fitted("beta").predict_proba(scores).shape == (0, 2)


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("name", NAMES)
def test_modules(name, kind):
    from calibrant.torch import to_module

    model = fitted(name, kind if ", then " not in name else "logits")
    module, classes = to_module(model), model.n_classes_
    for shape in ((0, classes), (3, 0, classes), (0, 3, classes)):
        assert module(torch.zeros(shape)).shape == shape
        assert module.log_proba(torch.zeros(shape)).shape == shape
        if hasattr(module, "temperature"):
            assert module.temperature(torch.zeros(shape)).shape == shape[:-1]
    images = to_module(model, class_axis=1)
    assert images(torch.zeros(0, classes, 5, 6)).shape == (0, classes, 5, 6)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("name", NAMES)
def test_graphs(name, kind, opset, tmp_path: Path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from calibrant.onnx import export

    model = fitted(name, kind if ", then " not in name else "logits")
    names = export(model, tmp_path / "c.onnx", opset=opset)
    session = runtime.InferenceSession(tmp_path / "c.onnx", providers=["CPUExecutionProvider"])
    empty = np.zeros((0, model.n_classes_), np.float32)
    shapes = [value.shape for value in session.run(list(names.outputs), {names.input: empty})]
    assert shapes == [empty.shape, *[(0,)] * (len(shapes) - 1)]


def test_streams_take_batches_without_rows():
    logits = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.5], [0.3, 0.1, 0.2]])
    labels = np.array([0, 1, 2])
    empty, none = np.zeros((0, 3)), np.zeros(0, int)
    profile, meter = TemperatureProfile(), metrics.CalibrationMeter(input="logits")
    for stream in (profile, meter):
        stream.update(empty, none).update(logits, labels).update(empty, none)
        stream.update(logits, np.full(3, -100), ignore_index=-100)  # all are left out
        stream.update(empty, none, sample_weight=np.zeros(0))
        with pytest.raises(ValueError, match="classes, got"):
            stream.update(np.zeros((0, 4)), none)
        with pytest.raises(ValueError, match="the same rows, got 3 and 0"):
            stream.update(empty, labels)
    assert len(profile) == meter.compute().n_rows == 3
    plain = metrics.CalibrationMeter(input="logits").update(logits, labels)
    assert meter.compute().metrics == plain.compute().metrics


def test_a_stream_of_nothing_has_nothing_to_say():
    empty, none = np.zeros((0, 3)), np.zeros(0, int)
    with pytest.raises(ValueError, match="at least one row before compute, got none"):
        metrics.CalibrationMeter().update(empty, none).compute()
    with pytest.raises(ValueError, match="the profile has no rows yet"):
        calibrant.TS().fit(TemperatureProfile().update(empty, none))


def test_fits_and_judgements_need_rows():
    empty, none = np.zeros((0, 3)), np.zeros(0, int)
    for act in (
        lambda: calibrant.TS().fit(empty, none),
        lambda: calibrant.calibrator("vector").fit(empty, none),
        lambda: TemperatureProfile.from_logits(empty, none),
        lambda: calibrant.evaluate(empty, none),
        lambda: calibrant.evaluate(empty, none, input="logits"),
        lambda: metrics.ece(empty, none),
        lambda: calibrant.compare(empty, none, empty, none),
    ):
        with pytest.raises(ValueError, match=r"at least one row, got shape \(0, 3\)"):
            act()
