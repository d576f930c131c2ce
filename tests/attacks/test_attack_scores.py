"""The attack on score files in short: the same program, a few cases."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import attack_scores
import score_crafting
from attack_scores import attack


def test_nothing_gets_through() -> None:
    outcomes = attack(cases=100)
    assert {kind: of.misbehaved for kind, of in outcomes.items() if of.misbehaved} == {}
    assert all(of.refused > 0 for of in outcomes.values())
    assert sum(of.served for of in outcomes.values()) > 0


@pytest.mark.slow
def test_nothing_gets_through_at_length() -> None:
    outcomes = attack(cases=3000, seed=10_000)
    assert {kind: of.misbehaved for kind, of in outcomes.items() if of.misbehaved} == {}


@pytest.mark.parametrize("suffix", score_crafting.SUFFIXES)
def test_what_was_not_changed_is_served(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"scores{suffix}"
    path.write_bytes(score_crafting.plain(suffix))
    (tmp_path / "labels.csv").write_bytes(score_crafting.plain(".csv"))
    beside = ["--input", "logits", "--labels", str(tmp_path / "labels.csv")]
    command = ["evaluate", str(path), "--n-resamples", "0", *(beside if suffix == ".npy" else [])]
    assert attack_scores.outcome(path, command) == "served"


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ({"exit_code": 1, "exception": KeyError("x")}, "exit code 1"),
        ({"stderr": "error: a\nb\n"}, "not one line"),
        ({"stderr": "error: something else\n"}, "a message without the file"),
        ({"stderr": "error: x.npz has \x1b[31m\n"}, "a control character"),
        ({"stderr": "RuntimeWarning: overflow\n", "exit_code": 0}, "served with"),
        ({"stderr": "error: x.npz is bad\n"}, "refused"),
        ({"stderr": "warning: odd\n", "exit_code": 0}, "served"),
    ],
)
def test_what_misbehaves_is_seen(printed: dict[str, Any], told: str) -> None:
    result = {"stdout": "", "stderr": "", "exit_code": 2, "exception": None, **printed}
    end = attack_scores._judged(SimpleNamespace(**result), Path("x.npz"))
    assert end.startswith(told)
