"""A calibrator of somebody else: one class and a registration give it every way out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnxruntime
import pytest
import torch
from sklearn.base import clone

import calibrant
from calibrant.calibrators import (
    REGISTRY,
    FitInfo,
    Fitted,
    LabelledLogits,
    LogitCalibrator,
    ProfileCalibrator,
    register,
)
from calibrant.calibrators.profile.losses import ProfileLoss
from calibrant.formulas import ConstantTemperature, LogitMap
from calibrant.formulas._serialization import KINDS


class Doubling(ProfileCalibrator):
    """softmax(z / 2), whatever the data say. Preserves accuracy."""

    _gives = ConstantTemperature

    def __init__(self, factor: float = 2.0, input: str = "logits") -> None:  # noqa: A002
        self.factor = factor
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return True

    def _check_parameters(self) -> None:
        if self.factor <= 0.0:
            raise ValueError(f"factor must be positive, got {self.factor}")

    def _fit_profile(self, profile: calibrant.TemperatureProfile) -> Fitted:
        after = ProfileLoss(profile, "nll").mean(-np.log(self.factor))
        return ConstantTemperature(self.factor), FitInfo(True, "nothing to fit", after=after)


@dataclass(frozen=True, eq=False)
class Shift(LogitMap):
    """softmax(z + b): a formula of their own."""

    kind: ClassVar[str] = "test.shift"

    shift: np.ndarray

    @property
    def keeps_arg_max(self) -> bool:
        return False

    @property
    def n_classes(self) -> int:
        return int(self.shift.shape[0])

    def scores(self, rows, ops):
        return rows.logits + ops.constant(self.shift, rows.logits)

    def gaps(self, rows, ops):
        return ops.gaps(self.scores(rows, ops))


class PriorCorrection(LogitCalibrator):
    """Log frequencies of the labels are added. Does not preserve accuracy."""

    _gives = LogitMap

    def __init__(self, input: str = "logits") -> None:  # noqa: A002
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        """There are none."""

    def _fit_logits(self, data: LabelledLogits) -> Fitted:
        count = np.bincount(data.labels, data.weight, data.n_classes) + 1.0
        return Shift(np.log(count / count.sum())), FitInfo(True, "exact")


@pytest.fixture(params=[Doubling, PriorCorrection])
def method(request: pytest.FixtureRequest) -> Iterator[type]:
    register(f"test-{request.param.__name__.lower()}", request.param)
    yield request.param
    REGISTRY.pop(f"test-{request.param.__name__.lower()}")


def sample() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    logits = 3.0 * rng.normal(size=(200, 4))
    return logits, (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def test_all_ways_out(method, tmp_path):
    logits, labels = sample()
    model = clone(method()).fit(logits, labels)
    expected = model.predict_proba(logits)
    np.testing.assert_allclose(expected.sum(axis=1), 1.0)
    calibrant.save(model, tmp_path / "c.safetensors")
    loaded = calibrant.load(tmp_path / "c.safetensors")
    assert type(loaded) is method
    np.testing.assert_array_equal(loaded.predict_proba(logits), expected)
    module = calibrant.torch.to_module(loaded)
    np.testing.assert_allclose(module(torch.from_numpy(logits)), expected, atol=1e-12)
    names = calibrant.onnx.export(loaded, tmp_path / "c.onnx", dtype="float64")
    session = onnxruntime.InferenceSession(tmp_path / "c.onnx")
    graph = session.run([names.probabilities], {names.input: logits})[0]
    np.testing.assert_allclose(graph, expected, atol=1e-12)
    name = f"test-{method.__name__.lower()}"
    result = calibrant.compare(logits, labels, logits, labels, methods=[name, "ts"])
    assert [one.method for one in result] == [name, "ts"]


def test_what_is_not_registered_is_not_saved_and_not_loaded(tmp_path):
    model = Doubling().fit(*sample())
    with pytest.raises(TypeError, match="Doubling is not registered"):
        calibrant.save(model, tmp_path / "c.safetensors")
    register("test-doubling", Doubling)
    calibrant.save(model, tmp_path / "c.safetensors")
    REGISTRY.pop("test-doubling")
    with pytest.raises(calibrant.FileError, match="'Doubling', which this calibrant does not know"):
        calibrant.load(tmp_path / "c.safetensors")


def test_names_are_not_taken_twice():
    with pytest.raises(ValueError, match="another calibrator's already"):
        register("ts", Doubling)
    with pytest.raises(ValueError, match="lower case"):
        register("Mine", Doubling)
    with pytest.raises(TypeError, match="a concrete class of calibrators"):
        register("mine", Doubling())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a concrete class of calibrators"):
        register("mine", LogitCalibrator)
    with pytest.raises(ValueError, match="is ConstantTemperature's already"):

        @dataclass(frozen=True)
        class Other(Shift):
            kind: ClassVar[str] = "constant-temperature"

    assert KINDS["constant-temperature"] is ConstantTemperature
