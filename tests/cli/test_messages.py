"""Messages of commands speak of flags, never of Python's arguments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import calibrant
from calibrant import cli
from calibrant.cli._errors import in_flags
from cli_support import refuse, run, sample, softmax

GROUP: Any = typer.main.get_group(cli.app)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with val.npz."""
    monkeypatch.chdir(tmp_path)
    logits, labels = sample(200, 4)
    np.savez("val.npz", logits=logits, labels=labels, weight=np.full(200, -1.0))
    np.savez("padded.npz", logits=logits, labels=np.where(labels == 3, -100, labels))
    np.savez("probs.npz", logits=softmax(logits), labels=labels)
    np.savez("two.npz", logits=logits, probs=softmax(logits), labels=labels)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "message", "told"),
    [
        ("fit", 'If it is, say input="probs"', "If it is, say --input probs"),
        ("fit", "say ignore_index=-100", "say --ignore-index -100"),
        ("evaluate", "n_bins must be at least 1, got 0", "--n-bins must be at least 1, got 0"),
        ("fit", "n_bins must be at least 1, got 0", "--param n_bins must be at least 1, got 0"),
        ("fit", "loss must be one of 'nll'", "--param loss must be one of 'nll'"),
        ("fit", "the loss must fall", "the loss must fall"),
        ("fit", "raise max_iter. Or not", "raise --param max_iter. Or not"),
        ("compare", "a larger max_iter helps", "a larger calibrant fit --param max_iter helps"),
        (
            "fit",
            "recipe='paper' reads logits, got inputs='log-gaps'.",
            "--param recipe=paper reads logits, got --param inputs=log-gaps.",
        ),
        ("fit", "learning_rate=0.5, steps=3", "--param learning_rate=0.5, --param steps=3"),
        ("fit", "random_state=1", "--random-state 1"),
        ("fit", "sample_weight must not be zero", "weights must not be zero"),
        ("evaluate", "say which with scores_key", "say which with --scores-key"),
        ("evaluate", "with labels_path", "with --labels"),
        ("compare", "with labels_path", "with --labels or --test-labels"),
        ("export", "say n_classes: this", "say --n-classes: this"),
        ("fit", "n_bins.npz does not exist", "n_bins.npz does not exist"),
        ("fit", "a/n_bins/x has none", "a/n_bins/x has none"),
        ("fit", "x has no 'max_iter'; it has a", "x has no 'max_iter'; it has a"),
        ("fit", "the input is one of two", "the input is one of two"),
    ],
)
def test_arguments_become_flags(command: str, message: str, told: str) -> None:
    assert in_flags(message, GROUP.commands[command]) == told


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["fit", "padded.npz", "--method", "ts"], "left out: say --ignore-index -100"),
        (["evaluate", "padded.npz"], "left out: say --ignore-index -100"),
        (["compare", "val.npz", "padded.npz"], "left out: say --ignore-index -100"),
        (
            ["evaluate", "padded.npz", "--ignore-index", "-100", "--weights-key", "labels"],
            "weights must be finite and at least 0, got -100",
        ),
        (["fit", "val.npz", "--weights-key", "weight"], "weights must be finite and at least 0"),
        (["evaluate", "two.npz"], "has logits and probs: say which with --scores-key"),
        (
            ["fit", "val.npz", "--method", "pts", "--param", "top_k=0"],
            "--param top_k must be a whole number",
        ),
        (
            ["fit", "val.npz", "--method", "histogram", "--param", "n_bins=0"],
            "--param n_bins must be a whole number",
        ),
        (
            [
                "fit",
                "val.npz",
                "--method",
                "pts",
                "--param",
                "recipe=paper",
                "--param",
                "inputs=log-gaps",
            ],
            "--param recipe=paper reads the logits themselves, got --param inputs=log-gaps",
        ),
        (
            ["fit", "val.npz", "--method", "pts", "--param", "batchsize=3"],
            "it has batch_size, clip_logits, hidden, inputs, learning_rate, loss",
        ),
    ],
)
def test_errors_speak_of_flags(folder: Path, args: list[str], message: str) -> None:
    output = ["-o", "out.safetensors"] if args[0] == "fit" else []
    assert message in refuse(*args, *output)


def test_every_row_ignored(folder: Path) -> None:
    np.savez("x.npz", logits=np.zeros((5, 3)), labels=np.full(5, -100))
    line = refuse("evaluate", "x.npz", "--ignore-index", "-100")
    assert line == "error: x.npz: every label is the --ignore-index -100: no row is left\n"


def test_warnings_speak_of_flags(folder: Path) -> None:
    result = run("fit", "probs.npz", "-o", "out.safetensors", "--method", "ts")
    assert result.stderr.startswith("warning: ")
    assert result.stderr.endswith("If it is, say --input probs\n")


def test_fits_that_stop_early_speak_of_flags(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--method", "matrix", "--param", "max_iter=2"]
    result = run("fit", "val.npz", "-o", "out.safetensors", *options)
    for text in (result.stdout, result.stderr):
        assert "a larger --param max_iter or larger penalties help" in text
    assert "max_iter" in calibrant.load("out.safetensors").fit_info_.message
    monkeypatch.setitem(calibrant.calibrators.REGISTRY, "matrix", HurriedMatrix)
    text = run("compare", "val.npz", "val.npz", "--methods", "matrix").stdout
    assert "a larger calibrant fit --param max_iter or larger penalties help" in text


class HurriedMatrix(calibrant.MatrixScaling):
    """Matrix scaling that stops after two steps."""

    def __init__(self, max_iter: int = 2, input: Any = "logits") -> None:  # noqa: A002
        super().__init__(max_iter=max_iter, input=input)


def test_reproduce_speaks_of_its_own_flags(folder: Path) -> None:
    line = refuse("reproduce", "--add", "mine", "two.npz", "two.npz", "--sets", "mine")
    assert "say which with --scores-key" in line
    assert not re.search(r"\b[a-z]+_[a-z]+\b", line)
