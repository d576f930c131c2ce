"""The comparison of backends in short: the same program, few classes and methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

import attack_backends
from attack_backends import KEPT, Compared, attack, compare


def problems(found: list[Compared | str]) -> list[str]:
    return [problem for one in found if isinstance(one, Compared) for problem in one.problems]


@pytest.mark.parametrize("classes", [2, 10])
def test_adaptive_methods_agree_and_stay_adaptive(classes: int) -> None:
    found = list(attack([classes], list(KEPT)))
    assert problems(found) == []
    assert len(found) == 2 * len(KEPT)


def test_methods_of_all_families_agree() -> None:
    methods = ["auto", "beta", "diag", "ets", "hts", "irova", "spline", "vector", "venn-abers"]
    found = list(attack([3], methods, offsets=[0.0]))
    assert problems(found) == []
    assert "beta of 3 classes: left out, it is for two classes" in found


@pytest.mark.slow
def test_all_methods_agree() -> None:
    assert problems(list(attack([2, 3, 100], sorted(attack_backends.REGISTRY)))) == []


def test_what_misbehaves_is_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shifted(model: Any, rows: np.ndarray) -> np.ndarray:
        probs = attack_backends.by_numpy(model, rows)
        return np.roll(probs, 1, axis=1)

    monkeypatch.setattr(attack_backends, "BACKENDS", {"shifted": shifted})
    found = compare("ts", 3)
    assert found.problems[0].startswith("shifted: ")
    assert "another arg max" in found.problems[1]
    assert attack_backends.main(["--classes", "3", "--methods", "ts"]) == 1
    assert "2 comparisons, 4 misbehaved" in capsys.readouterr().out


def test_a_method_that_falls_back_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_backends, "KEPT", {"ts": {"network": 5000}})
    monkeypatch.setattr(attack_backends, "BACKENDS", {})
    assert compare("ts", 3).problems == ["it has no network: the run shows nothing about it"]
