"""Runs the command line inside the test's process, or as a program of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner, Result

import calibrant
from calibrant import cli

PLAIN = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
# A function for programs: the most memory that they have held. (What ``resource`` tells of a child
# is at least what its parent held when it began.)
PEAK = """
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""
SOURCE = Path(calibrant.__file__).parents[1]  # a program must run the copy that is tested here


def run(*args: Any) -> Result:
    return CliRunner(env=PLAIN).invoke(cli.app, [str(arg) for arg in args])


def succeed(*args: Any) -> str:
    result = run(*args)
    assert result.exit_code == 0, result.output
    assert result.stderr == "", result.stderr
    return result.stdout


def as_json(*args: Any) -> Any:
    return json.loads(succeed(*args, "--json"))


def refuse(*args: Any) -> str:
    """The one line of standard error with which bad input ends."""
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
    return result.stderr


def python(code: str, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter with this copy of the package."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, "-c", code, *args], text=True, env=environment, timeout=120, **options
    )


def program(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line as a program."""
    return python("from calibrant.cli import main; main()", *args, **options)


def sample(rows: int, classes: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident logits and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes)) * 3.0
    logits[np.arange(rows), labels] += 3.0
    return logits, labels


def softmax(logits: np.ndarray) -> np.ndarray:
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def whole_archive(path: str) -> dict[str, np.ndarray]:
    with np.load(path) as archive:
        return dict(archive)
