"""Every method through every command that takes one, on two classes and on ten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import REGISTRY
from cli_support import as_json, refuse, run, sample, succeed

PRESERVING = [name for name in REGISTRY if REGISTRY[name]().accuracy_preserving]
TWO_CLASSES = [name for name in REGISTRY if REGISTRY[name].two_classes_only]


@pytest.fixture(params=[2, 10], ids=["two-classes", "ten-classes"])
def classes(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of classes of val.npz and test.npz in the working folder."""
    monkeypatch.chdir(tmp_path)
    for seed, file in enumerate(("val.npz", "test.npz")):
        logits, labels = sample(200, request.param, seed)
        np.savez(file, logits=logits, labels=labels)
    return int(request.param)


def quietly(*args: str) -> str:
    """What a command prints where the method may warn of so few rows."""
    result = run(*args)
    assert result.exit_code == 0, result.output
    assert all(line.startswith("warning: ") for line in result.stderr.splitlines())
    return result.stdout


@pytest.mark.parametrize("method", [name for name in REGISTRY if name not in TWO_CLASSES])
def test_every_method_through_every_command(method: str, classes: int) -> None:
    check_all_commands(method, classes)


@pytest.mark.parametrize("classes", [2], indirect=True)
@pytest.mark.parametrize("method", TWO_CLASSES)
def test_methods_for_two_classes_through_every_command(method: str, classes: int) -> None:
    check_all_commands(method, classes)


def check_all_commands(method: str, classes: int) -> None:
    text = quietly("fit", "val.npz", "-o", "c.safetensors", "--method", method)
    assert f"method  {method} ({REGISTRY[method].__name__})" in text
    assert f"data    200 rows, {classes} classes, logits" in text
    fitted = calibrant.load("c.safetensors")
    has_losses = fitted.fit_info_.before is not None and fitted.fit_info_.after is not None
    assert ("\nloss    " in text) is has_losses
    succeed("apply", "c.safetensors", "test.npz", "-o", "probs.npz")
    with np.load("test.npz") as test, np.load("probs.npz") as applied:
        np.testing.assert_array_equal(applied["probs"], fitted.predict_proba(test["logits"]))
    judged = as_json("evaluate", "test.npz", "--calibrator", "c.safetensors", "--n-resamples", "0")
    assert "outputs" in as_json("export", "c.safetensors", "-o", "c.onnx")
    assert Path("c.onnx").stat().st_size > 0
    (result,) = as_json("compare", "val.npz", "test.npz", "--methods", method)["methods"]
    assert result["nll"] == pytest.approx(judged["calibrated"]["nll"])
    assert result["accuracy_preserving"] >= (method in PRESERVING)  # what chooses may turn out to


@pytest.mark.parametrize("classes", [10], indirect=True)
@pytest.mark.parametrize("method", TWO_CLASSES)
def test_ten_classes_are_too_many_for_methods_of_two(method: str, classes: int) -> None:
    message = "is for two classes, got 10"
    assert message in refuse("fit", "val.npz", "-o", "c.safetensors", "--method", method)
    assert not Path("c.safetensors").exists()
    assert message in refuse("compare", "val.npz", "test.npz", "--methods", f"base,{method}")
    calibrant.save(calibrant.calibrator(method).fit(*sample(200, 2)), "c.safetensors")
    message = "fitted with 2 classes, got 10"
    assert message in refuse("apply", "c.safetensors", "test.npz", "-o", "probs.npz")
    assert message in refuse("evaluate", "test.npz", "--calibrator", "c.safetensors")
    assert message in refuse("export", "c.safetensors", "-o", "c.onnx", "--n-classes", "10")
    assert not Path("probs.npz").exists()
    assert not Path("c.onnx").exists()
