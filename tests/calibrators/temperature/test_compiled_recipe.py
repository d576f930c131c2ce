"""Steps of the published fit in machine code against the same steps in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant import PTS, LinearPTS, TemperatureProfile
from calibrant.calibrators import _network as network
from calibrant.calibrators.profile.losses import LOSSES
from calibrant.calibrators.temperature import _paper_recipe as paper

pytest.importorskip("numba")

from calibrant.backends.numba import paper_steps as code


def fits(kind: Any = PTS, **options: Any) -> Any:
    """Both fits of the same rows, NumPy's first."""

    def both(*data: Any, **how: Any) -> list[Any]:
        found, profile = [], TemperatureProfile.from_logits(*data, **how)
        for steps in (paper.NumpySteps, paper.CompiledSteps):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(paper, "_steps_for", lambda work, steps=steps: steps)
                model = kind(recipe="paper", random_state=3, **options)
                found.append(model.fit(profile))
        return found

    return both


def rows(n: int, classes: int, scale: float = 3.0, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    logits = (scale * rng.normal(size=(n, classes))).astype(np.float32)
    labels = np.where(rng.random(n) < 0.6, logits.argmax(axis=1), rng.integers(classes, size=n))
    return logits, labels


def assert_same(one: Any, other: Any, atol: float = 1e-9) -> None:
    for mine, theirs in zip(one.weights_, other.weights_, strict=True):
        np.testing.assert_allclose(theirs, mine, rtol=0, atol=atol)


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("classes", [2, 10, 16, 90])
def test_steps_are_those_of_numpy(classes: int, loss: str) -> None:
    options = {"steps": 60, "batch_size": 150, "learning_rate": 1e-3, "loss": loss}
    assert_same(*fits(**options)(*rows(470, classes)))


def test_float64_where_numpy_has_float32() -> None:
    """With 17 to 64 classes NumPy's sums are single precision, those of machine code double."""
    assert_same(*fits(steps=60, batch_size=150, learning_rate=1e-3)(*rows(470, 40)), atol=1e-5)


@pytest.mark.parametrize("classes", [10, 90])
@pytest.mark.parametrize("hidden", [(1,), (7, 3), (4, 4, 4)])
def test_any_network(classes: int, hidden: tuple[int, ...]) -> None:
    assert_same(*fits(steps=50, batch_size=64, hidden=hidden)(*rows(300, classes)))


@pytest.mark.parametrize("classes", [10, 90])
def test_linear_networks_penalties_and_weights(classes: int) -> None:
    logits, labels = rows(300, classes)
    weight = np.random.default_rng(1).exponential(size=300)
    options = {"steps": 50, "batch_size": 130, "penalty": 0.02}
    assert_same(*fits(LinearPTS, **options)(logits, labels, sample_weight=weight))
    assert_same(*fits(PTS, **options)(logits, labels, sample_weight=weight))


@pytest.mark.parametrize("size", [1e-4, 1e-2, 30.0, 1e4])
@pytest.mark.parametrize("classes", [10, 90])
def test_temperatures_beyond_the_grid(classes: int, size: float) -> None:
    """Logits of an odd size: most temperatures of the start lie outside of the nodes."""
    assert_same(*fits(steps=30, batch_size=100)(*rows(250, classes, scale=size)))


@pytest.mark.parametrize("classes", [10, 90])
def test_masked_classes_and_ties(classes: int) -> None:
    logits, labels = rows(200, classes)
    logits[:, -2:] = -np.inf
    labels %= classes - 2
    logits[::3, :4] = logits[::3, :4].max(axis=1, keepdims=True)
    assert_same(*fits(steps=40, batch_size=70)(logits, labels))


@pytest.mark.parametrize("classes", [10, 90])
def test_dead_rows_do_not_move(classes: int) -> None:
    """A network whose output is 0 for some rows: their temperature is the clip's, without slope."""
    logits, labels = rows(200, classes)
    logits[::2] -= 60.0
    inputs = np.sort(logits)[:, :-11:-1].astype(np.float64)
    start, _ = paper.draw_start(inputs, (2, 2), np.random.default_rng(3), linear=False)
    dead = network.forward(start, inputs) == 0.0
    assert dead.any()
    assert not dead.all()
    for steps in (1, 20):
        assert_same(*fits(steps=steps, batch_size=64, hidden=(2, 2))(logits, labels))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.sampled_from([3, 70]), st.integers(0, 99))
def test_any_number_of_rows(n: int, batch: int, classes: int, seed: int) -> None:
    data = rows(n, classes, seed=seed)
    assert_same(*fits(steps=12, batch_size=batch)(*data))


def test_profiles_of_several_scales() -> None:
    logits, labels = rows(300, 90)
    assert_same(*fits(steps=30, batch_size=100)(64.0 * logits, labels, scale=64.0))


@pytest.mark.parametrize("classes", [10, 90])
def test_profiles_from_files_and_in_parts(classes: int, tmp_path: Path) -> None:
    """Arrays that are mapped, read-only or joined are read like any other."""
    logits, labels = rows(300, classes)
    parts = [TemperatureProfile.from_logits(logits[at::2], labels[at::2]) for at in (0, 1)]
    joined = TemperatureProfile.concat(parts)
    calibrant.save(joined, tmp_path / "profile.safetensors")
    loaded = calibrant.load(tmp_path / "profile.safetensors")
    weights = []
    for profile in (joined, loaded):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(paper, "_steps_for", lambda work: paper.CompiledSteps)
            weights.append(PTS(recipe="paper", steps=20, batch_size=64).fit(profile).weights_)
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_who_takes_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paper._steps_for(paper.MUCH_WORK) is paper.CompiledSteps
    assert paper._steps_for(paper.MUCH_WORK - 1) is paper.NumpySteps
    monkeypatch.setenv("CALIBRANT_KERNELS", "0")
    assert paper._steps_for(paper.MUCH_WORK) is paper.NumpySteps


@given(st.floats(-745.0, 0.0))
def test_exp(x: float) -> None:
    assert code.exp(x) == pytest.approx(np.exp(x), rel=1e-15, abs=1e-307)


@given(st.floats(1e-300, 1e300))
def test_log(x: float) -> None:
    assert code.log(x) == pytest.approx(np.log(x), rel=1e-15, abs=1e-15)
